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


def asset_key(table: str) -> dg.AssetKey:
    """The Dagster asset of a table."""
    return dg.AssetKey(table.split("/"))


def latest(instance: dg.DagsterInstance, table: str, partition: str | None) -> dg.EventLogRecord | None:
    """The latest materialization of a table, or of one partition of it.

    Args:
        partition: of a partitioned table; None is any.
    """
    chosen = dg.AssetRecordsFilter(asset_key=asset_key(table), asset_partitions=[partition] if partition else None)
    records = instance.fetch_materializations(chosen, limit=1).records
    return records[0] if records else None


def is_recorded(
    instance: dg.DagsterInstance,
    table: str,
    partition: str | None,
    inputs: Sequence[str],
    versions: tuple[str, str],
) -> bool:
    """Whether Dagster's latest event of a file has its versions, and no input was recorded since.

    Args:
        inputs: tables that the file is made from.
        versions: hash of its rows, and version of its code and settings.
    """
    record = latest(instance, table, partition)
    if record is None or _versions(record) != versions:
        return False
    read = (latest(instance, key, partition if _is_alike(key, table) else None) for key in inputs)
    return all(source is None or source.storage_id < record.storage_id for source in read)


def materialization(
    instance: dg.DagsterInstance,
    table: str,
    partition: str | None,
    inputs: Sequence[str],
    versions: tuple[str, str],
    metadata: Mapping[str, Any],
) -> dg.AssetMaterialization:
    """The event that records one partition, with the versions that Dagster itself would give an asset of its own run.

    Args:
        inputs: tables it is made from, partitioned like it or not at all.
        versions: hash of its rows, and version of its code and settings.
    """
    tags = {DATA_VERSION_TAG: versions[0], CODE_VERSION_TAG: versions[1], DATA_VERSION_IS_USER_PROVIDED_TAG: "true"}
    for key in inputs:
        record = latest(instance, key, partition if _is_alike(key, table) else None)
        tags[get_input_data_version_tag(asset_key(key))] = (
            _versions(record)[0] if record else DEFAULT_DATA_VERSION.value
        )
        tags[get_input_event_pointer_tag(asset_key(key))] = str(record.storage_id) if record else NULL_EVENT_POINTER
    return dg.AssetMaterialization(asset_key(table), partition=partition, metadata=dict(metadata), tags=tags)


def _is_alike(one: str, other: str) -> bool:
    return TABLES[one].partitioning == TABLES[other].partitioning


def _versions(record: dg.EventLogRecord) -> tuple[str, str]:
    event = record.asset_materialization
    tags = event.tags or {} if event else {}
    return tags.get(DATA_VERSION_TAG, ""), tags.get(CODE_VERSION_TAG, "")
