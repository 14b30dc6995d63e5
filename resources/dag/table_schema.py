"""The contract of a table as Dagster's UI shows it: types, keys, rules, and what each column is made from.

labels/answer_logprobs    primary key: trajectory_id, template, context, step_index, answer_rank; template ≥ 0; …

context        enum<string>   part of the primary key   kind of text before the target: question, prefix, step, all_but
logprob_sum    float64                                  log-probability of the target `The answer is: {a}`, nats; from
                                                        alignment.trajectories (question, steps, gold_answer), …
"""

import re
from collections.abc import Iterator
from typing import Any

import dagster as dg
import polars as pl

from cpmi_dagster.contracts.tables import TABLES, Table, column_meanings, columns_of
from cpmi_dagster.resources.dag.declaration import Declaration

NAMED_COLUMN = re.compile(r"\w+\.\w+\.\w+")
"""A column as descriptions name it: `labels.hard_negatives.rank`."""


def column_schema(stage: Declaration, table: Table) -> dg.TableSchema:
    """The columns of a table, and the rules that its rows keep."""
    meanings = column_meanings(table)
    columns = [
        dg.TableColumn(name, type_name(dtype), _describe(stage, name, dtype, meanings[name]), _constraints(table, name))
        for name, dtype in columns_of(table).items()
    ]
    return dg.TableSchema(columns, dg.TableConstraints(list(_rules(table))))


def type_name(dtype: Any) -> str:
    """The name of a polars type: `int64`, `list<string>`, `enum<string>`."""
    if isinstance(dtype, pl.List):
        return f"list<{type_name(dtype.inner)}>"
    if isinstance(dtype, pl.Enum):
        return "enum<string>"  # beside a name with `num` but without `str`, the UI shows the sign of numbers
    return "struct" if isinstance(dtype, pl.Struct) else str(dtype).lower()


def _describe(stage: Declaration, name: str, dtype: Any, meaning: str) -> str:
    """The meaning of a column, with the fields of a struct, and the columns it is made from."""
    inner = dtype.inner if isinstance(dtype, pl.List) else dtype
    fields = inner.fields if isinstance(inner, pl.Struct) else []
    named = ", ".join(f"{field.name} {type_name(field.dtype)}" for field in fields)
    sources = _sources(stage, name, set(NAMED_COLUMN.findall(meaning)))
    return "; ".join([meaning, *([f"fields {named}"] if named else []), *([f"from {sources}"] if sources else [])])


def _sources(stage: Declaration, column: str, known: set[str]) -> str:
    """The columns that the stage names as those a column is made from, but for the known ones.

    A column of the same name in an input is not always its source: the steps of a candidate are the policy's, those
    of a problem are to be judged.
    """
    names: dict[str, list[str]] = {}
    for source in stage.lineage.get(column, ()):
        key, _, name = source.rpartition(".")
        if f"{TABLES[key].relation}.{name}" not in known:
            names.setdefault(TABLES[key].relation, []).append(name)
    return ", ".join(
        f"{relation}.{columns[0]}" if len(columns) == 1 else f"{relation} ({', '.join(columns)})"
        for relation, columns in names.items()
    )


def _constraints(table: Table, name: str) -> dg.TableColumnConstraints:
    keys, column = table.schema.primary_key(), table.schema.columns().get(name)
    role = "primary key" if [name] == keys else "part of the primary key"
    return dg.TableColumnConstraints(
        nullable=column is not None and column.nullable,
        unique=[name] == keys,
        other=[role] if name in keys else [],
    )


def _rules(table: Table) -> Iterator[str]:
    """The primary key of a table, and the limits of its columns."""
    if keys := table.schema.primary_key():
        yield f"primary key: {', '.join(keys)}"
    for name, column in table.schema.columns().items():
        least, most, shortest = (getattr(column, rule, None) for rule in ("min", "max", "min_length"))
        if least is not None or most is not None:
            yield " ≤ ".join(str(part) for part in (least, name, most) if part is not None)
        if shortest is not None:
            yield f"{shortest} ≤ length of {name}"
