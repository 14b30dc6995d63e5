"""`judge` and `cpmi judge`: solutions in, the same rows with a reward model's step probabilities out.

    in   {"id": "a7", "question": "1 + 1?", "response": "1 + 1 = 3.\\n\\nSo 3."}
    out  {"id": "a7", "question": "1 + 1?", "response": "1 + 1 = 3.\\n\\nSo 3.",
          "steps": ["1 + 1 = 3.", "So 3."], "probabilities": [0.31, 0.52], "first_error": 0, "reason": null}

Every field comes back; one that is called as a field of `OURS` is, becomes `input_…`. `first_error` is the first step
whose probability is below the threshold, -1 if none is. A row that cannot be judged keeps its place:

    out  {"id": "b", …, "steps": [], "probabilities": null, "first_error": null, "reason": "`steps`: it is empty"}
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from cpmi_dagster.benchmarks.settings import Benchmarks
from cpmi_dagster.trajectories.given_rows import (
    STEPS,
    GivenRows,
    beside,
    give_back,
    plain,
    read_table,
    write_rows,
)

if TYPE_CHECKING:
    from cpmi_dagster.prm.model import LoadedRewardModel

BATCH_TOKENS: int = Benchmarks().prediction_batch_tokens
OURS = {"probabilities": pl.List(pl.Float64), "first_error": pl.Int64(), "reason": pl.String()}
"""The added columns behind `steps`, with their types."""
logger = logging.getLogger(__name__)


def judge(
    trajectories: Any,
    prm: "str | Path | LoadedRewardModel",
    threshold: float = 0.5,
    device: str = "auto",
    dtype: str = "auto",
    form: str | None = None,
    revision: str | None = None,
) -> Any:
    """The rows with the probability that each step is right, by a process reward model: `cpmi judge` from Python.

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
        The rows in their order and type, with their own columns (one with a name of ours becomes `input_…`) and steps
        (as split), probabilities (one a step, in [0, 1]), first_error (the first step below the threshold, from 0; -1
        if none is), and reason, if the row could not be judged.

    Raises:
        ScoringError: the trajectories are no table, or a score is not a finite number.
        ModelError: the reward model or device does not exist, or its form is unknown.

    Examples:
        >>> from cpmi_dagster import judge
        >>> solution = {"question": "1 + 1?", "steps": ["1 + 1 = 3.", "The answer is: 3"]}
        >>> [row] = judge([solution], ".cpmi/miniature/models/cpmi_bce")
        >>> len(row["probabilities"]), row["reason"]
        (2, None)
    """
    from tqdm.auto import tqdm

    from cpmi_dagster.prm.published import load_prm

    rows = list(trajectories) if isinstance(trajectories, Iterator) else trajectories
    given = read_table(rows, for_judge=True)
    model = load_prm(prm, device, dtype, form, revision)
    with tqdm(total=len(given.rows), desc="judging", disable=None) as bar:
        judged = predict_rows(model, given, threshold, bar.update)
    for name, reason in unpredicted(given, judged).items():
        logger.warning("%s was not judged: %s", name, reason)
    return give_back(rows, judged, OURS)


def predict_file(
    prm: str,
    given: GivenRows,
    output: Path,
    progress: Callable[[int, int], None],
    threshold: float = 0.5,
    device: str = "auto",
    dtype: str = "auto",
    form: str | None = None,
    revision: str | None = None,
) -> list[dict[str, Any]]:
    """Judge the rows of a file; the output appears whole or not at all, with every row of the input.

    Args:
        given: the rows, read for a judge.
        progress: called with the number of solutions just finished and the number of all.
        prm, threshold, device, dtype, form, revision: as for `judge`.

    Returns:
        The rows of the output.

    Raises:
        SourceError: the output cannot be written.
        ModelError, ScoringError: as `judge`.
    """
    from cpmi_dagster.prm.published import load_prm

    model = load_prm(prm, device, dtype, form, revision)
    judged = predict_rows(model, given, threshold, lambda count: progress(count, len(given.rows)))
    rows = [plain(row) for row in judged]
    write_rows(output, rows, [STEPS, *OURS])
    return rows


def predict_rows(
    model: "LoadedRewardModel",
    given: GivenRows,
    threshold: float,
    advance: Callable[[int], Any],
) -> list[dict[str, Any]]:
    """A row with our columns for each row, in order; a score that is not finite is a `ScoringError`."""
    from cpmi_dagster.prm.scoring import step_scorer
    from cpmi_dagster.prm.step_reader import step_values

    reader, read = step_scorer(model)
    solutions = given.trajectories
    numbers, questions, steps_lists = (solutions[name].to_list() for name in ("row_number", "question", "steps"))
    steps_of = dict(zip(numbers, steps_lists, strict=True))
    encoded = dict(zip(numbers, reader.encode(questions, steps_lists), strict=True))
    obstacles = {number: reader.obstacle(encoded[number], steps) for number, steps in steps_of.items()}
    reasons = obstacles | dict(given.rejected.select("row_number", "reason").iter_rows())
    advance(sum(reason is not None for reason in reasons.values()))
    readable = [number for number in numbers if not obstacles[number]]
    values = step_values(
        [encoded[number] for number in readable],
        reader,
        read,
        BATCH_TOKENS,
        advance,
        lambda place: f"the probability of row {readable[place] + 1}",
    )
    scores = {number: each.tolist() for number, each in zip(readable, values, strict=True)}
    return [
        beside(row, steps_of.get(number), _judgement(scores.get(number), reasons.get(number), threshold))
        for number, row in enumerate(given.rows)
    ]


def _judgement(probabilities: list[float] | None, reason: str | None, threshold: float) -> dict[str, Any]:
    error = None if probabilities is None else first_error(probabilities, threshold)
    return {"probabilities": probabilities, "first_error": error, "reason": reason}


def unpredicted(given: GivenRows, judged: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The reasons of rows that were not judged, by the id of the row or its number."""
    names = dict(pl.concat([each.select("row_number", "id") for each in (given.trajectories, given.rejected)]).rows())
    return {names[number]: row["reason"] for number, row in enumerate(judged) if row["reason"]}


def first_error(probabilities: Sequence[float], threshold: float) -> int:
    """The index of the first step with a probability below the threshold, or -1."""
    return next((step for step, value in enumerate(probabilities) if value < threshold), -1)
