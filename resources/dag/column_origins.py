"""From which columns a column was made, back to the sources: `cpmi trace --column`.

labels.step_rewards.reward
├── labels.policy_rollouts.correct
│   └── alignment.trajectories.gold_answer
...
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cpmi_dagster.contracts.tables import TABLES, column_meanings, columns_of
from cpmi_dagster.errors import UsageError
from cpmi_dagster.resources.dag.declaration import Declaration


@dataclass(frozen=True)
class ColumnOrigin:
    """A column, what it holds, and the columns that it was made from.

    Attributes:
        column: `group.table.column`.
        origins: empty for a column that is read from outside or counted here, and for one that stands above already.
        is_repeated: whether it stands above, with its origins.
    """

    column: str
    meaning: str
    origins: tuple["ColumnOrigin", ...] = ()
    is_repeated: bool = False


def column_origins(makers: Mapping[str, Declaration], column: str) -> ColumnOrigin:
    """Follow a column back to the sources.

    Args:
        makers: the stage behind each table, by its key.
        column: `group.table.column`, or with slashes.

    Raises:
        UsageError: there is no such column.
    """
    name = column.replace("/", ".").replace('"', "")
    key, _, own = name.rpartition(".")
    key = key.replace(".", "/")
    if key not in TABLES:
        raise UsageError(f"--column {column}: write group.table.column, such as labels.step_rewards.reward")
    if own not in columns_of(TABLES[key]):
        raise UsageError(f"--column {column}: the table has {', '.join(columns_of(TABLES[key]))}")
    return _followed(makers, key, own, set())


def _followed(makers: Mapping[str, Declaration], key: str, column: str, seen: set[tuple[str, str]]) -> ColumnOrigin:
    name, meaning = f"{key.replace('/', '.')}.{column}", column_meanings(TABLES[key])[column]
    sources = makers[key].column_sources(key).get(column, [])
    if sources and (key, column) in seen:
        return ColumnOrigin(name, meaning, is_repeated=True)
    seen.add((key, column))
    return ColumnOrigin(name, meaning, tuple(_followed(makers, *source, seen) for source in sources))
