"""`cpmi judge`: a file of solutions in, the same lines with a reward model's step probabilities out.

    in   {"question": "1 + 1?", "response": "1 + 1 = 3.\\n\\nSo 3.", "mine": 7}
    out  {"id": 0, "question": "1 + 1?", "response": "1 + 1 = 3.\\n\\nSo 3.", "mine": 7,
          "steps": ["1 + 1 = 3.", "So 3."], "probabilities": [0.31, 0.52], "first_error": 0}

Every field comes back; one that is called as a field of `ADDED` is, becomes `input_…`. `id` is by default the number of
the line, from 0. `first_error` is the first step whose probability is below the threshold, -1 if none is. A solution
that cannot be judged keeps its place:

    out  {"id": "b", …, "steps": [], "probabilities": null, "first_error": null, "reason": "it has no steps"}
"""

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import polars as pl
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from cpmi_dagster.benchmarks.registry import STEP_BENCHMARKS
from cpmi_dagster.benchmarks.settings import Benchmarks
from cpmi_dagster.errors import ScoringError, SourceError, first_complaint
from cpmi_dagster.files.bounded_reading import BoundedList
from cpmi_dagster.files.json_lines import read_json_lines
from cpmi_dagster.files.text import Identifier, Text, encodable
from cpmi_dagster.files.whole_files import check_writable, write_whole
from cpmi_dagster.scoring.given_rows import given_rows
from cpmi_dagster.trajectories.chats import QuestionText
from cpmi_dagster.trajectories.given_columns import free_name
from cpmi_dagster.trajectories.math_shepherd import clean
from cpmi_dagster.trajectories.rows import with_steps

if TYPE_CHECKING:
    from cpmi_dagster.prm.model import LoadedRewardModel

BATCH_TOKENS: int = Benchmarks().prediction_batch_tokens
EXPECTED_FIELDS = "question and steps, question and solution, or messages"
ADDED = ("probabilities", "first_error", "reason")
BENCHMARK_FIELDS = ({"idx", "classification"}, {"final_answer_correct", "label"})
"""Fields by which rows of PRMBench and of ProcessBench are known."""
JUDGED_STEPS = {
    "id": pl.String(),
    "step_index": pl.Int64(),
    "step": pl.String(),
    "probability": pl.Float64(),
    "is_first_error": pl.Boolean(),
}
logger = logging.getLogger(__name__)


class Solution(BaseModel):
    """A line of the input, also a chat or in the fields of the benchmarks; `given` has all its fields as they came."""

    model_config = ConfigDict(strict=True, extra="allow")

    id: Identifier | None = None
    question: QuestionText = Field(validation_alias=AliasChoices("question", "problem", "modified_question"))
    steps: BoundedList[Text] = Field(validation_alias=AliasChoices("steps", "modified_process"))
    _given: dict[str, Any] = PrivateAttr({})

    @model_validator(mode="wrap")
    @classmethod
    def _of_any_form(cls, row: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(row, dict):
            return validate(row)
        of_prmbench = "id" not in row and {"idx", "classification"} <= set(row)
        read = {**row, "id": f"{row['idx']}:{row['classification']}"} if of_prmbench else with_steps(row)
        solution = validate(read)
        solution._given = row
        return solution

    @property
    def given(self) -> dict[str, Any]:
        """All fields of the line, as they came."""
        return self._given

    @property
    def obstacle(self) -> str | None:
        """Why it cannot be judged: it has no steps, or an empty step outside of a benchmark."""
        if not self.steps:
            return "it has no steps"
        fields = self.model_extra or {}
        if fields.get("benchmark") in STEP_BENCHMARKS or any(names <= fields.keys() for names in BENCHMARK_FIELDS):
            return None
        return next((f"step {step} is empty" for step, text in enumerate(self.steps, 1) if not clean(text)), None)


def judge(
    trajectories: Any,
    prm: "str | Path | LoadedRewardModel",
    threshold: float = 0.5,
    device: str = "auto",
    dtype: str = "auto",
    form: str | None = None,
    revision: str | None = None,
) -> pl.DataFrame:
    """The probability that each step is right, by a process reward model: `cpmi judge` from Python.

    A bar shows the progress, as by `label`. A solution that cannot be judged is named in a warning.

    Args:
        trajectories: as for `label`, without gold answers; fields of ProcessBench and PRMBench are read too.
        prm: folder or hub id of a reward model, or a loaded one.
        threshold: a step with a probability below it counts as wrong.
        device: auto, or a torch device.
        dtype: auto (as saved), float32, bfloat16 or float16.
        form: form of a published model; by default, by its files.
        revision: commit, branch or tag of a hub id.

    Returns:
        id, step_index (from 0), step, probability (in [0, 1]), is_first_error (the first step below the threshold);
        one row per step, in the order given.

    Raises:
        ScoringError: the trajectories are no table, a row is wrong, or a score is not a finite number.
        ModelError: the reward model or device does not exist, or its form is unknown.

    Examples:
        >>> from cpmi_dagster import judge
        >>> solution = {"question": "1 + 1?", "steps": ["1 + 1 = 3.", "The answer is: 3"]}
        >>> judge([solution], ".cpmi/miniature/models/cpmi_bce").columns
        ['id', 'step_index', 'step', 'probability', 'is_first_error']
    """
    from tqdm.auto import tqdm

    from cpmi_dagster.prm.judge_models import load_judge

    solutions = []
    for number, row in enumerate(given_rows(trajectories), start=1):
        try:
            solutions.append(Solution.model_validate(row))
        except ValidationError as error:
            raise ScoringError(f"row {number} of the trajectories: {first_complaint(error)}") from error
    model = load_judge(prm, device, dtype, form, revision)
    with tqdm(total=len(solutions), desc="judging", disable=None) as bar:
        rows = judge_rows(model, solutions, threshold, bar.update)
    for row in rows:
        if "reason" in row:
            logger.warning("%s was not judged: %s", row["id"], row["reason"])
    steps = [
        (str(solution.id), number, step, probability, number == row["first_error"])
        for solution, row in zip(solutions, rows, strict=True)
        for number, (step, probability) in enumerate(zip(solution.steps, row["probabilities"] or (), strict=False))
    ]
    return pl.DataFrame(steps, JUDGED_STEPS, orient="row")


def judge_file(
    prm: str,
    input: Path,
    output: Path,
    progress: Callable[[int, int], None],
    threshold: float = 0.5,
    device: str = "auto",
    dtype: str = "auto",
    form: str | None = None,
    revision: str | None = None,
) -> list[dict[str, Any]]:
    """Judge a file; the output appears whole or not at all, a line for every line of the input.

    Args:
        progress: called with the number of solutions just finished and the number of all.
        prm, threshold, device, dtype, form, revision: as for `judge`.

    Returns:
        The rows of the output; those that were not judged have a `reason`.

    Raises:
        SourceError: the input is missing, a line is wrong (the message names it), or the output cannot be written;
            all checked before anything is judged.
        ModelError, ScoringError: as `judge`.
    """
    lines = list(read_json_lines(input, Solution, EXPECTED_FIELDS))
    if not lines:
        raise SourceError(f"{input} has no lines; give JSON Lines with {EXPECTED_FIELDS}")
    places: dict[tuple[str, str], str] = {}
    for number, (place, solution) in enumerate(lines):
        solution.id = number if solution.id is None else solution.id
        fields = solution.model_extra or {}
        try:
            json.dumps(solution.given, allow_nan=False)
        except ValueError as error:
            raise SourceError(f"{place} holds NaN or Infinity, which JSON does not have; write null or text") from error
        first = places.setdefault((str(fields.get("benchmark")), str(solution.id)), place)
        # rows of PRMBench repeat some ids
        if first != place and not BENCHMARK_FIELDS[0] <= fields.keys():
            raise SourceError(f"{place}: the id `{solution.id}` is that of {first} too; give each line its own")
    if output.exists() and output.samefile(input):
        raise SourceError(f"--output is the input file {input}, which would be overwritten; give another")
    check_writable(output)
    from cpmi_dagster.prm.judge_models import load_judge

    solutions, model = [solution for _, solution in lines], load_judge(prm, device, dtype, form, revision)
    rows = judge_rows(model, solutions, threshold, lambda count: progress(count, len(solutions)))
    write_whole(output, "".join(encodable(json.dumps(row, ensure_ascii=False)) + "\n" for row in rows))
    return rows


def judge_rows(
    model: "LoadedRewardModel", solutions: Sequence[Solution], threshold: float, advance: Callable[[int], Any]
) -> list[dict[str, Any]]:
    """An output row for each solution, in order; a score that is not finite is a `ScoringError`."""
    from cpmi_dagster.prm.scoring import score_steps

    reasons = {number: reason for number, solution in enumerate(solutions) if (reason := solution.obstacle)}
    kept = [number for number in range(len(solutions)) if number not in reasons]
    encoded = model.encode([solutions[each].question for each in kept], [solutions[each].steps for each in kept])
    for number, tokens in zip(kept, encoded, strict=True):
        count, most = len(tokens.token_ids), model.context_length
        if len(tokens.step_positions) != len(solutions[number].steps):
            reasons[number] = f"its text has `{model.mark}`, which marks the end of a step for the model"
        elif count > most:
            reasons[number] = f"it has {count:,} tokens; the model reads at most {most:,}"
    advance(len(reasons))
    wanted = [
        (number, str(solution.id), solution.question, solution.steps)
        for number, solution in enumerate(solutions)
        if number not in reasons
    ]
    schema = {"number": pl.Int64(), "id": pl.String(), "question": pl.String(), "steps": pl.List(pl.String())}
    scored = score_steps(model, pl.DataFrame(wanted, schema, orient="row"), BATCH_TOKENS, progress=advance)
    scores = dict(scored.group_by("number", maintain_order=True).agg("probability").iter_rows())
    rows = []
    for number, solution in enumerate(solutions):
        given = {free_name(name, solution.given, ADDED): value for name, value in solution.given.items()}
        judged = {"probabilities": None, "first_error": None, "reason": reasons.get(number)}
        if number in scores:
            judged = {"probabilities": scores[number], "first_error": first_error(scores[number], threshold)}
        rows.append({"id": solution.id, **given} | {"id": solution.id, "steps": solution.steps, **judged})
    return rows


def first_error(probabilities: Sequence[float], threshold: float) -> int:
    """The index of the first step with a probability below the threshold, or -1."""
    return next((step for step, value in enumerate(probabilities) if value < threshold), -1)
