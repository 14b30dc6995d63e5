"""Chunks of a partition: what is committed at once, and what another process or machine can make.

    ChunkJob("answer_logprobs", "003", "00007-rows-64", make, 64 trajectories, {"labels/hard_negatives": theirs})

`make` is a function of a module, its plain arguments bound by `functools.partial`: it is sent to the process that calls
it, and finds the models there. The same function makes the chunk in this process where no actors are asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.errors import MissingModel
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.workers.language_models import LanguageModels, Role

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


@dataclass(frozen=True)
class ChunkRun:
    """What a chunk is made with, in whichever process makes it.

    Attributes:
        settings: the profile.
        models: loaded once in that process.
        beside: rows of other tables on the chunk's trajectories, by key.
    """

    settings: Settings
    models: LanguageModels
    beside: Mapping[str, pl.DataFrame] = field(default_factory=dict)


ChunkMaker = Callable[[ChunkRun, pl.DataFrame, Advance], StageOutput]
"""Called with what a chunk is made with, its rows, and a function that takes the number of items just finished."""


@dataclass(frozen=True)
class ChunkJob:
    """One chunk to be made.

    Attributes:
        stage: that it belongs to.
        partition: likewise; actors take the chunks of earlier partitions first.
        name: of the chunk in its partition.
        make: makes it.
        rows: its items.
        beside: see `ChunkRun`.
        models: facts of the stage's models by role, as the run's fingerprint has them.
    """

    stage: str
    partition: str
    name: str
    make: ChunkMaker
    rows: pl.DataFrame
    beside: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    models: Mapping[Role, Sequence[str]] = field(default_factory=dict)

    def made(self, settings: Settings, models: LanguageModels, advance: Advance) -> StageOutput:
        """Its rows, made in this process; an error carries a note on the trajectories among which it came up."""
        try:
            return self.make(ChunkRun(settings, models, self.beside), self.rows, advance)
        except Exception as error:
            error.add_note(_among(self.rows))
            raise

    def check_models(self, models: LanguageModels) -> None:
        """Refuse models that are not those of the run.

        Raises:
            MissingModel: a folder holds other weights, or another config or tokenizer, on this node.
        """
        for role, facts in self.models.items():
            if (here := models.facts(role)) != list(facts):
                same = here[0] == facts[0]
                found, wanted = (", ".join(own[1:]) if same else own[0] for own in (here, facts))
                what = f"another precision, config or tokenizer of the {role} {here[0]}" if same else f"another {role}"
                raise MissingModel(f"a node has {what}: {found}, the run has {wanted}; give every node the same files")

    def __str__(self) -> str:
        return f"chunk {self.name.partition('-')[0]} of {self.stage} {self.partition}"


def _among(rows: pl.DataFrame) -> str:
    name = rows.columns[0].removesuffix("_id").replace("_", " ")
    first = rows[0, 0] if rows.height else "?"
    return f"at {name} {first}" if rows.height == 1 else f"among {rows.height:,} rows from {name} {first} on"


def chunk_jobs(
    stage: str,
    partition: str,
    frame: pl.DataFrame,
    size: int,
    make: ChunkMaker,
    beside: Mapping[str, pl.DataFrame],
    models: Mapping[Role, Sequence[str]],
) -> list[ChunkJob]:
    """The chunks of a frame, in its order; a frame without rows is one chunk.

    Args:
        beside: tables with a `trajectory_id`; a chunk has the rows of its own trajectories.
    """
    slices = list(frame.iter_slices(size)) or [frame]
    return [
        ChunkJob(
            stage,
            partition,
            f"{number:05d}-rows-{size}",
            make,
            rows,
            {key: table.join(rows, on="trajectory_id", how="semi") for key, table in beside.items()},
            models,
        )
        for number, rows in enumerate(slices)
    ]
