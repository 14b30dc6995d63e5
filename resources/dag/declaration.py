"""What a stage of the DAG declares; `stage` runs it, `presentation` shows it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg

from cpmi_dagster.contracts.tables import TABLES, Partitioning
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.profiles.sources import DataSource
from cpmi_dagster.resources.workers.chunks import StageOutput
from cpmi_dagster.resources.workers.language_models import Role

StageBody = Callable[..., StageOutput]
NOTHING_ASKED_FOR = "empty: no reward type of the profile needs it"


@dataclass(frozen=True)
class Declaration:
    """What a stage reads, makes and depends on.

    Attributes:
        body: makes the rows of one partition.
        table: key of the table it makes.
        also: keys of further tables that the same body makes.
        inputs: keys of the tables it reads.
        settings: dotted paths of the settings it depends on; the seed always counts.
        asks: dotted paths of settings that say which parts are asked for (see `parts`). The body makes those that are
            missing; asked for nothing, it is not called.
        unasked: why it is empty where nothing is asked for.
        counts_costs: its rows depend on what its inputs cost too.
        models: roles of the models it uses.
        named_models: further models it uses, by name.
        sources: the external sources it reads, by name.
        code_version: raised by hand when the same inputs would give other rows.
        pool: Dagster pool that limits how many run at once.
        kinds: technologies that Dagster shows.
        lineage: columns made from columns of other names, as `column: [group/name.column, ...]`.
        eager: remade automatically when its inputs change, where automation is on.
        prefix: what its asset keys, its op and its resources begin with, in a project of somebody else's.
        upstream: keys of the assets of that project that write its sources.
    """

    body: StageBody
    table: str
    also: Sequence[str] = ()
    inputs: Sequence[str] = ()
    settings: Sequence[str] = ()
    asks: Sequence[str] = ()
    unasked: str = NOTHING_ASKED_FOR
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

    @property
    def partitioning(self) -> Partitioning | None:
        """How this stage's tables are partitioned."""
        return TABLES[self.table].partitioning
