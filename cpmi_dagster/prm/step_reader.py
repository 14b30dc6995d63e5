"""Read the hidden states at the ends of steps, and what a head makes of them.

Solutions are read as token trees, in which a common beginning stands once, or one by one by a model that cannot read
trees. The values equal those of each solution alone, up to rounding.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor
from transformers import PreTrainedModel

from cpmi_dagster.errors import ModelError, ScoringError
from cpmi_dagster.prm.inputs import EncodedSolution
from cpmi_dagster.tree_forward.probe import ADVICE, Probe, check_full_attention
from cpmi_dagster.tree_forward.row_readers import check_token_ids
from cpmi_dagster.tree_forward.tree_reader import TreeReader
from cpmi_dagster.tree_forward.trees import Branch, PackedRow, TokenTree, tree_of

CPU_ROW_TOKENS = 2048
"""Activations of this many tokens fit a core's cache; longer rows take longer per token."""
WINDOW_TOKENS = 8 * CPU_ROW_TOKENS
PROBE = ("Ana has 48 shells.", (["48 / 2 = 24", "48 + 24 = 72"], ["48 + 24 = 72", "72"], ["48 / 2 = 24", "24"]))
TOLERANCE = {"float64": 1e-4, "float32": 1e-4, "float16": 0.01, "bfloat16": 0.05}
"""Bound of rounding of a hidden state, relative to the largest number of all. SmolLM2-135M rounds by 3e-7, 7e-4, 0.013
in float32, float16, bfloat16; if it attends to other branches, its states differ by 0.11."""
WARNED = "warned of one by one"
"""Key of `cache`."""
ReadEnds = Callable[[Tensor], Tensor]
"""Hidden states (steps, hidden size) -> values, one row per step."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StepReader:
    """A decoder and the encoder of its solutions.

    Attributes:
        model: decoder in evaluation mode.
        encode: questions, steps -> encoded solutions.
        identity: name in errors.
        context_length: most tokens of a solution.
        mark: as in `LoadedRewardModel`.
        cache: facts about the model within the process.
    """

    model: PreTrainedModel
    encode: Callable[[Sequence[str], Sequence[Sequence[str]]], list[EncodedSolution]]
    identity: str
    context_length: int
    mark: str = ""
    cache: dict[str, Any] = field(default_factory=dict)


def read_steps(
    reader: StepReader,
    solutions: pl.DataFrame,
    column: str,
    read: ReadEnds,
    batch_tokens: int,
    progress: Callable[[int], None] | None = None,
) -> pl.DataFrame:
    """Apply `read` to the hidden state at the end of each step.

    Args:
        solutions, batch_tokens, progress: as of `scoring.score_steps`.
        column: name of the values.

    Returns:
        The other columns of `solutions`, `step_index` and `column`; one row per step.

    Raises:
        ScoringError: a solution is longer than the model's context or contains its mark of steps, or a value is not
            a finite number.
        ModelError: the tokenizer is another model's.
    """
    judged = solutions.filter(pl.col("steps").list.len() > 0)
    rows = judged.drop("question", "steps")
    encoded = reader.encode(judged["question"].to_list(), judged["steps"].to_list())
    for index, (solution, steps) in enumerate(zip(encoded, judged["steps"], strict=True)):
        if len(solution.step_positions) + solution.dropped_steps != len(steps):
            raise ScoringError(
                f"the solution with {_name(rows, index)} has in its text `{reader.mark}`, which marks the end of a "
                f"step for {reader.identity}; leave it out or use another reward model"
            )
        if solution.step_positions and len(solution.token_ids) > reader.context_length:
            raise ScoringError(
                f"the solution with {_name(rows, index)} has {len(solution.token_ids)} tokens, but {reader.identity} "
                f"reads at most {reader.context_length}; leave it out or use a reward model with a longer context"
            )
    check_token_ids(reader.model, reader.identity, (max(solution.token_ids, default=0) for solution in encoded))
    advance = progress or (lambda count: None)
    advance(solutions.height - judged.height)
    by_solution = step_values(encoded, reader, read, batch_tokens, advance)
    for index, values in enumerate(by_solution):
        if not np.isfinite(values).all():
            step = int(np.isfinite(values).reshape(len(values), -1).all(1).argmin())
            raise ScoringError(
                f"the {column} of {_name(rows, index)}, step_index {step} is not a finite number, as after a "
                "training that diverged; read in float32, or train the model again"
            )
    counts = [len(solution.step_positions) for solution in encoded]
    every = np.concatenate([values for values in by_solution if len(values)] or [np.empty(0)])
    steps = [step for count in counts for step in range(count)]
    results = pl.DataFrame([pl.Series("step_index", steps, pl.Int64), _to_series(column, every)])
    if not rows.width:
        return results
    return pl.concat([rows[np.repeat(np.arange(len(counts)), counts)], results], how="horizontal")


def step_values(
    encoded: Sequence[EncodedSolution],
    reader: StepReader,
    read: ReadEnds,
    batch_tokens: int,
    advance: Callable[[int], None] = lambda _: None,
) -> list[np.ndarray]:
    """The values of the steps of each solution, in order.

    Args:
        read: hidden states at the ends of some steps -> values.
        batch_tokens: most tokens read at once; a longer solution is read alone.
        advance: called with the number of solutions just read.
    """
    by_solution = [np.empty(0)] * len(encoded)
    with_steps = [index for index, solution in enumerate(encoded) if solution.step_positions]
    advance(len(encoded) - len(with_steps))
    if not with_steps:
        return by_solution
    try:
        trees = _tree_reader(reader, read, batch_tokens, max(len(encoded[index].token_ids) for index in with_steps))
    except ModelError as error:
        _warn_once(reader, [encoded[index] for index in with_steps], error)
        for index in with_steps:
            with torch.inference_mode():
                by_solution[index] = read(_read_alone(reader.model, encoded[index])).cpu().numpy()
            advance(1)
        return by_solution
    windows = list(_windows(encoded, with_steps))
    grown = (([_solution_tree([encoded[index] for index in window])], len(window)) for window in windows)
    for window, values in zip(windows, trees.read(grown, advance), strict=True):
        bounds = np.cumsum([len(encoded[index].step_positions) for index in window])[:-1]
        for index, part in zip(window, np.split(values.by_tree[0], bounds), strict=True):
            by_solution[index] = part
    return by_solution


def _warn_once(reader: StepReader, solutions: Sequence[EncodedSolution], error: ModelError) -> None:
    """Warn that solutions are read one by one, with how many times the tokens of their trees that is."""
    if WARNED not in reader.cache:
        reader.cache[WARNED] = True
        tokens = sum(len(solution.token_ids) for solution in solutions)
        logger.warning(
            "%s reads solutions one by one: a pass for each of %d solutions, and %.1f times the tokens of token trees "
            "(%s); the values are right, and a model that reads token trees is faster",
            reader.identity,
            len(solutions),
            tokens / len(_solution_tree(solutions)),
            str(error).removesuffix(f"; {ADVICE}"),
        )


def _tree_reader(reader: StepReader, read: ReadEnds, batch_tokens: int, longest: int) -> TreeReader:
    """A tree reader whose values are those of `read`.

    Raises:
        ModelError: the decoder cannot read trees with branches of `longest` tokens.
    """
    check_full_attention(reader.model, longest)
    is_cpu = reader.model.device.type == "cpu"
    passes = max(1, min(torch.get_num_threads(), batch_tokens // CPU_ROW_TOKENS)) if is_cpu else 1

    row_tokens = min(batch_tokens, CPU_ROW_TOKENS) if is_cpu else batch_tokens
    take = lambda output, row: read(_end_states(output, row))  # noqa: E731
    return TreeReader(reader, take, lambda: _probe(reader), row_tokens=row_tokens, passes=passes)


def _end_states(output: Any, row: PackedRow) -> Tensor:
    states = output.last_hidden_state[0]
    return states[torch.from_numpy(row.places).to(states.device)]


def _probe(reader: StepReader) -> Probe:
    """Three short solutions of a question, compared by their hidden states, since scores hide differences."""
    question, solutions = PROBE
    encoded = reader.encode([question] * len(solutions), solutions)
    with torch.inference_mode():
        expected = torch.cat([_read_alone(reader.model, solution) for solution in encoded])
    tolerance = TOLERANCE[str(reader.model.dtype).removeprefix("torch.")] * float(expected.abs().max())
    return Probe([_branch(solution) for solution in encoded], _end_states, expected, tolerance)


def _read_alone(decoder: PreTrainedModel, solution: EncodedSolution) -> Tensor:
    """The states at the ends of a solution's steps, (steps, hidden size)."""
    tokens = torch.tensor([solution.token_ids], device=decoder.device)
    states = decoder(input_ids=tokens, use_cache=False).last_hidden_state[0]
    return states[torch.tensor(solution.step_positions, dtype=torch.long, device=states.device)]


def _windows(encoded: Sequence[EncodedSolution], chosen: Sequence[int]) -> Iterator[list[int]]:
    """Indices of the chosen solutions, sorted by their tokens, about `WINDOW_TOKENS` tokens at a time."""
    window: list[int] = []
    size = 0
    for index in sorted(chosen, key=lambda index: encoded[index].token_ids):
        window.append(index)
        size += len(encoded[index].token_ids)
        if size >= WINDOW_TOKENS:
            yield window
            window, size = [], 0
    if window:
        yield window


def _solution_tree(encoded: Sequence[EncodedSolution]) -> TokenTree:
    return tree_of(map(_branch, encoded))


def _branch(solution: EncodedSolution) -> Branch:
    return Branch(solution.token_ids, solution.step_positions)


def _name(rows: pl.DataFrame, index: int) -> str:
    named = ", ".join(f"{column} {value}" for column, value in rows.row(index, named=True).items())
    return named or f"row {index + 1}"


def _to_series(name: str, values: np.ndarray) -> pl.Series:
    if values.ndim == 1:
        return pl.Series(name, values, pl.Float64)
    return pl.Series(name, values, pl.Array(pl.Float32, values.shape[1])).arr.to_list()
