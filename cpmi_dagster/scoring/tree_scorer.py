"""Score trajectories through packed token trees: one forward pass per row, vocabulary only where a target is predicted.

Question of 155 tokens, 5 steps of 83, 5 answers of 8 sharing 5, contexts of three conditionings, one template: 55
sequences of 163 to 578 tokens written out are one tree of about 1,000.

The rows of a window are launched before the values of the previous window are fetched, so a GPU does not wait for
tokenisation, trees or tables.

The tokens of a row are estimated from free memory, and halved when memory runs out. Qwen3-8B in bfloat16 holds about
156 kB of activations a token while a layer runs; half of 40 GiB carries 138,000 tokens. Longer rows stop being faster
long before that: at 16,384 tokens on a GPU, 4,096 on a CPU.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cpmi_dagster.errors import PassingError, first_line
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.models.memory import is_out_of_memory, release_memory
from cpmi_dagster.scoring.admission import TokenizedTrajectory
from cpmi_dagster.scoring.packing import PackedRow, rows_of, whole
from cpmi_dagster.scoring.readers.choice import reader_of
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.scoring.windows import Scored, Window, trees_of

if TYPE_CHECKING:
    import torch

LONGEST_ROW = {"cuda": 16_384, "cpu": 4_096}
SHORTEST_ROW = 128
USABLE_SHARE = 0.5
# hidden states, residual, normed copies, queries, keys, values and the attention's result, in widths of the model
HIDDEN_COPIES = 10
# gate, up and their product
INNER_COPIES = 3
ROW_TOKENS = "row tokens"
"""In `LoadedModel.remembered`: the longest row after memory ran out."""


class OutOfMemory(PassingError):
    """There is no memory for the shortest row."""


class Download:
    """Values in transfer from a device.

    On CUDA a copy to ordinary memory waits for everything launched before it, a copy to pinned memory does not.

    Args:
        values: float32, on any device.
    """

    def __init__(self, values: "torch.Tensor") -> None:
        import torch

        self._arrived: torch.cuda.Event | None = None
        self._values = values
        if values.is_cuda:
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record(torch.cuda.current_stream(values.device))

    def numpy(self) -> NDArray[np.float64]:
        """The values; waits for this copy only, not for work launched after it."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._values.cpu().double().numpy()


@dataclass(frozen=True)
class Launched:
    """A window whose rows were launched on the device.

    Attributes:
        window: the trajectories and trees.
        values: rows, and the log-probabilities of their target tokens in transfer.
        forward_tokens: tokens that go through the model for it.
    """

    window: Window
    values: list[tuple[PackedRow, Download]]
    forward_tokens: int

    def fetch(self) -> Scored:
        """Wait for the values, and sum them by target."""
        logprobs = {id(tree): np.empty(len(tree.predicted)) for tree in self.window.trees}
        for row, download in self.values:
            bounds = np.cumsum([len(piece.targets) for piece in row.pieces])[:-1]
            for piece, values in zip(row.pieces, np.split(download.numpy(), bounds), strict=True):
                logprobs[id(piece.tree)][piece.targets] = values
        frames = []
        for tree in self.window.trees:
            counts = tree.targets["token_count"].to_numpy()
            sums = np.add.reduceat(logprobs[id(tree)], np.cumsum(counts) - counts)
            frames.append(tree.targets.with_columns(logprob_sum=pl.Series(sums)))
        return Scored(pl.concat(frames), self.forward_tokens)


class TreeScorer:
    """Reads the trees of windows with one model.

    Args:
        scoring: tokens of a row, and how the model reads trees.

    Raises:
        ModelError: the model cannot read token trees.
    """

    def __init__(self, model: LoadedModel, scoring: Scoring) -> None:
        self._model = model
        self._scoring = scoring
        self._reader = reader_of(model, scoring.reader)
        self._row_tokens = scoring.row_tokens or row_budget(model)

    def scores(self, windows: Iterable[Window], advance: Callable[[int], None]) -> Iterator[Scored]:
        """Log-probabilities of every answer under every context and template, window by window.

        Args:
            windows: at least one trajectory admitted in each.
            advance: called with the number of trajectories that went through the model since the last call.

        Raises:
            OutOfMemory: there is no memory for the shortest row.
        """
        before: Launched | None = None
        for window in windows:
            launched = self._launch(window, advance)
            if before:
                yield self._finish(before)
            before = launched
        if before:
            yield self._finish(before)

    def _launch(self, window: Window, advance: Callable[[int], None]) -> Launched:
        waiting = rows_of(whole(*window.trees), self._row_tokens)
        values: list[tuple[PackedRow, Download]] = []
        reported = 0
        while waiting:
            shortage = None
            try:
                values.append((waiting[0], Download(self._reader.logprobs(waiting[0]))))
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                # handled outside of this block, where the error's traceback keeps the memory of the failed pass
                shortage = first_line(error)
            if shortage is not None:
                waiting = self._shortened(waiting, shortage)
                continue
            del waiting[0]
            done, left = sum(len(row) for row, _ in values), sum(map(len, waiting))
            finished = max(reported, window.size * done // (done + left))
            advance(finished - reported)
            reported = finished
        return Launched(window, values, sum(self._reader.padded(len(row)) for row, _ in values))

    def _shortened(self, rows: list[PackedRow], shortage: str) -> list[PackedRow]:
        """The pieces of these rows in rows of half the length, which is remembered."""
        release_memory(self._model.device)
        self._row_tokens = min(self._row_tokens, len(rows[0])) // 2
        if self._row_tokens < SHORTEST_ROW:
            raise OutOfMemory(
                f"{self._model.identity} has too little memory for a row of {len(rows[0])} tokens ({shortage}); use a "
                "smaller dtype, `device_map: auto` over several GPUs, or a device with more memory"
            )
        self._model.remembered[ROW_TOKENS] = self._row_tokens
        return rows_of((piece for row in rows for piece in row.pieces), self._row_tokens)

    def _finish(self, launched: Launched) -> Scored:
        """Fetch the values; trajectories with values that are not finite are scored again, each alone."""
        window, scored = launched.window, launched.fetch()
        not_finite = set(scored.logprobs.filter(~pl.col("logprob_sum").is_finite())["trajectory_id"])
        same_again = len(window.trajectories) == 1 and self._model.model.dtype.itemsize >= 4
        if not not_finite or same_again:
            return scored
        again = self._alone([item for item in window.trajectories if item.trajectory_id in not_finite])
        rescored = pl.concat([scored.logprobs.clear(), *(part.logprobs for part in again)])
        kept = scored.logprobs.join(rescored, on="trajectory_id", how="anti")
        return Scored(
            logprobs=pl.concat([kept, rescored]),
            forward_tokens=scored.forward_tokens + sum(part.forward_tokens for part in again),
        )

    def _alone(self, trajectories: Sequence[TokenizedTrajectory]) -> list[Scored]:
        """Score each in float32 in separate rows: no other trajectory's NaN or overflow affects it.

        Returns:
            Those for which there was memory; float32 needs twice as much.
        """
        scored: list[Scored] = []
        try:
            with in_float32(self._model.model):
                # a copy, so that the rows of half precision are not shortened to those that float32 has memory for
                wide = TreeScorer(replace(self._model), self._scoring)
                for trajectory in trajectories:
                    window = Window(1, [trajectory], [], trees_of([trajectory]))
                    scored.append(wide._launch(window, lambda _: None).fetch())
        except (OutOfMemory, RuntimeError) as error:
            if not (isinstance(error, OutOfMemory) or is_out_of_memory(error)):
                raise
            release_memory(self._model.device)
        return scored


def row_budget(model: LoadedModel) -> int:
    """Tokens of a row that fit the device's memory: at least `SHORTEST_ROW`, fewer than ran out of memory before."""
    import torch

    tokens = LONGEST_ROW.get(model.device.type, LONGEST_ROW["cpu"])
    if model.device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(model.device)
        cached = torch.cuda.memory_reserved(model.device) - torch.cuda.memory_allocated(model.device)
        fitting = int((free + cached) * USABLE_SHARE) // bytes_per_token(model.model)
        # powers of two keep the lengths that kernels are compiled for few
        tokens = max(SHORTEST_ROW, min(tokens, 1 << (max(fitting, 1).bit_length() - 1)))
    return min(tokens, model.remembered.get(ROW_TOKENS, tokens))


def bytes_per_token(model: Any) -> int:
    """Activations of one token while a layer runs, in bytes."""
    config = model.config.get_text_config()
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    heads = config.num_attention_heads
    attention = heads * (getattr(config, "head_dim", None) or config.hidden_size // heads)
    return model.dtype.itemsize * (HIDDEN_COPIES * max(config.hidden_size, attention) + INNER_COPIES * inner)


@contextmanager
def in_float32(model: Any) -> Iterator[None]:
    """Widen the half-precision weights of a model within the block; they take twice the memory.

    Half precision may overflow where float32 does not. Narrowing the weights again restores every bit; tensors that
    are float32 anyway (rotary frequencies) stay as they are.
    """
    import torch

    narrow = {
        tensor: tensor.dtype
        for tensor in chain(model.parameters(), model.buffers())
        if tensor.is_floating_point() and tensor.dtype.itemsize < 4
    }
    try:
        with torch.no_grad():
            for tensor in narrow:
                tensor.data = tensor.data.float()
        yield
    finally:
        for tensor, dtype in narrow.items():
            tensor.data = tensor.data.to(dtype)
