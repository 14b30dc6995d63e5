"""How a reward model reads many solutions: as rectangles, or on a CPU as rows in which a common beginning stands once.

Eight candidates of a question are 1,660 tokens in a rectangle and 650 in a row. The probabilities are those of each
solution alone, up to rounding. Rows are read side by side, a pass on each core: a small model's operations are too
short to be split among cores, and cores that wait for each other are idle when another process takes one of them.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from cpmi_dagster.models.attention import attention_implementation
from cpmi_dagster.prm.batching import token_batches
from cpmi_dagster.prm.inputs import EncodedSolution, pad_batch
from cpmi_dagster.prm.model import RewardModel
from cpmi_dagster.prm.shared_prefix import can_share_prefix
from cpmi_dagster.prm.solution_rows import SolutionRow, solution_rows
from cpmi_dagster.scoring.readers.blocked import IMPLEMENTATION, blocked_inputs

ROW_TOKENS = 2048
"""What a core's cache holds the activations of; longer rows take longer a token."""
TOLERANCE = 1e-4
Item = TypeVar("Item")
Result = TypeVar("Result")
Scores = list[tuple[int, list[float]]]
logger = logging.getLogger(__name__)


def step_probabilities(encoded: Sequence[EncodedSolution], model: RewardModel, batch_tokens: int) -> Iterator[Scores]:
    """Step probabilities of every solution.

    Args:
        encoded: solutions; they are numbered in this order.
        model: in evaluation mode.
        batch_tokens: most tokens under way at once, padding included; a longer solution goes alone.

    Yields:
        Of each pass, the numbers of its solutions and the probabilities of their steps.
    """
    if model.device.type == "cpu" and reads_rows(model.backbone):
        yield from _in_rows(encoded, model, batch_tokens)
        return
    for batch in token_batches([len(solution.token_ids) for solution in encoded], batch_tokens):
        yield list(zip(batch, _read_rectangle([encoded[number] for number in batch], model), strict=True))


def reads_rows(backbone: PreTrainedModel) -> bool:
    """Whether a backbone reads a small row as it reads its solutions one by one; found by trying."""
    rope = getattr(backbone.config.get_text_config(), "rope_parameters", None) or {}
    # frequencies that change with the length are kept in the model, where passes side by side would overwrite them
    fixed = rope.get("rope_type", "default") not in ("dynamic", "longrope")
    if not (can_share_prefix(backbone) and fixed and backbone.dtype == torch.float32):
        return False
    size = backbone.config.get_text_config().vocab_size
    branches = [[number % size for number in (1, 2, 3, *rest)] for rest in ((4, 5, 6, 7, 8), (9, 10, 11, 12))]
    (row,) = solution_rows([EncodedSolution(tokens, list(range(len(tokens)))) for tokens in branches], ROW_TOKENS)
    try:
        with torch.inference_mode(), attention_implementation(backbone, IMPLEMENTATION):
            states = _states(row, backbone)
    except Exception as error:  # whatever a model raises here, it does not read rows
        logger.info("%s does not read solutions in rows: %s", type(backbone).__name__, error)
        return False
    return all(
        _agree(states[torch.from_numpy(nodes)], backbone, branches[member])
        for member, nodes in zip(row.members, row.steps, strict=True)
    )


def side_by_side(work: Callable[[Item], Result], items: Iterable[Item], passes: int) -> Iterator[Result]:
    """The result of each item, in order, from `passes` threads that share torch's; these are restored at the end."""
    cores = torch.get_num_threads()
    if passes == 1:
        yield from map(work, items)
        return
    pool = ThreadPoolExecutor(passes, "pass", torch.set_num_threads, (max(1, cores // passes),))
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(cores)


@torch.inference_mode()
def _agree(states: Tensor, backbone: PreTrainedModel, tokens: list[int]) -> bool:
    alone = backbone(input_ids=torch.tensor([tokens]), use_cache=False).last_hidden_state[0]
    return bool((states - alone).abs().max() <= TOLERANCE * alone.abs().max())


def _in_rows(encoded: Sequence[EncodedSolution], model: RewardModel, batch_tokens: int) -> Iterator[Scores]:
    rows = solution_rows(encoded, min(batch_tokens, ROW_TOKENS))
    passes = max(1, min(torch.get_num_threads(), batch_tokens // ROW_TOKENS))
    with attention_implementation(model.backbone, IMPLEMENTATION):
        yield from side_by_side(partial(_read_row, model=model), rows, passes)


@torch.inference_mode()
def _read_row(row: SolutionRow, model: RewardModel) -> Scores:
    states = _states(row, model.backbone)
    ends = states[torch.from_numpy(np.concatenate(row.steps))]
    probabilities = _probabilities(model.head(ends.to(model.head.output.weight.dtype)))
    bounds = np.cumsum([0, *map(len, row.steps)]).tolist()
    return [
        (member, probabilities[first:last].tolist())
        for member, first, last in zip(row.members, bounds, bounds[1:], strict=False)
    ]


def _states(row: SolutionRow, backbone: PreTrainedModel) -> Tensor:
    """Last hidden state of every node, (nodes, hidden size)."""
    tokens, depth = torch.from_numpy(row.tokens)[None], torch.from_numpy(row.depth)[None]
    structure = blocked_inputs(row.end, backbone)
    return backbone(input_ids=tokens, position_ids=depth, use_cache=False, **structure).last_hidden_state[0]


@torch.inference_mode()
def _read_rectangle(encoded: Sequence[EncodedSolution], model: RewardModel) -> list[list[float]]:
    inputs, _ = pad_batch(encoded)
    logits = model(**{name: tensor.to(model.device) for name, tensor in inputs.items()}).logits
    rows = _probabilities(logits).tolist()
    return [row[: len(solution.step_positions)] for row, solution in zip(rows, encoded, strict=True)]


def _probabilities(logits: Tensor) -> Tensor:
    return logits.float().double().sigmoid()
