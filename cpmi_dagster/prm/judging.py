"""`cpmi judge`: a file of solutions in, the same lines with a reward model's step probabilities out.

    in   {"question": "1 + 1?", "response": "1 + 1 = 3.\\n\\nSo 3.", "mine": 7}
    out  {"id": 0, "question": "1 + 1?", "response": "1 + 1 = 3.\\n\\nSo 3.", "mine": 7,
          "steps": ["1 + 1 = 3.", "So 3."], "probabilities": [0.31, 0.52], "first_error": 0}

Every field comes back; one that is called as a field of `ADDED` is, becomes `input_…`. `id` is by default the number of
the row, from 0. `first_error` is the first step whose probability is below the threshold, -1 if none is. A row
that cannot be judged keeps its place:

    out  {"id": "b", …, "steps": [], "probabilities": null, "first_error": null, "reason": "`steps`: it is empty"}
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from cpmi_dagster.benchmarks.settings import Benchmarks
from cpmi_dagster.files.whole_files import write_whole
from cpmi_dagster.trajectories.given_columns import free_name, plain
from cpmi_dagster.trajectories.given_rows import GivenRows, read_table
from cpmi_dagster.trajectories.rows import Unreadable

if TYPE_CHECKING:
    from cpmi_dagster.prm.model import LoadedRewardModel

BATCH_TOKENS: int = Benchmarks().prediction_batch_tokens
ADDED = ("probabilities", "first_error", "reason")
OF_PRMBENCH = {"idx", "classification"}
JUDGED_STEPS = {
    "id": pl.String(),
    "step_index": pl.Int64(),
    "step": pl.String(),
    "probability": pl.Float64(),
    "is_first_error": pl.Boolean(),
}
logger = logging.getLogger(__name__)


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
        ScoringError: the trajectories are no table, or a score is not a finite number.
        ModelError: the reward model or device does not exist, or its form is unknown.

    Examples:
        >>> from cpmi_dagster import judge
        >>> solution = {"question": "1 + 1?", "steps": ["1 + 1 = 3.", "The answer is: 3"]}
        >>> judge([solution], ".cpmi/miniature/models/cpmi_bce").columns
        ['id', 'step_index', 'step', 'probability', 'is_first_error']
    """
    from tqdm.auto import tqdm

    from cpmi_dagster.prm.judge_models import load_judge

    given = read_table(trajectories, keeps_empty=True)
    model = load_judge(prm, device, dtype, form, revision)
    with tqdm(total=len(given.rows), desc="judging", disable=None) as bar:
        rows = judge_rows(model, given, threshold, bar.update)
    for row in rows:
        if "reason" in row:
            logger.warning("%s was not judged: %s", row["id"], row["reason"])
    steps = [
        (str(row["id"]), number, step, probability, number == row["first_error"])
        for row in rows
        for number, (step, probability) in enumerate(zip(row["steps"], row["probabilities"] or (), strict=False))
    ]
    return pl.DataFrame(steps, JUDGED_STEPS, orient="row")


def judge_file(
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
    """Judge the rows of a file; the output appears whole or not at all, a line for every row of the input.

    Args:
        given: the rows, with empty steps of benchmarks.
        progress: called with the number of solutions just finished and the number of all.
        prm, threshold, device, dtype, form, revision: as for `judge`.

    Returns:
        The rows of the output; those that were not judged have a `reason`.

    Raises:
        SourceError: the output cannot be written.
        ModelError, ScoringError: as `judge`.
    """
    from cpmi_dagster.prm.judge_models import load_judge

    model = load_judge(prm, device, dtype, form, revision)
    rows = judge_rows(model, given, threshold, lambda count: progress(count, len(given.rows)))
    write_whole(output, "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows))
    return rows


def judge_rows(
    model: "LoadedRewardModel", given: GivenRows, threshold: float, advance: Callable[[int], Any]
) -> list[dict[str, Any]]:
    """An output row for each row, in order; a score that is not finite is a `ScoringError`."""
    from cpmi_dagster.prm.scoring import score_steps

    solutions = given.trajectories
    reasons = dict(given.rejected.select("row_number", "reason").iter_rows())
    encoded = model.encode(solutions["question"].to_list(), solutions["steps"].to_list())
    steps_of = dict(solutions.select("row_number", "steps").iter_rows())
    for (number, steps), tokens in zip(steps_of.items(), encoded, strict=True):
        count, most = len(tokens.token_ids), model.context_length
        if len(tokens.step_positions) != len(steps):
            reasons[number] = f"its text has `{model.mark}`, which marks the end of a step for the model"
        elif count > most:
            reasons[number] = f"it has {count:,} tokens; the model reads at most {most:,}"
    advance(len(reasons))
    readable = solutions.filter(~pl.col("row_number").is_in(list(reasons)))
    scored = score_steps(
        model, readable.select("row_number", "id", "question", "steps"), BATCH_TOKENS, progress=advance
    )
    scores = dict(scored.group_by("row_number", maintain_order=True).agg("probability").iter_rows())
    ids = dict(pl.concat([frame.select("row_number", "id") for frame in (solutions, given.rejected)]).iter_rows())
    rows = []
    for number, row in enumerate(given.rows):
        fields = {"text": row.text} if isinstance(row, Unreadable) else row
        own = {free_name(name, fields, ADDED): value for name, value in fields.items()}
        judged = {"probabilities": None, "first_error": None, "reason": reasons.get(number)}
        if number in scores:
            judged = {"probabilities": scores[number], "first_error": first_error(scores[number], threshold)}
        name = {"id": _name(number, fields, ids[number])}
        steps = steps_of.get(number, own.get("steps", []))
        rows.append(plain({**name, **own, **name, "steps": steps, **judged}))
    return rows


def _name(number: int, row: Mapping[str, Any], read: str) -> Any:
    """The id of a row, as it came; of a row of PRMBench both of its parts; else as it is read, or its number."""
    if row.get("id") is not None:
        return row["id"]
    if row.keys() >= OF_PRMBENCH:
        return f"{row['idx']}:{row['classification']}"
    return number if read == str(number) else read


def first_error(probabilities: Sequence[float], threshold: float) -> int:
    """The index of the first step with a probability below the threshold, or -1."""
    return next((step for step, value in enumerate(probabilities) if value < threshold), -1)
