"""How far a home is: every asset with its partitions done, failed or missing, what labeling cost, what is left."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cpmi_dagster.contracts.tables import TABLES
from resources.lake import Lake


@dataclass(frozen=True)
class AssetStatus:
    """One asset: its partitions by state, and what they cost.

    Attributes:
        key: `group/name`.
        done, failed, missing, running: partition keys; an unpartitioned asset has the one key `all`.
        rows: rows on disk.
        seconds: measured labeling time of what is done.
        generated_tokens: tokens sampled for what is done.
        seconds_left: time the missing partitions should take, by the mean of those done; None where none is done.
    """

    key: str
    done: Sequence[str]
    failed: Sequence[str]
    missing: Sequence[str]
    running: Sequence[str]
    rows: int
    seconds: float
    generated_tokens: int
    seconds_left: float | None


def asset_status(key: str, states: Mapping[str, str], lake: Lake) -> AssetStatus:
    """Gather one asset's status.

    Args:
        key: `group/name`.
        states: done, missing, failed or in progress, by partition (`all` where there are none).
        lake: the files.
    """
    partitioned = TABLES[key].partitioning is not None
    done = [name for name, state in states.items() if state == "done"]
    records = [lake.intact_record(key, name if partitioned else None) for name in done]
    costs = [record.cost for record in records if record and record.cost]
    seconds = sum(cost.get("wall_seconds", 0.0) for cost in costs)
    waiting = [name for name, state in states.items() if state in ("missing", "failed")]
    return AssetStatus(
        key=key,
        done=done,
        failed=[name for name, state in states.items() if state == "failed"],
        missing=[name for name, state in states.items() if state == "missing"],
        running=[name for name, state in states.items() if state == "in progress"],
        rows=sum(record.rows for record in records if record),
        seconds=seconds,
        generated_tokens=int(sum(cost.get("generated_tokens", 0) for cost in costs)),
        seconds_left=seconds / len(done) * len(waiting) if done else None,
    )
