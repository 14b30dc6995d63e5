"""The lake, DuckDB and the models as resources of Dagster, and tables as inputs of the user's own assets.

lake      context.resources.lake.read("labels/step_rewards", "003")             rows as a polars frame
duckdb    with context.resources.duckdb() as connection: …                      the tables as views, read-only
models    context.resources.models.identity("labeler")                          the language models by role

The UI lists them with the assets that use them. In a Dagster project of the user's they have the prefix of the asset
keys, `my_labels__lake`, and its assets read tables as polars frames, or pandas if annotated so:

    @dg.asset(ins={"rewards": dg.AssetIn(["my_labels", "labels", "step_rewards"])})
    def best_steps(rewards: pl.DataFrame): ...      all shards of the profile, one after another

An asset that is partitioned by the same shards gets the rows of its own shard.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn, get_args

import dagster as dg
import polars as pl

from cpmi_dagster.resources.dag.stage import prefixed
from cpmi_dagster.resources.dag.stage_run import Home
from cpmi_dagster.resources.lake.database import FILE_NAME, reader
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.models.language_models import Role

LAKE, DUCKDB, MODELS = "lake", "duckdb", "models"
INPUTS = "tables"
"""The resource by which assets of the user's project read tables."""


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


class TableInputs(dg.IOManager):
    """Reads tables of a lake, which the stages write.

    Args:
        prefix: of the asset keys.
    """

    def __init__(self, lake: Lake, prefix: Sequence[str]) -> None:
        self._lake = lake
        self._prefix = prefix

    def load_input(self, context: dg.InputContext) -> Any:
        """The rows of the profile's partitions, without provenance columns."""
        table = "/".join(context.asset_key.path[len(self._prefix) :])
        partitions = context.asset_partition_keys if context.has_asset_partitions else None
        frame = self._lake.read(table, partitions)
        wanted = context.dagster_type.typing_type
        if wanted is pl.LazyFrame:
            return frame.lazy()
        return frame.to_pandas() if getattr(wanted, "__module__", "").partition(".")[0] == "pandas" else frame

    def handle_output(self, context: dg.OutputContext, obj: Any) -> NoReturn:
        """Refuse to write.

        Raises:
            DagsterInvariantViolationError: always; an asset of the project has this as its I/O manager.
        """
        raise dg.DagsterInvariantViolationError(
            f"{context.asset_key.to_user_string()} cannot be written by the I/O manager of CPMI's tables; name another"
        )
