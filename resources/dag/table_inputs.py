"""Tables of the lake as inputs of assets in somebody's project: polars frames, or pandas where annotated so.

    @dg.asset(ins={"rewards": dg.AssetIn(["my_labels", "labels", "step_rewards"])})
    def best_steps(rewards: pl.DataFrame): ...      all shards of the profile, one after another

A partition is what Dagster asks for: an asset that is partitioned by the same shards gets its own.
"""

from collections.abc import Sequence
from typing import Any, NoReturn

import dagster as dg
import polars as pl

from cpmi_dagster.resources.lake.lake import Lake


class TableInputs(dg.IOManager):
    """Reads tables of a lake; the stages write them themselves.

    Args:
        prefix: of the asset keys.
    """

    def __init__(self, lake: Lake, prefix: Sequence[str]) -> None:
        self._lake = lake
        self._prefix = prefix

    def load_input(self, context: dg.InputContext) -> Any:
        """The rows that the profile asks for, as in `cpmi.duckdb`, without the columns that say where they are from."""
        table = "/".join(context.asset_key.path[len(self._prefix) :])
        partitions = context.asset_partition_keys if context.has_asset_partitions else None
        frame = self._lake.read(table, partitions)
        wanted = context.dagster_type.typing_type
        if wanted is pl.LazyFrame:
            return frame.lazy()
        return frame.to_pandas() if getattr(wanted, "__module__", "").partition(".")[0] == "pandas" else frame

    def handle_output(self, context: dg.OutputContext, obj: Any) -> NoReturn:
        """Nothing is written here: see `Stage`.

        Raises:
            DagsterInvariantViolationError: an asset of the project names this resource as its own I/O manager.
        """
        raise dg.DagsterInvariantViolationError(
            f"{context.asset_key.to_user_string()} cannot be written by the I/O manager of CPMI's tables; name another"
        )
