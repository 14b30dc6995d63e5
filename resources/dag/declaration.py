"""The declaration of a stage: `states` judges its files, `stage` runs it, `presentation` shows it in Dagster."""

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
    """The rows of a stage and their provenance.

    Attributes:
        frames: rows of the table; rows by table, if the stage makes several; batches of rows with a column `shard`, if
            it makes all shards at once.
        model: identity of the language model.
        cost: of the model answers that the rows use.
        notes: sentences for readers of the rows.
        files: paths that the rows name, relative to the home.
        metadata: shown by Dagster.
    """

    frames: pl.DataFrame | Mapping[str, pl.DataFrame] | Iterable[pl.DataFrame]
    model: str = ""
    cost: Cost = field(default_factory=Cost.zero)
    notes: Sequence[str] = ()
    files: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def frame(self, key: str) -> pl.DataFrame:
        """The rows of a table of the stage."""
        if isinstance(self.frames, Mapping):
            return cast("Mapping[str, pl.DataFrame]", self.frames)[key]
        return cast("pl.DataFrame", self.frames)

    def batches(self) -> Iterable[pl.DataFrame]:
        """The rows of a stage that makes all shards at once, batch by batch."""
        return [self.frames] if isinstance(self.frames, pl.DataFrame) else cast("Iterable[pl.DataFrame]", self.frames)


@dataclass(frozen=True)
class Declaration:
    """What a stage reads, makes and depends on.

    Attributes:
        body: makes the rows of a partition from a `StageRun`.
        table: key of its table.
        also: keys of further tables that the body makes.
        inputs: keys of the tables it reads; if one is partitioned as the stage is, the stage's own partition.
        settings: dotted paths of the settings that its rows depend on, beside the seed.
        asked: whether the profile needs any rows; if not, the body is not called.
        unasked: why the table is empty then.
        feeds: whether a partition depends on an input.
        rows_of: filter by input in one file: the rows that a partition depends on.
        at_once: one run makes all partitions.
        counts_costs: the rows depend on the costs of the inputs.
        models: roles of its models.
        named_models: further models, by name.
        sources: external sources, by name.
        code_version: raised by hand if the same inputs would give other rows.
        pool: Dagster pool that limits parallel runs.
        kinds: technologies that Dagster shows.
        lineage: columns made from columns of other names, as `column: [group/name.column, ...]`.
        eager: made again when inputs change, if automation is on.
        prefix: of its asset keys and op, in a Dagster project of the user's.
        upstream: asset keys of that project that write its sources.
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
        """The name of the body."""
        return self.body.__name__

    @property
    def tables(self) -> tuple[str, ...]:
        """The keys of all its tables."""
        return (self.table, *self.also)

    @property
    def partitioning(self) -> Partitioning | None:
        """How its runs are partitioned; None if one run makes the whole table."""
        return None if self.at_once else TABLES[self.table].partitioning

    def column_sources(self, key: str) -> dict[str, list[tuple[str, str]]]:
        """By column of a table, its input columns: those of the same name, and those in `lineage`."""
        upstream = {name: TABLES[name].schema.columns() for name in self.inputs}
        sources = {}
        for column in TABLES[key].schema.columns():
            same = [(name, column) for name, columns in upstream.items() if column in columns]
            named = [tuple(source.rsplit(".", maxsplit=1)) for source in self.lineage.get(column, ())]
            if same or named:
                sources[column] = list(dict.fromkeys([*same, *named]))
        return sources


def distinct(stages: Iterable[Declaration]) -> list[Declaration]:
    """Each stage once, though it may make several tables."""
    return list({stage.table: stage for stage in stages}.values())
