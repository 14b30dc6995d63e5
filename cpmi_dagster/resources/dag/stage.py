"""The declaration of a stage of the DAG: what it reads, makes and depends on.

    @stage("dataset/soft_labels", inputs=["labels/step_rewards"], settings=["soft_labels", …])
    def soft_labels(run: StageRun) -> StageOutput:
        '''Soft labels: a robust z-score over the whole labelled set, then a sigmoid (Eq. 7).'''
        rewards, theirs = run.read("labels/step_rewards"), run.settings.sources.probability_labels
        return StageOutput(normalise(rewards, run.settings.soft_labels, theirs))

`states` judges its files, `making` makes them and its asset of Dagster, `presentation` shows that.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Concatenate, ParamSpec, cast

import dagster as dg
import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.tables import TABLES, Partitioning
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.profiles.partitions import partitions_of
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.profiles.sources import DataSource
from cpmi_dagster.resources.models.language_models import Role

Options = ParamSpec("Options")
GPU_POOL = "gpu"


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
        metadata: of the partition, shown by Dagster.
    """

    frames: pl.DataFrame | Mapping[str, pl.DataFrame] | Iterable[pl.DataFrame]
    model: str = ""
    cost: Cost = field(default_factory=Cost)
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
class Stage:
    """What a stage reads, makes and depends on.

    Attributes:
        body: makes the rows of a partition from a `StageRun`.
        table: key of its table.
        also: keys of further tables that the body makes.
        inputs: keys of the tables it reads, if the profile asks for them; of one that is partitioned as the stage is,
            the stage's own partition.
        settings: dotted paths of the settings that its rows depend on, beside the seed.
        depends_on: whether a partition depends on an input; or the filter of the rows that it depends on, of an input
            in one file.
        at_once: one run makes all partitions.
        counts_costs: the rows depend on the costs of the inputs.
        models: roles of its models.
        named_models: further models, by name.
        sources: external sources, by name.
        summary: metadata of what a run of Dagster makes, from its files, made now or before; takes the home and the
            partition.
        code_version: raised by hand if the same inputs would give other rows.
        pool: Dagster pool that limits parallel runs.
        kinds: technologies that Dagster shows.
        lineage: columns made from columns of other names, as `column: [group/name.column, ...]`.
        prefix: of its asset keys and op, in a Dagster project of the user's.
        upstream: asset keys of that project that write its sources.
    """

    body: Callable[..., StageOutput]
    table: str
    also: Sequence[str] = ()
    inputs: Sequence[str] = ()
    settings: Sequence[str] = ()
    depends_on: Callable[[str, str, Settings], bool | pl.Expr] = lambda key, partition, settings: True
    at_once: bool = False
    counts_costs: bool = False
    models: Sequence[Role] = ()
    named_models: Callable[[Settings], Mapping[str, LanguageModel]] = lambda _: {}
    sources: Callable[[Settings], Mapping[str, DataSource]] = lambda _: {}
    summary: Callable[[Any, str | None], dict[str, Any]] = lambda home, partition: {}
    code_version: str = "1"
    pool: str | None = None
    kinds: Sequence[str] = ("polars",)
    lineage: Mapping[str, Sequence[str]] = field(default_factory=dict)
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
    def assets(self) -> tuple[str, ...]:
        """The keys of those tables that are assets."""
        return tuple(key for key in self.tables if TABLES[key].is_asset)

    @property
    def partitioning(self) -> Partitioning | None:
        """What it makes one after another, each with a key of its own; None if its body makes the whole table."""
        return None if self.at_once else TABLES[self.table].partitioning

    @property
    def run_partitioning(self) -> Partitioning | None:
        """Its partitions in Dagster, of which a run makes one: shards of labels, and recipes.

        None if a run makes all: what stands before labels needs all shards, and Dagster launches a selection only if
        the partitions at its roots are of one kind.
        """
        kind = self.partitioning
        return kind if kind == "recipe" or TABLES[self.table].group == "labels" else None

    def files(self, partition: str | None, settings: Settings) -> list[tuple[str, str | None]]:
        """The table and partition of each file that a run makes."""
        partitions = (partitions_of(self.table, settings) if self.at_once else None) or [partition]
        return [(key, name) for key in self.tables for name in partitions]

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


def _declares(
    make: Callable[Concatenate[Callable[..., StageOutput], Options], Stage],
) -> Callable[Options, Callable[[Callable[..., StageOutput]], Stage]]:
    """A decorator of the body that takes the other fields of a `Stage` as its arguments."""

    def declare(*args: Options.args, **options: Options.kwargs) -> Callable[[Callable[..., StageOutput]], Stage]:
        return lambda body: make(body, *args, **options)

    return declare


stage = _declares(Stage)
"""Declares a stage; the arguments are the attributes of `Stage`."""
model_stage = partial(stage, pool=GPU_POOL, kinds=("pytorch", "huggingface"))
"""Declares a stage that runs a language or reward model."""


def asset_key(table: str, prefix: Sequence[str] = ()) -> dg.AssetKey:
    """The asset key of a table; `prefix` is that of the user's own Dagster project."""
    return dg.AssetKey([*prefix, *table.split("/")])


def prefixed(name: str, prefix: Sequence[str]) -> str:
    """The name of an op or resource, made unique in the user's project by the prefix of the asset keys."""
    return dg.AssetKey([*prefix, name]).to_python_identifier()


def distinct(stages: Iterable[Stage]) -> list[Stage]:
    """Each stage once, though it may make several tables."""
    return list({stage.table: stage for stage in stages}.values())


def direct_inputs(stage: Stage, stages: Mapping[str, Stage]) -> list[str]:
    """The inputs of a stage that no other input is made from: the others are read through these, in Dagster's graph.

    hard_negatives    reads trajectories and selected_trajectories    ->    selected_trajectories, which is made from
                                                                            trajectories
    """
    inputs = [key for key in stage.inputs if key in stages]
    implied = {above for key in inputs for above in ancestors(key, stages)}
    return [key for key in inputs if key not in implied]


def ancestors(key: str, stages: Mapping[str, Stage]) -> set[str]:
    """The tables that a table is made from, directly or not."""
    found: set[str] = set()
    waiting = [key]
    while waiting:
        new = {name for name in stages[waiting.pop()].inputs if name in stages} - found
        found |= new
        waiting.extend(new)
    return found


def carried_inputs(key: str, stages: Mapping[str, Stage]) -> list[str]:
    """The tables that stages read through this one, which they depend on as much."""
    above, carried = ancestors(key, stages), set()
    for stage in distinct(stages.values()):
        direct = direct_inputs(stage, stages)
        if key in direct:
            carried |= {name for name in stage.inputs if name in above and name not in direct}
    return sorted(carried)
