"""Score a frame of trajectories: polars in, polars out.

>>> frame = pl.DataFrame({
...     "id": ["a"], "question": ["Ana has 48 shells and finds half as many. How many has she?"],
...     "steps": [["48 / 2 = 24", "48 + 24 = 72"]], "gold_answer": ["72"], "negative_answers": [["24", "74"]],
... })
>>> score_trajectories(frame, "miniature:labeler")
id  step_index  conditioning  template  gold_shift  negative_shift  cpmi
a            0  marginal             0         ...             ...   ...
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict, TypeVar, Unpack, get_type_hints

import polars as pl
from pydantic import ValidationError

from cpmi_dagster.answers.gold import answer_text, read_gold_answer
from cpmi_dagster.contracts.contexts import Conditioning
from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.contracts.tables import HardNegatives, RejectedTrajectories
from cpmi_dagster.errors import ScoringError, SettingsError, first_complaint
from cpmi_dagster.models.language_models import LoadedModel, load_language_model
from cpmi_dagster.negatives.settings import Negatives
from cpmi_dagster.scoring.admission import GOLD_RANK, answer_name, check_complete
from cpmi_dagster.scoring.conditionings import template_scores
from cpmi_dagster.scoring.given_rows import INPUT_COLUMNS, as_frame
from cpmi_dagster.scoring.logprobs import STAGE, answer_logprobs
from cpmi_dagster.scoring.settings import Reader, Scoring

Group = TypeVar("Group", bound=Frozen)
BATCH_SEQUENCES = 64


class ReadingOptions(TypedDict, total=False):
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


class ScoreOptions(ReadingOptions, total=False):
    """Options of scoring: those of `ReadingOptions`, and the conditionings.

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
        trajectories: a table as for `label`, with question, steps (list), gold_answer and, optionally, id and
            negative_answers (list). Negative answers are sampled if none are given; with them, nothing is generated
            and the result is deterministic.
        model: the labeler: local folder, GGUF file, hub id, `miniature:labeler`, or a loaded model.
        options: see `ScoreOptions`.

    Returns:
        id, step_index, conditioning, template, gold_shift, negative_shift, cpmi (nats per token); one row per step,
        conditioning and template. `score_in_full` also returns the rejected trajectories with their reasons.

    Raises:
        ScoringError: a column is missing or of the wrong type, or an id is null or repeated.
        SettingsError: an option, or the value of one, does not exist.
        ModelError: the model cannot be loaded, or cannot read token trees.
    """
    return score_in_full(trajectories, model, **options).scores


def score_in_full(
    trajectories: Any, model: str | Path | LoadedModel, **options: Unpack[ScoreOptions]
) -> ScoredTrajectories:
    """`score_trajectories`, with log-probabilities and rejected trajectories; the same errors."""
    check_options(options, ScoreOptions)
    scoring = settings_of(Scoring, options)
    given = prepare_trajectories(trajectories, model, options)
    if progress := options.get("progress"):
        progress(given.rejected.height)
    answers = answer_logprobs(given.frame, given.negatives, given.model, scoring, progress)
    scores = template_scores(answers.logprobs, scoring.conditionings)
    rejected = pl.concat([given.rejected, answers.rejected]).sort("trajectory_id")
    to_id = {"trajectory_id": "id"}
    return ScoredTrajectories(scores.rename(to_id), answers.logprobs.rename(to_id), rejected.rename(to_id))


class Prepared(NamedTuple):
    """Complete trajectories, their hard negatives and the labeler.

    Attributes:
        frame: trajectory_id, question, steps, gold_answer, negative_answers.
        negatives: rows of `labels.hard_negatives`.
        rejected: incomplete trajectories, rows of `labels.rejected_trajectories`.
    """

    frame: pl.DataFrame
    negatives: pl.DataFrame
    model: LoadedModel
    rejected: pl.DataFrame


def prepare_trajectories(
    trajectories: Any, model: str | Path | LoadedModel, options: ReadingOptions, contrasted: bool = True
) -> Prepared:
    """Check trajectories, load the model and sample missing hard negatives; errors as of `score_trajectories`.

    Args:
        trajectories: as for `as_frame`.
        contrasted: hard negatives are needed.
    """
    sampling = settings_of(Negatives, {"count": options.get("negatives", Negatives().count)})
    given = check_trajectories(as_frame(trajectories))
    reasons: dict[str, str] = {}
    read: list[dict[str, Any]] = []
    for row in given.iter_rows(named=True):
        try:
            read.append(_read_answers(row, contrasted))
        except ScoringError as error:
            reasons[row["trajectory_id"]] = str(error)
    frame = pl.DataFrame(read, schema=given.schema)
    loaded = model if isinstance(model, LoadedModel) else load_named_model(model, options)
    negatives = HardNegatives.create_empty()
    if contrasted:
        negatives = trajectory_negatives(frame, loaded, sampling, options.get("seed", 0))
    rejected = [(trajectory_id, STAGE, reason) for trajectory_id, reason in reasons.items()]
    refusals = pl.DataFrame(rejected, RejectedTrajectories.create_empty().schema, orient="row")
    return Prepared(frame, negatives, loaded, refusals)


def _read_answers(row: dict[str, Any], contrasted: bool) -> dict[str, Any]:
    """A complete row with its answers extracted.

    Raises:
        ScoringError: the row is not complete, or no answer can be extracted.
    """
    listed = row["negative_answers"] if contrasted else None
    answers: dict[int, str | None] = {}
    for rank, given in enumerate((row["gold_answer"], *(listed or ())), start=GOLD_RANK):
        try:
            answers[rank] = read_gold_answer(given)
        except ValueError as error:
            raise ScoringError(f"trajectory `{row['trajectory_id']}`: {answer_name(rank)}: {error}") from error
    # rewards that need no gold answer can still be computed
    check_complete(row, {rank: answer for rank, answer in answers.items() if rank != GOLD_RANK or answer is not None})
    return {**row, "gold_answer": answers.pop(GOLD_RANK), "negative_answers": listed and list(answers.values())}


def check_options(options: ReadingOptions, known: type[ReadingOptions]) -> None:
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


def load_named_model(name: str | Path, options: ReadingOptions) -> LoadedModel:
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


def check_trajectories(trajectories: pl.DataFrame) -> pl.DataFrame:
    """The input's columns in their types, with `id` renamed `trajectory_id`; integer ids become text.

    Raises:
        ScoringError: a column is missing or of the wrong type, or an id is null or repeated.
    """
    if "negative_answers" not in trajectories.columns:
        trajectories = trajectories.with_columns(negative_answers=pl.lit(None, pl.List(pl.String)))
    missing = [name for name in INPUT_COLUMNS if name not in trajectories.columns]
    if missing:
        raise ScoringError(
            f"the trajectories lack the column `{missing[0]}`; give them the columns question, steps and gold_answer "
            "(id and negative_answers may be left out)"
        )
    if (golds := trajectories["gold_answer"]).dtype.is_numeric() or golds.dtype == pl.Object:
        texts = pl.Series([answer_text(value) for value in golds], dtype=pl.String, strict=False)
        trajectories = trajectories.with_columns(gold_answer=texts)
    for name, wanted in INPUT_COLUMNS.items():
        given = trajectories.schema[name]
        is_empty = given == pl.Null() or (wanted == pl.List and given == pl.List(pl.Null()))
        if given != wanted and not is_empty and not (name == "id" and given.is_integer()):
            raise ScoringError(
                f"column `{name}` of the trajectories contains {given}, but {wanted} is needed; convert it"
            )
    frame = trajectories.select(*INPUT_COLUMNS).cast(pl.Schema(INPUT_COLUMNS)).with_row_index("row", offset=1)
    without_id = frame.filter(pl.col("id").is_null())
    if not without_id.is_empty():
        raise ScoringError(f"row {without_id['row'][0]} of the trajectories has no `id`; give it one")
    repeated = frame.filter(pl.col("id").is_duplicated())
    if not repeated.is_empty():
        rows = repeated.filter(pl.col("id") == repeated["id"][0])["row"].to_list()
        raise ScoringError(
            f"id `{repeated['id'][0]}` is in rows {', '.join(map(str, rows))} of the trajectories; give each its own id"
        )
    return frame.drop("row").rename({"id": "trajectory_id"})


def trajectory_negatives(frame: pl.DataFrame, model: LoadedModel, sampling: Negatives, seed: int) -> pl.DataFrame:
    """Rows of `labels.hard_negatives`: listed answers in order, or sampled ones if a trajectory lists none."""
    from cpmi_dagster.generation.transformers_engine import TransformersEngine
    from cpmi_dagster.negatives.hard_negatives import hard_negatives

    listed = pl.col("negative_answers").list.len().fill_null(0) > 0
    given = frame.filter(listed).select(
        "trajectory_id",
        rank=pl.int_ranges(1, pl.col("negative_answers").list.len() + 1),
        answer="negative_answers",
        source=pl.lit("given"),
    )
    bare = frame.filter(~listed).drop_nulls("gold_answer")
    engine = None if bare.is_empty() else TransformersEngine(model, BATCH_SEQUENCES)
    return pl.concat([given.explode("rank", "answer"), hard_negatives(bare, engine, sampling, seed).negatives])
