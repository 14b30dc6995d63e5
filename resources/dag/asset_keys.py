"""The names of tables and stages in Dagster."""

from collections.abc import Sequence

import dagster as dg


def asset_key(table: str, prefix: Sequence[str] = ()) -> dg.AssetKey:
    """The asset key of a table; `prefix` is that of the user's own Dagster project."""
    return dg.AssetKey([*prefix, *table.split("/")])


def prefixed(name: str, prefix: Sequence[str]) -> str:
    """The name of an op or resource, made unique in the user's project by the prefix of the asset keys."""
    return dg.AssetKey([*prefix, name]).to_python_identifier()
