"""The names that Dagster knows of tables and stages."""

from collections.abc import Sequence

import dagster as dg


def asset_key(table: str, prefix: Sequence[str] = ()) -> dg.AssetKey:
    """The Dagster asset of a table; in a project of somebody else's, under a prefix."""
    return dg.AssetKey([*prefix, *table.split("/")])


def prefixed(name: str, prefix: Sequence[str]) -> str:
    """The name of an op or a resource under the prefix of the asset keys, so that it is free in any project."""
    return dg.AssetKey([*prefix, name]).to_python_identifier()
