"""The columns of the rows that a home was labelled from, beside those of an export.

{"id": "a7", "question": "2 + 3?", "response": "2 + 3 = 5.", "model": "x", "labels": "mine", "meta": {"n": 1}}
->  trajectory_id  model  input_labels  meta
    t000000000     x      mine          {"n": 1}
"""

import polars as pl
from polars import selectors

from cpmi_dagster.contracts.keys import SHEPHERD
from cpmi_dagster.errors import SourceError
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.rewards.dataset import KEY
from cpmi_dagster.trajectories.forms import list_unread_fields
from cpmi_dagster.trajectories.given_columns import as_cell, free_name, plain
from cpmi_dagster.trajectories.identifiers import name_trajectory
from cpmi_dagster.trajectories.rows import Unreadable


def given_columns(settings: Settings, lake: Lake, rows: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """The columns of the user's own rows that are not in an export by another name, and a line if they are missing.

    Args:
        rows: of the export; a column of the user's with the name of one of its columns becomes `input_…`.

    Returns:
        trajectory_id, then the columns; objects and lists are JSON. No columns if the profile labels no rows of
        the user's.
    """
    sources, reader = settings.sources, DataSources(settings)
    given = pl.DataFrame(schema={KEY: pl.String})
    if sources.sample or not settings.has_own_trajectories:
        return given, ""
    record, wanted, kept = lake.record(SHEPHERD, settings.shard_keys[0]), set(rows[KEY]), []
    try:
        versions = [reader.version(source) for source in sources.trajectories]
        if record is None or list(record.inputs.get("sources", {}).values()) != versions:
            return given, "Your own columns are left out: the rows have changed since they were labelled.\n"
        for number, (row, _) in enumerate(reader.stream_all(sources.trajectories)):
            if (name := name_trajectory(number)) in wanted and not isinstance(row, Unreadable):
                others = {each: row[each] for each in row if each in ("split", *list_unread_fields(row))}
                named = {free_name(each, others, rows.columns): as_cell(plain(others[each])) for each in others}
                kept.append({KEY: name, **named})
    except SourceError as error:
        return given, f"Your own columns are left out: {error}.\n"
    columns = pl.DataFrame(kept, infer_schema_length=None, strict=False) if kept else given
    return columns.with_columns(selectors.by_dtype(pl.Null).cast(pl.String)), ""
