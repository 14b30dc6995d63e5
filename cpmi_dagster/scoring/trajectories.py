"""Score a table or a file of trajectories: polars out, or Parquet.

>>> frame = pl.DataFrame({
...     "id": ["a"], "question": ["Ana has 48 shells and finds half as many. How many has she?"],
...     "steps": [["48 / 2 = 24", "48 + 24 = 72"]], "gold_answer": ["72"], "negative_answers": [["24", "74"]],
... })
>>> score_trajectories(frame, "miniature:labeler")
id  step_index  conditioning  template  gold_shift  negative_shift  cpmi
a            0  marginal             0         ...             ...   ...
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict, TypeVar, Unpack, get_type_hints

import polars as pl
from pydantic import ValidationError

from cpmi_dagster.answers.comparison import BUILT_IN
from cpmi_dagster.contracts.contexts import Conditioning
from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.contracts.tables import HardNegatives
from cpmi_dagster.errors import ScoringError, SettingsError, SourceError, first_complaint
from cpmi_dagster.files.text import cut
from cpmi_dagster.files.whole_files import whole_file
from cpmi_dagster.models.language_models import LoadedModel, load_language_model
from cpmi_dagster.negatives.settings import Negatives
from cpmi_dagster.scoring.conditionings import template_scores
from cpmi_dagster.scoring.logprobs import answer_logprobs
from cpmi_dagster.scoring.settings import Reader, Scoring
from cpmi_dagster.trajectories.given_rows import GivenRows, read_table, without_trajectory

Group = TypeVar("Group", bound=Frozen)
BATCH_SEQUENCES, LONGEST_SHOWN = 64, 200
ANSWERS = ("gold_answer", "negative_answers")
OTHER_FORMATS = (".csv", ".tsv", ".json", ".jsonl")
logger = logging.getLogger(__name__)


class LabelerOptions(TypedDict, total=False):
    """Options of reading trajectories with the labeler; all may be left out.

    Attributes:
        templates: use the first `templates` of the paper's four prompts; default 4.
        scorer: tree (packed; default), or reference: one sequence per context and answer, for models that cannot read
            token trees.
        negatives: hard negatives to sample if a row lists none; default 4.
        seed: seed of the sampled negatives; default 0.
        device: auto (default) or a torch device; ignored for a loaded model.
        dtype: auto (default), float32, bfloat16 or float16; ignored for a loaded model.
        row_tokens: tokens of a packed row; by free memory if not given.
        reader: how the model reads token trees; auto (default) = by hardware and model.
        revision: hub commit; ignored for a loaded model.
        device_map: accelerate's, for a model larger than one device; ignored for a loaded model.
        layout: paper (default), or released: numbered steps, blank lines between pieces, the bare answer as target.
        progress: called with the number of trajectories just finished.
    """

    templates: int
    scorer: Literal["tree", "reference"]
    negatives: int
    seed: int
    device: str
    dtype: str
    row_tokens: int
    reader: Reader
    revision: str
    device_map: str
    layout: Literal["paper", "released"]
    progress: Callable[[int], None] | None


class ScoreOptions(LabelerOptions, total=False):
    """Options of scoring: those of `LabelerOptions`, and the conditionings.

    Attributes:
        conditionings: which steps stand between question and answer; default marginal, incremental, prefix.
    """

    conditionings: Sequence[Conditioning]


@dataclass(frozen=True)
class ScoredTrajectories:
    """Scores, their log-probabilities, and the rejected trajectories.

    Attributes:
        scores: id, step_index, conditioning, template, gold_shift, negative_shift, cpmi (nats per token).
        logprobs: id, template, context, step_index, answer_rank (0 = gold), logprob_sum, token_count.
        rejected: id, stage, reason.
    """

    scores: pl.DataFrame
    logprobs: pl.DataFrame
    rejected: pl.DataFrame


def score_trajectories(
    trajectories: Any, model: str | Path | LoadedModel, **options: Unpack[ScoreOptions]
) -> pl.DataFrame:
    """CPMI of every step of every trajectory (Eq. 3). A trajectory that cannot be scored never stops the others.

    Args:
        trajectories: a table as for `label`, in any form that it reads. Negative answers (`negative_answers`, a list)
            are sampled if a row lists none; with them, nothing is generated and the result is deterministic.
            Those that equal the gold answer, or an earlier one, are left out.
        model: the labeler: local folder, GGUF file, hub id, `miniature:labeler`, or a loaded model.
        options: see `ScoreOptions`.

    Returns:
        id, step_index, conditioning, template, gold_shift, negative_shift, cpmi (nats per token); one row per step,
        conditioning and template. A warning names trajectories that were not scored; `score_in_full` returns them.

    Raises:
        ScoringError: the trajectories are no table, or none of them can be scored.
        SettingsError: an option, or the value of one, does not exist.
        ModelError: the model cannot be loaded, or cannot read token trees.
    """
    result = score_in_full(trajectories, model, **options)
    for name, reason in result.rejected.select("id", "reason").iter_rows():
        logger.warning("%s was not scored: %s", name, reason)
    return result.scores


def score_in_full(
    trajectories: Any, model: str | Path | LoadedModel, **options: Unpack[ScoreOptions]
) -> ScoredTrajectories:
    """`score_trajectories`, with log-probabilities and rejected trajectories; the same errors.

    Args:
        trajectories: as there, or rows that have been read already.
    """
    check_options(options, ScoreOptions)
    scoring = settings_of(Scoring, options)
    given = trajectories if isinstance(trajectories, GivenRows) else read_table(trajectories)
    if progress := options.get("progress"):
        progress(given.rejected.height)
    prepared = prepare_trajectories(given.trajectories, model, options)
    answers = answer_logprobs(given.trajectories, prepared.negatives, prepared.model, scoring, progress)
    scores = template_scores(answers.logprobs, scoring.conditionings)
    refused = answers.rejected.with_columns(
        reason=pl.Series(starmap(without_trajectory, answers.rejected.select("reason", "trajectory_id").iter_rows()))
    )
    names = given.trajectories.select("trajectory_id", "id", "row_number")
    refused = refused.join(names, on="trajectory_id").select("row_number", "id", "stage", "reason")
    rejected = pl.concat([given.rejected.select(refused.columns), refused]).sort("row_number").drop("row_number")
    if given.rows and scores.is_empty():
        name, reason = rejected.select("id", "reason").row(0)
        raise ScoringError(f"none of the {len(given.rows):,} trajectories could be scored; the first, {name}: {reason}")
    return ScoredTrajectories(_with_ids(scores, names), _with_ids(answers.logprobs, names), rejected)


def score_file(
    model: str,
    given: GivenRows,
    output: Path,
    logprobs_output: Path | None,
    advance: Callable[[int, int], None],
    **options: Unpack[ScoreOptions],
) -> ScoredTrajectories:
    """`cpmi score`: score the rows of a file; the output files, Parquet, appear whole or not at all.

    Args:
        advance: called with the number of trajectories just finished and the number of all.

    Raises:
        SourceError: an output has the name of another format, or cannot be written.
        ScoringError: no trajectory could be scored.
    """
    outputs = [path for path in (output, logprobs_output) if path is not None]
    for path in outputs:
        if path.suffix in OTHER_FORMATS:
            raise SourceError(f"the output {path} is written as Parquet; give it a name that ends in .parquet")
    options["progress"] = lambda count: advance(count, len(given.rows))
    result = score_in_full(given, model, **options)
    for path, rows in zip(outputs, (result.scores, result.logprobs), strict=False):
        with whole_file(path) as unfinished:
            rows.write_parquet(unfinished)
    return result


def _with_ids(rows: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Rows with the user's ids in place of trajectory ids, in the same order."""
    joined = rows.join(names.select("trajectory_id", "id"), on="trajectory_id", how="left", maintain_order="left")
    return joined.select("id", *rows.columns[1:])


class Prepared(NamedTuple):
    """The labeler, and rows of `labels.hard_negatives`."""

    model: LoadedModel
    negatives: pl.DataFrame


def prepare_trajectories(
    trajectories: pl.DataFrame, model: str | Path | LoadedModel, options: LabelerOptions, with_negatives: bool = True
) -> Prepared:
    """Load the model, and sample hard negatives of trajectories that list none; errors as of `score_trajectories`.

    Listed ones that equal the gold answer, or an earlier one, are left out, with a warning.

    Args:
        trajectories: trajectory_id, question, steps, gold_answer, negative_answers.
        with_negatives: hard negatives are needed.
    """
    sampling = sampled_negatives(options)
    loaded = model if isinstance(model, LoadedModel) else load_named_model(model, options)
    if not with_negatives:
        return Prepared(loaded, HardNegatives.create_empty())
    listed = trajectories.select(pl.col("id" if "id" in trajectories.columns else "trajectory_id"), *ANSWERS).rows()
    wrong = [list(BUILT_IN.distinct(gold, given, str)) if given else None for _, gold, given in listed]
    pairs = zip(listed, wrong, strict=True)
    if repeating := [f"`{name}`" for (name, _, given), kept in pairs if kept is not None and len(kept) < len(given)]:
        names = cut(", ".join(repeating), LONGEST_SHOWN)
        logger.warning("negative answers that equal the gold answer, or an earlier one, are left out of %s", names)
    distinct = trajectories.with_columns(negative_answers=pl.Series(wrong, dtype=pl.List(pl.String)))
    return Prepared(loaded, trajectory_negatives(distinct, loaded, sampling, options.get("seed", 0)))


def check_options(options: LabelerOptions, known: type[LabelerOptions]) -> None:
    """Refuse unknown options.

    Raises:
        SettingsError: an option does not exist.
    """
    names = get_type_hints(known)
    if unknown := sorted(set(options) - set(names)):
        raise SettingsError(f"there is no option `{unknown[0]}`; choose from {', '.join(names)}")


def settings_of(group: type[Group], values: Mapping[str, object]) -> Group:
    """Make a settings object from the options that it has fields for.

    Raises:
        SettingsError: an option has an invalid value.
    """
    try:
        return group.model_validate({name: value for name, value in values.items() if name in group.model_fields})
    except ValidationError as error:
        wrong = first_complaint(error)
        name = wrong.place.partition(".")[0]
        raise SettingsError(f"`{name}` is {wrong.given!r}: {wrong.reason}; change it") from error


def sampled_negatives(options: LabelerOptions) -> Negatives:
    """How hard negatives are sampled; errors as of `settings_of`."""
    return settings_of(Negatives, {"count": options["negatives"]} if "negatives" in options else {})


def load_named_model(name: str | Path, options: LabelerOptions) -> LoadedModel:
    """Load a model by name with these options.

    Raises:
        ModelError: the model cannot be loaded.
    """
    return load_language_model(
        name,
        revision=options.get("revision"),
        dtype=options.get("dtype", "auto"),
        device=options.get("device", "auto"),
        device_map=options.get("device_map"),
    )


def trajectory_negatives(frame: pl.DataFrame, model: LoadedModel, sampling: Negatives, seed: int) -> pl.DataFrame:
    """Rows of `labels.hard_negatives`: listed answers in order, or sampled ones if a trajectory lists none."""
    from cpmi_dagster.generation.transformers_engine import TransformersEngine
    from cpmi_dagster.negatives.hard_negatives import hard_negatives

    listed = pl.col("negative_answers").is_not_null()
    given = frame.filter(listed).select(
        "trajectory_id",
        rank=pl.int_ranges(1, pl.col("negative_answers").list.len() + 1),
        answer="negative_answers",
        source=pl.lit("given"),
    )
    bare = frame.filter(~listed).drop_nulls("gold_answer")
    engine = None if bare.is_empty() else TransformersEngine(model, BATCH_SEQUENCES)
    given = given.explode("rank", "answer", empty_as_null=False)
    return pl.concat([given, hard_negatives(bare, engine, sampling, seed).negatives])
