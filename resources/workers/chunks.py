"""Chunks of a partition: what is committed at once, so that a killed run goes on after the last one.

chunks_of(trajectories, 64)    {"00000-rows-64": the first 64 rows, "00001-rows-64": …}
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from cpmi_dagster.contracts.cost import Cost

Advance = Callable[[int], None]


@dataclass(frozen=True)
class StageOutput:
    """What a stage returns for one partition: its rows, and facts to store with them.

    Attributes:
        frames: one frame, or a frame per table where a stage makes several.
        model: the language model or recipe behind the rows, by its identity.
        cost: of the work.
        notes: shown, and kept with the rows.
        files: paths that the rows point at, relative to the home.
        metadata: shown.
    """

    frames: pl.DataFrame | Mapping[str, pl.DataFrame]
    model: str = ""
    cost: Cost = field(default_factory=Cost.zero)
    notes: Sequence[str] = ()
    files: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def frame(self, key: str) -> pl.DataFrame:
        """The rows of one of the stage's tables."""
        return self.frames if isinstance(self.frames, pl.DataFrame) else self.frames[key]


ChunkMaker = Callable[[pl.DataFrame, Advance], StageOutput]
"""Called with the rows of a chunk, and a function that takes the number of items just finished."""


def chunks_of(frame: pl.DataFrame, size: int) -> dict[str, pl.DataFrame]:
    """The chunks of a frame by their names, in its order; a frame without rows is one chunk."""
    slices = list(frame.iter_slices(size)) or [frame]
    return {f"{number:05d}-rows-{size}": rows for number, rows in enumerate(slices)}


def make_chunk(make: ChunkMaker, rows: pl.DataFrame, advance: Advance) -> StageOutput:
    """The output for a chunk; an error carries a note on the trajectories among which it came up."""
    try:
        return make(rows, advance)
    except Exception as error:
        error.add_note(_among(rows))
        raise


def _among(rows: pl.DataFrame) -> str:
    name = rows.columns[0].removesuffix("_id").replace("_", " ")
    first = rows[0, 0] if rows.height else "?"
    return f"at {name} {first}" if rows.height == 1 else f"among {rows.height:,} rows from {name} {first} on"
