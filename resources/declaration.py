"""What a stage of the DAG declares of itself; `stage` runs it, `presentation` shows it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cpmi_dagster.contracts.tables import TABLES, Partitioning
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.profiles.sources import DataSource
from resources.language_models import Role
from resources.stage_run import StageOutput


@dataclass(frozen=True)
class Declaration:
    """What a stage reads, makes and depends on.

    Attributes:
        name: of the stage and its body.
        body: makes the rows of one partition.
        tables: keys of the tables it makes.
        inputs: keys of the tables it reads.
        settings: dotted paths of the settings it depends on.
        models: roles of the models it uses.
        sources: the outside sources it reads, by name.
        code_version: raised by hand when the same inputs would give other rows.
        pool: Dagster pool that limits how many run at once.
        kinds: what Dagster shows as the technologies used.
        lineage: columns made from columns of other names, as `column: [group/name.column, ...]`.
        eager: made again by itself when its inputs change, where automation is on.
    """

    name: str
    body: Callable[..., StageOutput]
    tables: tuple[str, ...]
    inputs: tuple[str, ...]
    settings: tuple[str, ...]
    models: tuple[Role, ...]
    sources: Callable[[Settings], Mapping[str, DataSource]]
    code_version: str
    pool: str | None
    kinds: frozenset[str]
    lineage: Mapping[str, Sequence[str]]
    eager: bool

    @property
    def partitioning(self) -> Partitioning | None:
        """How this stage's tables are partitioned."""
        return TABLES[self.tables[0]].partitioning
