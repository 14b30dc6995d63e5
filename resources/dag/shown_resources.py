"""The Dagster resources of a home, which the UI lists with the assets that use them.

lake      context.resources.lake.read("labels/step_rewards", "003")             rows as a polars frame
duckdb    with context.resources.duckdb() as connection: …                      the tables as views, read-only
models    context.resources.models.identity("labeler")                          the language models by role

In a Dagster project of the user's they have the prefix of the asset keys: `my_labels__lake`.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, get_args

import dagster as dg

from cpmi_dagster.resources.dag.asset_keys import prefixed
from cpmi_dagster.resources.dag.stage_run import Home
from cpmi_dagster.resources.lake.database import FILE_NAME, reader
from cpmi_dagster.resources.workers.language_models import Role

LAKE, DUCKDB, MODELS = "lake", "duckdb", "models"


def shown_resources(home: Home, prefix: Sequence[str] = ()) -> dict[str, dg.ResourceDefinition]:
    """The resources of a home by name."""
    roles = [role for role in get_args(Role) if home.models.has(role)]
    named = {role: home.settings.models.of(role) for role in roles}
    models = ", ".join(f"{role} {model.name}" for role, model in named.items() if model)
    described: dict[str, tuple[Any, str]] = {
        LAKE: (home.lake, f"Reads and writes the tables, as Parquet files in {home.lake.root}."),
        DUCKDB: (
            partial(reader, home.lake, home.settings),
            f"Opens {home.settings.home / FILE_NAME} read-only: each table as a view.",
        ),
        MODELS: (home.models, f"The language models by role, loaded once in a run: {models}."),
    }
    return {
        prefixed(name, prefix): dg.ResourceDefinition.hardcoded_resource(value, description)
        for name, (value, description) in described.items()
    }
