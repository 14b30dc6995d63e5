"""What Dagster has recorded of the lake's files, and the events that record them.

Dagster judges an asset by the tags of its latest event: the hash of its rows, the version of its code and settings, and
the versions of its inputs. A file that was found unchanged, and that Dagster knows with these versions, needs no event.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    DEFAULT_DATA_VERSION,
    NULL_EVENT_POINTER,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)

from cpmi_dagster.contracts.tables import TABLES


def asset_key(table: str, prefix: Sequence[str] = ()) -> dg.AssetKey:
    """The Dagster asset of a table; in a project of somebody else's, under a prefix."""
    return dg.AssetKey([*prefix, *table.split("/")])


def prefixed(name: str, prefix: Sequence[str]) -> str:
    """The name of an op or a resource under the prefix of the asset keys, so that it is free in any project."""
    return dg.AssetKey([*prefix, name]).to_python_identifier()


def latest(
    instance: dg.DagsterInstance, table: str, partition: str | None, prefix: Sequence[str] = ()
) -> dg.EventLogRecord | None:
    """The latest materialization of a table, or of one partition of it.

    Args:
        partition: of a partitioned table; None is any.
        prefix: of the asset keys.
    """
    key = asset_key(table, prefix)
    chosen = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition] if partition else None)
    records = instance.fetch_materializations(chosen, limit=1).records
    return records[0] if records else None


def is_recorded(
    instance: dg.DagsterInstance,
    table: str,
    partition: str | None,
    inputs: Sequence[str],
    versions: tuple[str, str],
    prefix: Sequence[str] = (),
) -> bool:
    """Whether Dagster's latest event of a file has its versions, and no input was recorded since.

    Args:
        inputs: tables that the file is made from.
        versions: hash of its rows, and version of its code and settings.
        prefix: of the asset keys.
    """
    record = latest(instance, table, partition, prefix)
    if record is None or _versions(record) != versions:
        return False
    read = (latest(instance, key, partition if _is_alike(key, table) else None, prefix) for key in inputs)
    return all(source is None or source.storage_id < record.storage_id for source in read)


def materialization(
    instance: dg.DagsterInstance,
    table: str,
    partition: str | None,
    inputs: Sequence[str],
    versions: tuple[str, str],
    metadata: Mapping[str, Any],
    prefix: Sequence[str] = (),
) -> dg.AssetMaterialization:
    """The event that records one partition, with the versions that Dagster itself would give an asset of its own run.

    Args:
        inputs: tables it is made from, partitioned like it or not at all.
        versions: hash of its rows, and version of its code and settings.
        prefix: of the asset keys.
    """
    tags = {DATA_VERSION_TAG: versions[0], CODE_VERSION_TAG: versions[1], DATA_VERSION_IS_USER_PROVIDED_TAG: "true"}
    for key in inputs:
        record = latest(instance, key, partition if _is_alike(key, table) else None, prefix)
        read, version = asset_key(key, prefix), _versions(record)[0] if record else DEFAULT_DATA_VERSION.value
        tags[get_input_data_version_tag(read)] = version
        tags[get_input_event_pointer_tag(read)] = str(record.storage_id) if record else NULL_EVENT_POINTER
    return dg.AssetMaterialization(asset_key(table, prefix), partition=partition, metadata=dict(metadata), tags=tags)


def _is_alike(one: str, other: str) -> bool:
    return TABLES[one].partitioning == TABLES[other].partitioning


def _versions(record: dg.EventLogRecord) -> tuple[str, str]:
    event = record.asset_materialization
    tags = event.tags or {} if event else {}
    return tags.get(DATA_VERSION_TAG, ""), tags.get(CODE_VERSION_TAG, "")
