"""Probability that each step of a solution is right, by a trained reward model.

in   benchmark         problem_id  question       steps
     processbench_math math-3      What is ...    [First, ..., Then ...]
out  benchmark         problem_id  step_index  probability
     processbench_math math-3      0           0.93
     processbench_math math-3      1           0.21

Solutions are read as padded rectangles, or on a CPU as rows in which a common beginning stands once: eight candidates
of a question are 1,660 tokens in a rectangle and 650 in a row. The probabilities are those of each solution alone, up
to rounding. Rows are read side by side, one pass on each core, since a small model's operations are too short to be
split among cores.
"""

import logging
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
import polars as pl
import torch
from torch import Tensor
from transformers import PreTrainedModel

from cpmi_dagster.errors import ScoringError
from cpmi_dagster.models.attention import attention_implementation
from cpmi_dagster.prm.inputs import EncodedSolution, pad_batch
from cpmi_dagster.prm.model import LoadedRewardModel
from cpmi_dagster.prm.shared_prefix import can_share_prefix, end_states
from cpmi_dagster.prm.solution_rows import SolutionRow, solution_rows
from cpmi_dagster.scoring.readers.blocked import IMPLEMENTATION, blocked_inputs

ROW_TOKENS = 2048
"""What a core's cache holds the activations of; longer rows take longer per token."""
TOLERANCE = 1e-4
Item = TypeVar("Item")
Result = TypeVar("Result")
ReadEnds = Callable[[Tensor], Tensor]
"""Hidden states (steps, hidden size) -> one row of numbers a step."""
logger = logging.getLogger(__name__)


class StepReader(NamedTuple):
    """A decoder in evaluation mode and what is needed to give it text; `context_length` is in tokens.

    `encode` gives what is read of solutions, from their questions and steps; `mark` as of `LoadedRewardModel`.
    """

    decoder: PreTrainedModel
    encode: Callable[[Sequence[str], Sequence[Sequence[str]]], list[EncodedSolution]]
    identity: str
    context_length: int
    mark: str = ""


def score_steps(
    model: LoadedRewardModel,
    solutions: pl.DataFrame,
    batch_tokens: int,
    progress: Callable[[int], None] | None = None,
) -> pl.DataFrame:
    """Score every step of every solution; solutions of the same tokens are read once.

    Args:
        solutions: any columns that say which solution it is, then `question` and `steps` (list of strings).
        batch_tokens: most tokens that are read at once, padding included; a longer solution goes alone.
        progress: called with the number of solutions just scored.

    Returns:
        The other columns of `solutions` in their order, `step_index` (from 0) and `probability` (in [0, 1]); one row
        per step, solutions in the order given. A solution without steps has no rows.

    Raises:
        ScoringError: a solution is longer than the model's context, or a score is not a finite number.
    """
    head = model.model.head

    def read(ends: Tensor) -> Tensor:
        return probabilities(head(ends.to(head.output.weight.dtype)))

    reader = StepReader(model.model.backbone, model.encode, model.identity, model.context_length, model.mark)
    return read_steps(reader, solutions, "probability", read, batch_tokens, progress)


def read_steps(
    reader: StepReader,
    solutions: pl.DataFrame,
    column: str,
    read: ReadEnds,
    batch_tokens: int,
    progress: Callable[[int], None] | None = None,
) -> pl.DataFrame:
    """What `read` makes of the hidden state at the end of each step.

    Args:
        solutions: as for `score_steps`.
        column: of the result.

    Returns:
        The other columns of `solutions`, `step_index` and `column`; one row per step.

    Raises:
        ScoringError: a solution is longer than the model's context or has its mark of steps in its text, or a result
            is not a finite number.
    """
    judged = solutions.filter(pl.col("steps").list.len() > 0)
    rows = judged.drop("question", "steps")
    encoded = reader.encode(judged["question"].to_list(), judged["steps"].to_list())
    same: dict[tuple[int, ...], list[int]] = {}
    for index, (solution, steps) in enumerate(zip(encoded, judged["steps"], strict=True)):
        if len(solution.step_positions) + solution.dropped_steps != len(steps):
            raise ScoringError(
                f"the solution with {_name(rows, index)} has in its text `{reader.mark}`, which marks the end of a "
                f"step for {reader.identity}; leave it out or use another reward model"
            )
        if len(solution.token_ids) > reader.context_length:
            raise ScoringError(
                f"the solution with {_name(rows, index)} has {len(solution.token_ids)} tokens, but {reader.identity} "
                f"reads at most {reader.context_length}; leave it out or use a reward model with a longer context"
            )
        same.setdefault((*solution.token_ids, -1, *solution.step_positions), []).append(index)
    repeats = list(same.values())
    report = progress or (lambda count: None)
    report(solutions.height - judged.height)
    found: list[np.ndarray] = [np.empty(0)] * len(encoded)
    for results in step_results([encoded[indices[0]] for indices in repeats], reader.decoder, read, batch_tokens):
        for number, values in results:
            for index in repeats[number]:
                found[index] = values
        report(sum(len(repeats[number]) for number, _ in results))
    for index, values in enumerate(found):
        if not np.isfinite(values).all():
            step = int(np.isfinite(values).reshape(len(values), -1).all(1).argmin())
            raise ScoringError(
                f"the {column} of {_name(rows, index)}, step_index {step} is not a finite number, as after a "
                "training that diverged; read in float32, or train the model again"
            )
    counts = [len(solution.step_positions) for solution in encoded]
    every = np.concatenate(found) if found else np.empty(0)
    steps = [step for count in counts for step in range(count)]
    results = pl.DataFrame([pl.Series("step_index", steps, pl.Int64), _series(column, every)])
    if not rows.width:
        return results
    return pl.concat([rows[np.repeat(np.arange(len(counts)), counts)], results], how="horizontal")


def _name(rows: pl.DataFrame, index: int) -> str:
    named = ", ".join(f"{column} {value}" for column, value in rows.row(index, named=True).items())
    return named or f"row {index}"


def step_results(
    encoded: Sequence[EncodedSolution], backbone: PreTrainedModel, read: ReadEnds, batch_tokens: int
) -> Iterator[list[tuple[int, np.ndarray]]]:
    """What `read` makes of the steps of every solution.

    Args:
        encoded: solutions; they are numbered in this order.
        backbone: in evaluation mode.
        read: called with the hidden states at the ends of the steps of a pass.
        batch_tokens: most tokens that are read at once, padding included; a longer solution goes alone.

    Yields:
        Of each pass, the numbers of its solutions and the results of their steps.
    """

    @torch.inference_mode()
    def read_row(row: SolutionRow) -> list[tuple[int, np.ndarray]]:
        results = read(_states(row, backbone)[torch.from_numpy(np.concatenate(row.steps))])
        parts = results.split([len(steps) for steps in row.steps])
        return [(member, part.numpy()) for member, part in zip(row.members, parts, strict=True)]

    if backbone.device.type == "cpu" and reads_rows(backbone):
        rows = solution_rows(encoded, min(batch_tokens, ROW_TOKENS))
        passes = max(1, min(torch.get_num_threads(), batch_tokens // ROW_TOKENS))
        with attention_implementation(backbone, IMPLEMENTATION):
            yield from side_by_side(read_row, rows, passes)
        return
    batches = list(token_batches([len(solution.token_ids) for solution in encoded], batch_tokens))
    random.Random(0).shuffle(batches)  # in no order of length, so that the time left is right from the start
    for batch in batches:
        inputs, is_step = pad_batch([encoded[number] for number in batch])
        with torch.inference_mode():
            ends = end_states(backbone, **{name: tensor.to(backbone.device) for name, tensor in inputs.items()})
            parts = read(ends[is_step.to(ends.device)]).cpu().split(is_step.sum(1).tolist())
        yield [(number, part.numpy()) for number, part in zip(batch, parts, strict=True)]


def reads_rows(backbone: PreTrainedModel) -> bool:
    """Whether a backbone gives the same states for a small row as for its solutions one by one; found by trying."""
    rope = getattr(backbone.config.get_text_config(), "rope_parameters", None) or {}
    # frequencies that change with the length are kept in the model, where passes side by side would overwrite them
    fixed = rope.get("rope_type", "default") not in ("dynamic", "longrope")
    if not (can_share_prefix(backbone) and fixed and backbone.dtype == torch.float32):
        return False
    size = backbone.config.get_text_config().vocab_size
    branches = [[number % size for number in (1, 2, 3, *rest)] for rest in ((4, 5, 6, 7, 8), (9, 10, 11, 12))]
    (row,) = solution_rows([EncodedSolution(tokens, list(range(len(tokens)))) for tokens in branches], ROW_TOKENS)
    with torch.inference_mode():
        try:
            with attention_implementation(backbone, IMPLEMENTATION):
                states = _states(row, backbone)
        except Exception as error:  # whatever a model raises here, it does not read rows
            logger.info("%s does not read solutions in rows: %s", type(backbone).__name__, error)
            return False
        for member, nodes in zip(row.members, row.steps, strict=True):
            tokens = torch.tensor([branches[member]])
            alone = backbone(input_ids=tokens, use_cache=False).last_hidden_state[0]
            if not (states[torch.from_numpy(nodes)] - alone).abs().max() <= TOLERANCE * alone.abs().max():
                return False
    return True


def side_by_side(work: Callable[[Item], Result], items: Iterable[Item], passes: int) -> Iterator[Result]:
    """The result of each item, in order, from `passes` threads that share torch's; these are restored at the end."""
    cores = torch.get_num_threads()
    pool = ThreadPoolExecutor(passes, "pass", torch.set_num_threads, (max(1, cores // passes),))
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(cores)


def token_batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Indices in batches of similar length, longest first; rows x longest row stays within `batch_tokens`."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if batch and lengths[batch[0]] * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _states(row: SolutionRow, backbone: PreTrainedModel) -> Tensor:
    """Last hidden state of every node, (nodes, hidden size)."""
    tokens, depth = torch.from_numpy(row.tokens)[None], torch.from_numpy(row.depth)[None]
    structure = blocked_inputs(row.end, backbone)
    return backbone(input_ids=tokens, position_ids=depth, use_cache=False, **structure).last_hidden_state[0]


def probabilities(logits: Tensor) -> Tensor:
    """Logits -> probabilities, float64."""
    return logits.float().double().sigmoid()


def _series(name: str, values: np.ndarray) -> pl.Series:
    if values.ndim == 1:
        return pl.Series(name, values, pl.Float64)
    return pl.Series(name, values, pl.Array(pl.Float32, values.shape[1])).arr.to_list()
