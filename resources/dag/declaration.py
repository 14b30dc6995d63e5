"""What a stage of the DAG declares; `states` judges it, `stage` runs it, `presentation` shows it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import dagster as dg
import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.tables import TABLES, Partitioning
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.profiles.sources import DataSource
from cpmi_dagster.resources.workers.language_models import Role

NOTHING_ASKED_FOR = "empty: no reward type of the profile needs it"


@dataclass(frozen=True)
class StageOutput:
    """What a stage returns.

    Attributes:
        frames: rows of its table, or by table where it makes several; of a stage that makes all partitions at once,
            batches of rows with a column `shard` that says in which each is.
        model: identity of the language model used.
        cost: of the answers of models that the rows use.
        notes: what a reader of the rows should know.
        files: what the rows point at, relative to the home.
        metadata: shown by Dagster.
    """

    frames: pl.DataFrame | Mapping[str, pl.DataFrame] | Iterable[pl.DataFrame]
    model: str = ""
    cost: Cost = field(default_factory=Cost.zero)
    notes: Sequence[str] = ()
    files: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def frame(self, key: str) -> pl.DataFrame:
        """The rows of one of the stage's tables."""
        if isinstance(self.frames, Mapping):
            return cast("Mapping[str, pl.DataFrame]", self.frames)[key]
        return cast("pl.DataFrame", self.frames)

    def batches(self) -> Iterable[pl.DataFrame]:
        """The rows of a stage that makes all partitions at once, batch by batch."""
        return [self.frames] if isinstance(self.frames, pl.DataFrame) else cast("Iterable[pl.DataFrame]", self.frames)


@dataclass(frozen=True)
class Declaration:
    """What a stage reads, makes and depends on.

    Attributes:
        body: makes the rows of one partition, from a `StageRun`.
        table: key of the table it makes.
        also: keys of further tables that the same body makes.
        inputs: keys of the tables it reads; of one that is partitioned as the stage is, the stage's own partition.
        settings: dotted paths of the settings its rows depend on; the seed always counts.
        asked: whether the profile asks for any rows; if not, the body is not called.
        unasked: why the table is empty then.
        feeds: whether a partition depends on an input at all.
        rows_of: by an input in one file, the rows of it that a partition depends on.
        at_once: one run makes all partitions of its table, from all of its inputs.
        counts_costs: its rows depend on what its inputs cost too.
        models: roles of the models it uses.
        named_models: further models it uses, by name.
        sources: the external sources it reads, by name.
        code_version: raised by hand when the same inputs would give other rows.
        pool: Dagster pool that limits how many run at once.
        kinds: technologies that Dagster shows.
        lineage: columns made from columns of other names, as `column: [group/name.column, ...]`.
        eager: remade automatically when its inputs change, where automation is on.
        prefix: what its asset keys and its op begin with, in a project of somebody else's.
        upstream: keys of the assets of that project that write its sources.
    """

    body: Callable[..., StageOutput]
    table: str
    also: Sequence[str] = ()
    inputs: Sequence[str] = ()
    settings: Sequence[str] = ()
    asked: Callable[[Settings], bool] = lambda _: True
    unasked: str = NOTHING_ASKED_FOR
    feeds: Callable[[str, str | None, Settings], bool] = lambda key, partition, settings: True
    rows_of: Mapping[str, Callable[[Settings, str], pl.Expr]] = field(default_factory=dict)
    at_once: bool = False
    counts_costs: bool = False
    models: Sequence[Role] = ()
    named_models: Callable[[Settings], Mapping[str, LanguageModel]] = lambda _: {}
    sources: Callable[[Settings], Mapping[str, DataSource]] = lambda _: {}
    code_version: str = "1"
    pool: str | None = None
    kinds: Sequence[str] = ("polars",)
    lineage: Mapping[str, Sequence[str]] = field(default_factory=dict)
    eager: bool = False
    prefix: tuple[str, ...] = ()
    upstream: tuple[dg.AssetKey, ...] = ()

    @property
    def name(self) -> str:
        """Name of the stage and its body."""
        return self.body.__name__

    @property
    def tables(self) -> tuple[str, ...]:
        """Keys of all tables it makes."""
        return (self.table, *self.also)

    @property
    def partitioning(self) -> Partitioning | None:
        """How its runs are partitioned: each makes one partition."""
        return None if self.at_once else TABLES[self.table].partitioning

    def column_sources(self, key: str) -> dict[str, list[tuple[str, str]]]:
        """By column of a table, the columns of inputs it is made from: of the same name, and those in `lineage`."""
        upstream = {name: TABLES[name].schema.columns() for name in self.inputs}
        sources = {}
        for column in TABLES[key].schema.columns():
            same = [(name, column) for name, columns in upstream.items() if column in columns]
            named = [tuple(source.rsplit(".", maxsplit=1)) for source in self.lineage.get(column, ())]
            if found := list(dict.fromkeys([*same, *named])):
                sources[column] = found
        return sources


def distinct(stages: Iterable[Declaration]) -> list[Declaration]:
    """Each stage once, also one that makes several tables."""
    return list({stage.table: stage for stage in stages}.values())
