"""Asset checks of the data; one is blocking if its failure makes later work worthless."""

import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from inspect import getdoc
from textwrap import shorten

import dagster as dg
import polars as pl

from cpmi_dagster.benchmarks.registry import shared_questions
from cpmi_dagster.contracts.keys import (
    FIGURES,
    LOGPROBS,
    NEGATIVES,
    OWN_LABELS,
    PROBLEMS,
    REJECTED_ROWS,
    REJECTED_TRAJECTORIES,
    REPORT,
    SELECTED,
    SOFT_LABELS,
    TRAJECTORIES,
)
from cpmi_dagster.contracts.report_tables import TOPIC_OF
from cpmi_dagster.errors import SourceError
from cpmi_dagster.profiles.partitions import is_needed, partitions_of
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.reports.benchmark_tables import against_chance
from cpmi_dagster.reports.figures import ABOVE, BELOW, format_estimate
from cpmi_dagster.reports.paper import CEILING_ROW, CONTROL_ROWS, FLOOR_ROW, main_rows
from cpmi_dagster.resources.dag.instance import hold_run
from cpmi_dagster.resources.dag.stage import asset_key
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.rewards.registry import REWARD_TYPES
from cpmi_dagster.selection import GSM8K, MIXED, lift_constraints
from cpmi_dagster.trajectories.step_labels import external_rewards, notes_on_others

SCORED = (LOGPROBS, REJECTED_TRAJECTORIES)
EXAMPLE = 100
"""Characters of a question in a message."""
LOWEST_MATCH_RATE = 0.9
RATIO_TOLERANCE = 0.02
DISTRIBUTION = "distribution"
"""The artifact that says whether reward models beat chance."""


def _rows(lake: Lake, table: str, settings: Settings) -> pl.DataFrame:
    """Rows of the profile's partitions that are whole."""
    return lake.read(table, _made(lake, partitions_of(table, settings) or (), table))


def _made(lake: Lake, partitions: Sequence[str], *tables: str) -> list[str]:
    """The partitions of which all tables are whole; another is made again by its own run, and stops no check."""
    return [name for name in partitions if all(lake.is_whole(table, name) for table in tables)]


def match_rate(lake: Lake, settings: Settings) -> dg.AssetCheckResult:
    """At least nine rows in ten have a gold answer, their own or that of the matching reference."""
    kept = _rows(lake, TRAJECTORIES, settings).height
    rejected = _rows(lake, REJECTED_ROWS, settings).height
    rate = kept / (kept + rejected) if kept + rejected else 0.0
    return dg.AssetCheckResult(
        passed=rate >= LOWEST_MATCH_RATE,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{kept:,} of {kept + rejected:,} rows can be read, have a gold answer, and can be labelled; "
        "`alignment.rejected_rows` says why the others cannot",
        metadata={"match_rate": rate},
    )


def selection_keeps_ratios(lake: Lake, settings: Settings) -> dg.AssetCheckResult:
    """The ratios GSM8K : MATH and mixed : pure match the profile, as far as tasks and labels are known."""
    chosen = lake.read(SELECTED)
    selection, lifted = lift_constraints(settings.selection, _rows(lake, TRAJECTORIES, settings))
    wanted = {
        "gsm8k_share": (selection.gsm8k_share, chosen["task"].str.to_uppercase() == GSM8K),
        "mixed_share": (selection.mixed_share, chosen["composition"] == MIXED),
    }
    actual = {name: float(hits.sum()) / max(chosen.height, 1) for name, (_, hits) in wanted.items()}
    # shares are rounded to whole trajectories
    tolerance = max(RATIO_TOLERANCE, 1 / max(chosen.height, 1))
    off = [n for n, (share, _) in wanted.items() if share is not None and abs(actual[n] - share) > tolerance]
    return dg.AssetCheckResult(
        passed=not off and chosen.height > 0,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={**actual, "lifted": "; ".join(lifted) or "nothing"},
    )


def own_labels_fit_the_selection(lake: Lake, settings: Settings) -> dg.AssetCheckResult:
    """The user's own labels cover every step of every selected trajectory; checked before models run.

    Raises:
        Failure: they do not; names the first trajectory.
    """
    names = settings.sources.step_labels
    if names:
        trajectories = _rows(lake, TRAJECTORIES, settings).join(lake.read(SELECTED), on="trajectory_id", how="semi")
        try:
            external_rewards(lake.read(OWN_LABELS), trajectories)
        except SourceError as error:
            raise dg.Failure(description=str(error), allow_retries=False) from error
    others = notes_on_others(lake.read(OWN_LABELS), lake.read(SELECTED)) if names else []
    shown = {"labels": ", ".join(names) or "none"}
    return dg.AssetCheckResult(passed=True, description="; ".join(others) or None, metadata=shown)


def no_benchmark_question_is_trained_on(lake: Lake, settings: Settings) -> dg.AssetCheckResult:
    """No selected trajectory has a question of a benchmark; only a warning if the benchmark is known to share some."""
    if is_needed(PROBLEMS, settings) and not lake.has_table(PROBLEMS):
        unread = f"not checked yet: {PROBLEMS} has not been made; materialize it, and this check runs again with it"
        return dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.WARN, description=unread)
    problems = lake.read(PROBLEMS)
    trajectories = _rows(lake, TRAJECTORIES, settings).join(lake.read(SELECTED), on="trajectory_id", how="semi")
    shared = shared_questions(trajectories, problems)
    refused = shared.filter(~pl.col("tolerated"))
    return dg.AssetCheckResult(
        passed=shared.is_empty(),
        severity=dg.AssetCheckSeverity.WARN if refused.is_empty() else dg.AssetCheckSeverity.ERROR,
        description=_words_on_shared(shared if refused.is_empty() else refused, trajectories.height),
        metadata=dict(shared.select("benchmark", "problems").iter_rows()),
    )


def _words_on_shared(shared: pl.DataFrame, selected: int) -> str | None:
    """The number of shared questions by benchmark, an example, and what to do."""
    if shared.is_empty():
        return None
    first = shared.row(0, named=True)
    counts = ", ".join(
        f"{problems:,} of the problems of {name} (asked by {asking:,} of {selected:,} selected trajectories)"
        for name, problems, asking in shared.select("benchmark", "problems", "trajectories").iter_rows()
    )
    # the UI shows a description as Markdown, which backquotes switch off
    example = shorten(first["example"], EXAMPLE, placeholder=" …").replace("`", "'")
    advice = "this benchmark takes questions from training splits: keep that in mind when you read its figures"
    if not first["tolerated"]:
        advice = "remove the rows of these questions from the source at sources.trajectories, or "
        advice += f"{first['benchmark']} from sources.benchmarks"
    return f"reward models would be trained on {counts}, for example on `{example}`; {advice}"


def negatives_differ_from_gold(lake: Lake, settings: Settings, shards: Sequence[str]) -> dg.AssetCheckResult:
    """No hard negative is the gold answer, and no trajectory has one twice."""
    same = repeated = 0
    for shard in _made(lake, shards, NEGATIVES, TRAJECTORIES):
        negatives = lake.read(NEGATIVES, shard, ["trajectory_id", "answer"])
        gold = lake.read(TRAJECTORIES, shard, ["trajectory_id", "gold_answer"])
        same += negatives.join(gold, on="trajectory_id").filter(pl.col("answer") == pl.col("gold_answer")).height
        repeated += negatives.height - negatives.n_unique()
    return dg.AssetCheckResult(passed=same + repeated == 0, metadata={"equal_to_gold": same, "repeated": repeated})


def every_trajectory_scored(lake: Lake, settings: Settings, shards: Sequence[str]) -> dg.AssetCheckResult:
    """Each selected trajectory of a finished shard has finite log-probabilities, or a reason for having none."""
    wanted = missing = infinite = reasons = unlabelled = 0
    for shard in _made(lake, shards, *SCORED):  # shard by shard: all rows may not fit into memory
        logprobs = lake.read(SCORED[0], shard, ["trajectory_id", "logprob_sum"])
        rejected = lake.read(SCORED[1], shard, ["trajectory_id"])
        selected = lake.read(SELECTED, shard, ["trajectory_id"])
        seen = pl.concat([logprobs["trajectory_id"], rejected["trajectory_id"]])
        wanted += selected.height
        missing += selected.filter(~pl.col("trajectory_id").is_in(seen.unique().implode()))["trajectory_id"].n_unique()
        infinite += int((~logprobs["logprob_sum"].is_finite()).sum())
        reasons += rejected.height
        unlabelled += rejected["trajectory_id"].n_unique()
    broken = missing + infinite
    return dg.AssetCheckResult(
        passed=not broken and not unlabelled,
        # one that cannot be scored has its reason, and stops no other
        severity=dg.AssetCheckSeverity.ERROR if broken else dg.AssetCheckSeverity.WARN,
        description=f"{unlabelled:,} of {wanted:,} trajectories lack labels; `labels.rejected_trajectories` says why"
        if unlabelled
        else None,
        metadata={"missing": missing, "not_finite": infinite, "rejected": reasons},
    )


def soft_labels_vary(lake: Lake, settings: Settings) -> dg.AssetCheckResult:
    """No reward type gives every step the same label; a model could learn nothing from it.

    A free control that no model learns from may: `final_answer` does where all solutions end in the gold answer.
    """
    trained = {recipe.reward_type for recipe in settings.recipes}
    spread = lake.read(SOFT_LABELS).group_by("reward_type").agg(spread=pl.col("soft_label").std()).sort("reward_type")
    constant = spread.filter(pl.col("spread").fill_null(0) == 0)["reward_type"].to_list()
    spared = {name for name, entry in REWARD_TYPES.items() if entry.is_free} - trained
    wrong = [name for name in constant if name not in spared]
    said = f"every step has the same label by {', '.join(wrong)}; give more solutions, or solutions of more steps"
    return dg.AssetCheckResult(
        passed=not wrong,
        metadata={"constant": ", ".join(constant) or "none"},
        description=said if wrong else None,
    )


def reward_models_beat_chance(lake: Lake, settings: Settings) -> dg.AssetCheckResult:
    """The best step AUC on labels is clearly better than chance, and no reward model with real labels clearly worse."""
    trained = [row.row for row in main_rows(settings.recipes)]
    scores = lake.read(FIGURES, TOPIC_OF[DISTRIBUTION]).filter(pl.col("row").is_in(trained), artifact=DISTRIBUTION)
    models = against_chance(scores)
    best = [side for row, (_, side) in models.items() if row != CEILING_ROW][-1:]
    worse = [row for row, (_, side) in models.items() if side == BELOW and row not in {*CONTROL_ROWS, FLOOR_ROW}]
    return dg.AssetCheckResult(
        passed=best in ([], [ABOVE]) and not worse,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={row: f"step AUC {format_estimate(auc, 3)}: {side} chance" for row, (auc, side) in models.items()},
    )


@dataclass(frozen=True)
class TableCheck:
    """A check of a table.

    Attributes:
        table: key of the table.
        body: gives the check its name and description.
        reads: key of a further table that it reads.
        blocking: a failure stops what follows.
        by_shard: it runs for each shard as that is made; the body takes the shards.
    """

    table: str
    body: Callable[..., dg.AssetCheckResult]
    reads: str | None = None
    blocking: bool = False
    by_shard: bool = False

    def bind(self, lake: Lake, settings: Settings, prefix: Sequence[str] = ()) -> dg.AssetChecksDefinition:
        """The check of the table's asset; `prefix` is that of the asset keys."""

        def compute(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
            hold_run(settings, context.op_execution_context.run.run_id, prefix)
            shards = [[context.op_execution_context.partition_key]] if self.by_shard else []
            return self.body(lake, settings, *shards)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.PreviewWarning)  # of checks with partitions
            return dg.asset_check(
                name=self.body.__name__,
                description=getdoc(self.body),
                asset=asset_key(self.table, prefix),
                additional_deps=[asset_key(self.reads, prefix)]
                if self.reads and is_needed(self.reads, settings)
                else None,
                blocking=self.blocking,
                partitions_def=dg.StaticPartitionsDefinition(settings.shard_keys) if self.by_shard else None,
            )(compute)


CHECKS = (
    TableCheck(SELECTED, match_rate),
    TableCheck(SELECTED, selection_keeps_ratios),
    TableCheck(SELECTED, own_labels_fit_the_selection, blocking=True),
    TableCheck(SELECTED, no_benchmark_question_is_trained_on, reads=PROBLEMS, blocking=True),
    TableCheck(NEGATIVES, negatives_differ_from_gold, by_shard=True),
    TableCheck(LOGPROBS, every_trajectory_scored, by_shard=True),
    TableCheck(SOFT_LABELS, soft_labels_vary, blocking=True),
    TableCheck(REPORT, reward_models_beat_chance),
)


def blocked(lake: Lake, settings: Settings, tables: Collection[str]) -> list[str]:
    """A sentence for each blocking check of some tables that fails, as Dagster's run of them would end."""
    sentences = []
    for check in CHECKS:
        if check.blocking and check.table in tables:
            try:
                result = check.body(lake, settings)
            except dg.Failure as failure:
                sentences.append(f"{check.table}: {failure.description}")
                continue
            if not result.passed and result.severity == dg.AssetCheckSeverity.ERROR:
                sentences.append(f"{check.table}: {check.body.__name__}: {result.description}")
    return sentences
