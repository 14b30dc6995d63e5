"""When labels work: three questions that were fixed beforehand, label AUC by groups of steps, templates, section 4.2.

`label_evidence` answers the questions of `docs/evidence.md`. The first row is the one test; the p-values of the others
have Holm's beside them.

    row                                                  CPMI   Compared with   Difference            p      p (Holm)
    (a) First wrong step found, and the best free label  0.24   0.22             0.02 [-0.06, 0.10]   0.62
    (c) Label AUC, and MC's                              0.77   0.89            -0.12 [-0.15, -0.09]  0.002  0.006

`label_auc` has a row for each group of steps, which names its grouping first, and a column for each label:

    row                               CPMI
    Position: First steps             0.61
    Kind: Calculation                 0.74    right steps against wrong ones of this kind
    Operations: 0 left                0.97    after the step
    Knowledge: Lowest third           0.58    without last steps
    Labeler: Prover                   0.64    of the labels that this model made

Knowledge is the probability of the gold answer among itself and the hard negatives, before any step is read, as mean
over templates: 1 / (M + 1) where the labeler knows nothing.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.label_quality import IS_LAST, PLACES, STEP, common_steps, label_aucs
from cpmi_dagster.benchmarks.resampling import Difference, Estimate, Floats, Resampled, bootstrap, bootstrap_mean, holm
from cpmi_dagster.contracts.keys import LOGPROBS, SCORES, STEP_REWARDS, TRAJECTORIES
from cpmi_dagster.reports.inputs import Measurement, ReportInputs, measured_frame, measurement, p_value
from cpmi_dagster.reports.labels import (
    LABEL_AUC,
    WITHOUT_LAST,
    auc_figures,
    best_anew,
    first_errors_found,
    in_order,
    steps_with_truth,
)
from cpmi_dagster.reports.paper import ADJUSTED_P_VALUE, DIFFERENCE, P_VALUE
from cpmi_dagster.reports.reward_rows import BASELINE_TYPE, METHOD, METHOD_TYPE
from cpmi_dagster.rewards.formulas import template_mean
from cpmi_dagster.rewards.registry import REWARD_TYPES, reward_label
from cpmi_dagster.scoring.conditionings import candidate_logprobs, jeffreys_divergences

POSITION, KIND, OPERATIONS, KNOWLEDGE, LABELER = ("Position", "Kind", "Operations", "Knowledge", "Labeler")
GROUPINGS = {
    POSITION: "By the position of the step",
    KIND: "Right steps against wrong ones of each kind",
    OPERATIONS: "By the operations left to do after the step",
    KNOWLEDGE: "Without last steps, by what the labeler knows of the answer",
    LABELER: "By the model that made the labels",
}
"""What begins the label of a row of `label_auc`, and the title of its rows."""
MOST_LEFT = 3
"""Operations left to do from which steps are taken together."""
OPERATION_ROWS = tuple(
    f"{OPERATIONS}: {words}" for words in (*(f"{count} left" for count in range(MOST_LEFT)), f"{MOST_LEFT} or more")
)
THIRDS = ("Lowest third", "Middle third", "Highest third")
HALF_KNOWN = (0.05, 0.95)
"""Probabilities of the gold answer between which CPMI can work: it can still rise, and fall."""
MEDIAN, UNSURE = "Median p(gold among candidates)", f"Between {HALF_KNOWN[0]} and {HALF_KNOWN[1]} (%)"
LABELERS = {
    "Labeler": (LOGPROBS, {"MC": "mc", "CPMI": "cpmi", "CPMI (logsumexp)": "cpmi_logsumexp"}),
}
"""By model: where its log-probabilities are, and the reward types that it made, by column."""


OTHER, APART = "Compared with", "Difference"
WITHIN = "(a) First wrong step found, and the best free label"
ACROSS = "(a) Label AUC without last steps, and the best free label"
BY_KNOWLEDGE = "(b) Label AUC without last steps, most and least known third"
TO_MC = "(c) Label AUC, and MC's"
SIZE, RANKS, NEGATIVE = f"|{METHOD}|", "Spearman", "Negative"
MARGIN = 0.05
"""Difference in AUC within which labels count as equal."""


def gold_probabilities(inputs: ReportInputs, table: str = LOGPROBS) -> pl.DataFrame:
    """p(gold among candidates | question) of each trajectory, mean over templates.

    Args:
        table: key of a table of answer log-probabilities, which is read shard by shard.

    Returns:
        trajectory_id, knowledge in [0, 1].
    """
    return pl.concat(
        candidate_logprobs(logprobs.filter(pl.col("context") == "question"))
        .filter(pl.col("answer_rank") == 0)
        .group_by("trajectory_id", maintain_order=True)
        .agg(knowledge=pl.col("among_candidates").exp().mean())
        for logprobs in inputs.by_shard(table)
    )


def aucs_by_knowledge(inputs: ReportInputs, steps: pl.DataFrame) -> list[dict[str, Resampled]]:
    """Label AUC without last steps, by reward type, in each third by what the labeler knows of the question's answer.

    Args:
        steps: rows of `labelled_steps`.

    Returns:
        From the third that it knows least; nothing where the labeler scored no answers.
    """
    known = steps.filter(~IS_LAST).join(gold_probabilities(inputs), on="trajectory_id")
    if known.is_empty():
        return []
    known = known.with_columns(pl.col("knowledge").mean().over("question_id"))  # a question is in one third alone
    bounds = np.quantile(known.unique("trajectory_id")["knowledge"].to_numpy(), [1 / 3, 2 / 3])
    third = pl.sum_horizontal(pl.col("knowledge") > bound for bound in bounds.tolist())
    return [
        label_aucs(known.filter(third == number), inputs.bootstrap_samples, inputs.seed + number)
        for number in range(len(THIRDS))
    ]


def measure_label_auc(inputs: ReportInputs) -> pl.DataFrame:
    """Label AUC by groups of steps: position, kind of error, operations left, knowledge, labeler."""
    steps = steps_with_truth(inputs)
    if steps.is_empty():
        return measured_frame([])
    measured: list[Measurement] = []
    groups = {f"{POSITION}: {place.capitalize()} steps": is_there for place, is_there in PLACES.items()}
    if "kind" in steps.columns:
        kinds = steps["kind"].drop_nulls().unique().sort()
        groups |= {f"{KIND}: {kind.capitalize()}": pl.col("correct") | (pl.col("kind") == kind) for kind in kinds}
    if "operations_left" in steps.columns:
        left = pl.col("operations_left").clip(upper_bound=MOST_LEFT)
        groups |= {row: left == count for count, row in enumerate(OPERATION_ROWS)}
    for row, is_in in groups.items():
        measured += auc_figures(label_aucs(steps.filter(is_in), *inputs.draws), row=row)
    thirds = aucs_by_knowledge(inputs, steps)
    for words, aucs in zip(THIRDS, thirds, strict=bool(thirds)):
        measured += auc_figures(aucs, row=f"{KNOWLEDGE}: {words}")
    for name in in_order(thirds[0] if thirds else ()):
        if name in thirds[-1]:
            apart = thirds[-1][name].minus_unpaired(thirds[0][name])
            measured.append(measurement(f"{KNOWLEDGE}: Highest{DIFFERENCE}lowest", reward_label(name), apart))
    for model, (table, types) in LABELERS.items():
        known = gold_probabilities(inputs, table)["knowledge"].to_numpy()
        if not len(known):
            continue
        unsure = float(np.mean((known > HALF_KNOWN[0]) & (known < HALF_KNOWN[1])))
        measured += [
            Measurement(f"{LABELER}: {model}", MEDIAN, float(np.median(known)), n=len(known)),
            Measurement(f"{LABELER}: {model}", UNSURE, 100 * unsure, n=len(known)),
        ]
        own = steps.filter(pl.col("reward_type").is_in(types.values()))
        for suffix, part in (("", own), (f", {WITHOUT_LAST.lower()}", own.filter(~IS_LAST))):
            aucs = label_aucs(part, *inputs.draws)
            measured += [
                measurement(f"{LABELER}: {model}{suffix}", column, aucs[name].estimate())
                for column, name in types.items()
                if name in aucs
            ]
    return measured_frame(measured)


def measure_templates(inputs: ReportInputs) -> pl.DataFrame:
    """CPMI by each template alone and by the first few: its label AUC, and its rank correlation with that of all."""
    scores = inputs.table(SCORES).filter(pl.col("conditioning") == inputs.default_conditioning)
    everything = template_mean(scores, pl.col("cpmi"))
    truth = steps_with_truth(inputs)
    if truth.height:  # every step once
        truth = truth.drop("reward", "reward_type").unique(STEP, maintain_order=True)
    templates = scores["template"].unique().sort().to_list()
    rows = {f"Template {template + 1}": [template] for template in templates}
    rows |= {f"First {count}": templates[:count] for count in range(2, len(templates) + 1)}
    measured: list[Measurement] = []
    for row, chosen in rows.items():
        rewards = template_mean(scores.filter(pl.col("template").is_in(chosen)), pl.col("cpmi"))
        both = rewards.join(everything, on=STEP, suffix="_all").join(questions_of(inputs), on="trajectory_id")
        alike = correlation(both["reward"].rank(), both["reward_all"].rank(), both["question_id"], inputs)
        measured.append(measurement(row, "Rank correlation with all", alike))
        if truth.height:
            steps = rewards.join(truth, on=STEP).with_columns(reward_type=pl.lit(row))
            for column, part in ((LABEL_AUC, steps), (WITHOUT_LAST, steps.filter(~IS_LAST))):
                aucs = label_aucs(part, *inputs.draws)
                measured += [measurement(row, column, auc.estimate()) for auc in aucs.values()]
    return measured_frame(measured)


def measure_jeffreys(inputs: ReportInputs) -> pl.DataFrame:
    """Rank correlation of CPMI, and of its size, with the Jeffreys divergence that section 4.2 says it estimates.

    And the share of steps where CPMI is negative, which the divergence never is.
    """
    rewards = inputs.table(STEP_REWARDS).filter(reward_type="cpmi")
    divergences = pl.concat(
        jeffreys_divergences(
            logprobs.join(rewards, on="trajectory_id", how="semi", maintain_order="left"), inputs.default_conditioning
        )
        for logprobs in inputs.by_shard(LOGPROBS)
    )
    joined = rewards.join(divergences, on=STEP).join(questions_of(inputs), on="trajectory_id")
    if joined.is_empty():
        return measured_frame([])
    divergence, questions = joined["divergence"], joined["question_id"]
    measured: list[Measurement] = []
    for row, term in ((METHOD, joined["reward"]), (SIZE, joined["reward"].abs())):
        spearman = correlation(term.rank(), divergence.rank(), questions, inputs)
        pearson = correlation(term, divergence, questions, inputs)
        measured += [measurement(row, RANKS, spearman), measurement(row, "Pearson", pearson)]
    is_negative = bootstrap_mean((joined["reward"] < 0).to_numpy(), *inputs.draws, questions.to_numpy())
    return measured_frame([*measured, measurement(METHOD, NEGATIVE, is_negative.estimate())])


def questions_of(inputs: ReportInputs) -> pl.DataFrame:
    """trajectory_id, question_id."""
    return inputs.table(TRAJECTORIES).select("trajectory_id", "question_id")


def correlation(one: pl.Series, other: pl.Series, questions: pl.Series, inputs: ReportInputs) -> Estimate:
    """Pearson's correlation, resampled over questions."""
    x, y = (values.to_numpy().astype(np.float64) - float(np.mean(values.to_numpy())) for values in (one, other))
    sums = np.column_stack([np.ones_like(x), x, y, x * x, y * y, x * y])

    def pearson(totals: Floats) -> Floats:
        n, x, y, xx, yy, xy = np.moveaxis(totals, -1, 0)
        spread = np.sqrt(np.maximum((n * xx - x * x) * (n * yy - y * y), 0))
        return (n * xy - x * y) / np.where(spread > 0, spread, np.nan)

    return bootstrap(sums, pearson, *inputs.draws, questions.to_numpy()).estimate()


Answer = tuple[str, Resampled, Resampled, Difference]
"""Row label, a figure of CPMI, what it is compared with, and the difference."""


def measure_evidence(inputs: ReportInputs) -> pl.DataFrame:
    """The questions that the profile's labels and truth can answer; none where no truth is known."""
    steps = steps_with_truth(inputs)
    if steps.is_empty() or METHOD_TYPE not in steps["reward_type"]:
        return measured_frame([])
    answers = list(_answers(inputs, steps))
    others = {row: difference.p_value for row, *_, difference in answers if row != WITHIN}
    p_values = dict(zip(others, holm(list(others.values())), strict=True))
    measured: list[Measurement] = []
    for row, ours, other, difference in answers:
        measured += [
            measurement(row, METHOD, ours.estimate()),
            measurement(row, OTHER, other.estimate()),
            measurement(row, APART, difference),
            p_value(row, APART + P_VALUE, difference.p_value, difference),
        ]
        if row in p_values:
            measured.append(p_value(row, APART + ADJUSTED_P_VALUE, p_values[row], difference))
    return measured_frame(measured)


def _answers(inputs: ReportInputs, steps: pl.DataFrame) -> Iterator[Answer]:
    ours = steps.filter(reward_type=METHOD_TYPE)
    free = [name for name, entry in REWARD_TYPES.items() if entry.is_free]
    controls = steps.filter(pl.col("reward_type").is_in(free)).join(ours, on="trajectory_id", how="semi")
    candidates = pl.concat([ours, controls])
    yield from _to_best(WITHIN, first_errors_found(candidates, inputs))
    yield from _to_best(ACROSS, label_aucs(candidates.filter(~IS_LAST), *inputs.draws))
    if thirds := aucs_by_knowledge(inputs, ours):
        least, most = (third.get(METHOD_TYPE) for third in (thirds[0], thirds[-1]))
        if least and most:
            yield BY_KNOWLEDGE, most, least, most.minus_unpaired(least)
    both = label_aucs(common_steps(steps, METHOD_TYPE, BASELINE_TYPE), *inputs.draws)
    if len(both) == 2:
        yield TO_MC, both[METHOD_TYPE], both[BASELINE_TYPE], both[METHOD_TYPE].minus(both[BASELINE_TYPE])


def _to_best(row: str, figures: Mapping[str, Resampled]) -> Iterator[Answer]:
    """The method against the best of the other types, chosen again in every resample."""
    others = [figure for name, figure in figures.items() if name != METHOD_TYPE]
    if others and METHOD_TYPE in figures:
        best = best_anew(others)
        yield row, figures[METHOD_TYPE], best, figures[METHOD_TYPE].minus(best)
