"""Score trajectories through packed token trees: one forward pass per row, vocabulary only where a target is predicted.

Question of 155 tokens, 5 steps of 83, 5 answers of 8 sharing 5, contexts of three conditionings, one template: 55
sequences of 163 to 578 tokens written out are one tree of about 1,000.

The rows of a window are launched before the values of the previous window are fetched, so a GPU does not wait for
tokenisation, trees or tables.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cpmi_dagster.errors import PassingError, first_line
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.models.memory import is_out_of_memory, release_memory, remember_size
from cpmi_dagster.scoring.admission import TokenizedTrajectory
from cpmi_dagster.scoring.budget import ROW_TOKENS, SHORTEST_ROW, row_budget
from cpmi_dagster.scoring.half_precision import in_float32
from cpmi_dagster.scoring.packing import PackedRow, rows_of, whole
from cpmi_dagster.scoring.readers.choice import reader_of
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.scoring.transfer import Download
from cpmi_dagster.scoring.trees import TokenTree
from cpmi_dagster.scoring.windows import Scored, Window, trees_of

if TYPE_CHECKING:
    import torch


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


class TreeScorer:
    """Reads the trees of windows with one model.

    Args:
        scoring: tokens of a row, and how the model reads trees.
    """

    def __init__(self, model: LoadedModel, scoring: Scoring) -> None:
        self._model = model
        self._scoring = scoring
        self._row_tokens = scoring.row_tokens or row_budget(model)

    def scores(self, windows: Iterable[Window], advance: Callable[[int], None]) -> Iterator[Scored]:
        """Log-probabilities of every answer under every context and template, window by window.

        Args:
            windows: at least one trajectory admitted in each.
            advance: called with the number of trajectories that went through the model since the last call.

        Raises:
            ModelError: the model cannot read token trees, or there is no memory for the shortest row.
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
        reader = reader_of(
            self._model, max(item.longest_sequence for item in window.trajectories), self._scoring.reader
        )
        waiting = rows_of(whole(*window.trees), self._row_tokens)
        values: list[tuple[PackedRow, Download]] = []
        reported = 0
        while waiting:
            logprobs = _unless_out_of_memory(reader.logprobs, waiting[0])
            if isinstance(logprobs, str):
                waiting = self._shorter(waiting, logprobs)
                continue
            values.append((waiting.pop(0), Download(logprobs)))
            done, left = sum(len(row) for row, _ in values), sum(map(len, waiting))
            finished = max(reported, window.size * done // (done + left))
            advance(finished - reported)
            reported = finished
        return Launched(window, values, sum(reader.tokens_computed(len(row)) for row, _ in values))

    def _shorter(self, rows: list[PackedRow], shortage: str) -> list[PackedRow]:
        """What is left, in rows of half the length."""
        release_memory(self._model.device)
        self._row_tokens = min(self._row_tokens, len(rows[0])) // 2
        if self._row_tokens < SHORTEST_ROW:
            raise OutOfMemory(
                f"{self._model.identity} has too little memory for a row of {len(rows[0])} tokens ({shortage}); use a "
                "smaller dtype, `device_map: auto` over several GPUs, or a device with more memory"
            )
        remember_size(self._model.remembered, ROW_TOKENS, self._row_tokens)
        return rows_of((piece for row in rows for piece in row.pieces), self._row_tokens)

    def _finish(self, launched: Launched) -> Scored:
        """Fetch the values; trajectories with values that are not finite are scored again, each alone."""
        window, scored = launched.window, _fetched(launched)
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
                    scored.append(_fetched(wide._launch(window, lambda _: None)))
        except (OutOfMemory, RuntimeError) as error:
            if not (isinstance(error, OutOfMemory) or is_out_of_memory(error)):
                raise
            release_memory(self._model.device)
        return scored


class OutOfMemory(PassingError):
    """There is no memory for the shortest row."""


def _unless_out_of_memory(read: Callable[[PackedRow], "torch.Tensor"], row: PackedRow) -> "torch.Tensor | str":
    """The log-probabilities, or torch's message where memory ran out.

    The error is dropped here: its traceback would keep the memory of the failed pass.
    """
    try:
        return read(row)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        return first_line(error)


def _fetched(launched: Launched) -> Scored:
    trees = launched.window.trees
    logprobs = {id(tree): np.empty(len(tree.predicted)) for tree in trees}
    for row, download in launched.values:
        values = np.split(download.numpy(), np.cumsum([len(piece.targets) for piece in row.pieces])[:-1])
        for piece, own in zip(row.pieces, values, strict=True):
            logprobs[id(piece.tree)][piece.targets] = own
    return Scored(pl.concat([_with_sums(tree, logprobs[id(tree)]) for tree in trees]), launched.forward_tokens)


def _with_sums(tree: TokenTree, logprobs: NDArray[np.float64]) -> pl.DataFrame:
    counts = tree.targets["token_count"].to_numpy()
    return tree.targets.with_columns(logprob_sum=pl.Series(np.add.reduceat(logprobs, np.cumsum(counts) - counts)))
