"""Read token trees in packed rows, one forward pass a row, and return the values at their places, tree by tree.

Question of 155 tokens, 5 steps of 83, 5 answers of 8 sharing 5, contexts of three conditionings, one template: 55
sequences of 163 to 578 tokens are one tree of about 1,000. Eight candidate solutions of a question have 1,660 tokens,
and 650 as a tree.

The rows of a window are launched before the values of the previous window are fetched, so a GPU does not wait for
tokenisation. Row lengths are estimated from free memory, and halved if it runs out. Qwen3-8B in bfloat16 holds about
156 kB of activations per token while a layer runs; beyond 16,384 tokens on a GPU, 4,096 on a CPU, rows get no faster.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from cpmi_dagster.errors import ModelError, TransientError, first_line
from cpmi_dagster.models.attention import attention_implementation
from cpmi_dagster.models.memory import is_out_of_memory, release_memory
from cpmi_dagster.tree_forward import Reader
from cpmi_dagster.tree_forward.probe import Probe, Take, choose_reader
from cpmi_dagster.tree_forward.row_readers import RowReader
from cpmi_dagster.tree_forward.trees import PackedRow, TokenTree, rows_of, whole

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

LONGEST_ROW = {"cuda": 16_384, "cpu": 4_096}
SHORTEST_ROW = 128
USABLE_SHARE = 0.5
# hidden states, residual, normed copies, queries, keys, values and the attention's result, in widths of the model
HIDDEN_COPIES = 10
# gate, up and their product
INNER_COPIES = 3
ROW_TOKENS = "row tokens"
"""Key in `Readable.cache` of the longest row since memory ran out."""


class OutOfMemory(TransientError):
    """The shortest row does not fit into memory."""


class Readable(Protocol):
    """A model, its name, and a cache of facts about it within the process."""

    @property
    def model(self) -> "PreTrainedModel": ...
    @property
    def identity(self) -> str: ...
    @property
    def cache(self) -> dict[str, Any]: ...


class Values(NamedTuple):
    """The values at the places of each tree, in order, and the tokens of the forward passes."""

    by_tree: Sequence[np.ndarray]
    forward_tokens: int


class _Download:
    """Values in transfer from a device; to pinned memory, which does not wait for kernels launched before."""

    def __init__(self, values: "torch.Tensor") -> None:
        import torch

        self._arrived: torch.cuda.Event | None = None
        self._values = values
        if values.is_cuda:
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record(torch.cuda.current_stream(values.device))

    def numpy(self) -> np.ndarray:
        """The values, once the copy is done."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._values.cpu().numpy()


class TreeReader:
    """Reads trees with a model.

    Args:
        take: computes the values at their places.
        probe: what readers are tested with; called once per model.
        wanted: reader name; auto = by the model's device.
        row_tokens: most tokens of a row; by free memory if None.
        passes: rows read in parallel, each by its share of torch's threads: on a CPU, operations of a small model are
            too short to be split among cores.

    Raises:
        ModelError: the model cannot read token trees.
    """

    def __init__(
        self,
        model: Readable,
        take: Take,
        probe: Callable[[], Probe],
        wanted: Reader = "auto",
        row_tokens: int | None = None,
        passes: int = 1,
    ) -> None:
        self._model, self._take, self._passes = model, take, passes
        name = f"reader {wanted}"
        if name not in model.cache:
            try:
                model.cache[name] = choose_reader(model.model, wanted, probe())
            except ModelError as error:
                model.cache[name] = str(error)
        if isinstance(refusal := model.cache[name], str):
            raise ModelError(refusal)
        self.rows_by: RowReader = model.cache[name]
        self._row_tokens = row_tokens or row_budget(model)

    def read(
        self, windows: Iterable[tuple[Sequence[TokenTree], int]], advance: Callable[[int], None] = lambda _: None
    ) -> Iterator[Values]:
        """The values of the trees, window by window.

        Args:
            windows: trees, at least one, and the window's size for `advance`.
            advance: called with the part of the sizes that was read since the last call.

        Raises:
            OutOfMemory: the shortest row does not fit into memory.
        """
        before = None
        for trees, size in windows:
            launched = (trees, self._launch(trees, size, advance))
            if before:
                yield self._fetch(*before)
            before = launched
        if before:
            yield self._fetch(*before)

    def _launch(
        self, trees: Sequence[TokenTree], size: int, advance: Callable[[int], None]
    ) -> list[tuple[PackedRow, _Download]]:
        waiting = rows_of(whole(*trees), self._row_tokens)
        launched: list[tuple[PackedRow, _Download]] = []
        reported = 0
        with attention_implementation(self._model.model, self.rows_by.implementation):
            while waiting:
                shortage = None
                before = len(launched)
                try:
                    for row, values in zip(waiting, self._each(waiting), strict=True):
                        launched.append((row, _Download(values)))
                        left = sum(map(len, waiting[len(launched) - before :]))
                        done = sum(len(row) for row, _ in launched)
                        finished = max(reported, size * done // (done + left))
                        advance(finished - reported)
                        reported = finished
                except RuntimeError as error:
                    if not is_out_of_memory(error):
                        raise
                    # handled after this block, in which the traceback keeps the memory of the failed pass
                    shortage = first_line(error)
                del waiting[: len(launched) - before]
                if shortage is not None:
                    waiting = self._halve_rows(waiting, shortage)
        return launched

    def _each(self, rows: Sequence[PackedRow]) -> Iterator["torch.Tensor"]:
        """The values of each row, in order."""
        import torch

        def values(row: PackedRow) -> torch.Tensor:
            with torch.inference_mode():
                return self._take(self.rows_by.read(row), row)

        if self._passes == 1:
            yield from map(values, rows)
            return
        cores = torch.get_num_threads()
        pool = ThreadPoolExecutor(self._passes, "pass", torch.set_num_threads, (max(1, cores // self._passes),))
        try:
            yield from pool.map(values, rows)
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(cores)

    def _halve_rows(self, rows: list[PackedRow], shortage: str) -> list[PackedRow]:
        """Pack the pieces into rows of half the length, and remember this length."""
        release_memory(self._model.model.device)
        self._row_tokens = min(self._row_tokens, len(rows[0])) // 2
        if self._row_tokens < SHORTEST_ROW:
            raise OutOfMemory(
                f"{self._model.identity} has too little memory for a row of {len(rows[0])} tokens ({shortage}); use a "
                "smaller dtype, `device_map: auto` over several GPUs, or a device with more memory"
            )
        self._model.cache[ROW_TOKENS] = self._row_tokens
        return rows_of((piece for row in rows for piece in row.pieces), self._row_tokens)

    def _fetch(self, trees: Sequence[TokenTree], launched: Sequence[tuple[PackedRow, _Download]]) -> Values:
        """Wait for the values of a window."""
        by_tree: dict[int, np.ndarray] = {}
        for row, download in launched:
            values = download.numpy()
            bounds = np.cumsum([len(piece.values) for piece in row.pieces])[:-1]
            for piece, part in zip(row.pieces, np.split(values, bounds), strict=True):
                tree = piece.tree
                if id(tree) not in by_tree:
                    by_tree[id(tree)] = np.empty((len(tree.places), *values.shape[1:]), values.dtype)
                by_tree[id(tree)][piece.values] = part
        tokens = sum(self.rows_by.padded(len(row)) for row, _ in launched)
        return Values([by_tree[id(tree)] for tree in trees], tokens)


def row_budget(model: Readable) -> int:
    """Tokens of a row that fit the device's memory: at least `SHORTEST_ROW`, less than ran out of memory before."""
    import torch

    device = model.model.device
    tokens = LONGEST_ROW.get(device.type, LONGEST_ROW["cpu"])
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        fitting = int((free + cached) * USABLE_SHARE) // bytes_per_token(model.model)
        # powers of two: kernels are compiled for few lengths
        tokens = max(SHORTEST_ROW, min(tokens, 1 << (max(fitting, 1).bit_length() - 1)))
    return min(tokens, model.cache.get(ROW_TOKENS, tokens))


def bytes_per_token(model: Any) -> int:
    """Bytes of activations per token while a layer runs."""
    config = model.config.get_text_config()
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    heads = config.num_attention_heads
    attention = heads * (getattr(config, "head_dim", None) or config.hidden_size // heads)
    return model.dtype.itemsize * (HIDDEN_COPIES * max(config.hidden_size, attention) + INNER_COPIES * inner)
