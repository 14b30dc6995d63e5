"""Tables of the lake as inputs of assets in the user's project: polars frames, or pandas if annotated so.

    @dg.asset(ins={"rewards": dg.AssetIn(["my_labels", "labels", "step_rewards"])})
    def best_steps(rewards: pl.DataFrame): ...      all shards of the profile, one after another

An asset that is partitioned by the same shards gets the rows of its own shard.
"""

from collections.abc import Sequence
from typing import Any, NoReturn

import dagster as dg
import polars as pl

from cpmi_dagster.resources.lake.lake import Lake


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
