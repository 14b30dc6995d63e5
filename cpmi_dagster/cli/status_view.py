"""What `cpmi status` prints: a line for each asset, on a terminal of 80 columns too.

labels/step_rewards    ●●✗○    2/4    1,950    of four shards one failed, one is stale
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from cpmi_dagster.cli.tables import new_table

if TYPE_CHECKING:
    from cpmi_dagster.profiles.settings import Settings
    from cpmi_dagster.resources.dag.status import AssetStatus

STATUS_COLUMNS = ("asset", "partitions", "done", "rows", "seconds", "generated", "seconds left")
NARROW, NARROW_COLUMNS = 125, 4
"""Columns of a terminal below which the status has the first few of its columns."""
MOST_MARKS = 16
SHOWN_FAILURES = 20
STATE_MARKS = {
    "failed": "[red]✗[/red]",
    "running": "[yellow]◐[/yellow]",
    "missing": "[dim]·[/dim]",
    "stale": "[yellow]○[/yellow]",
    "done": "[green]●[/green]",
}
"""Marks of states; of several partitions, the first of these that one of them has is shown."""


def show_status(console: Console, assets: Sequence["AssetStatus"], settings: "Settings") -> None:
    """Assets by partition, what labeling cost, and the time left."""
    table = new_table(f"Profile {settings.profile}, home {settings.home}")
    shown = STATUS_COLUMNS if console.width >= NARROW else STATUS_COLUMNS[:NARROW_COLUMNS]
    for name in shown:
        table.add_column(name, justify="left" if name in ("asset", "partitions") else "right", no_wrap=True)
    for asset in assets:
        values = (
            asset.key,
            _marks(asset.partitions),
            f"{asset.count('done')}/{len(asset.partitions)}",
            f"{asset.rows:,}",
            f"{asset.cost.wall_seconds:,.1f}" if asset.cost.wall_seconds else "",
            f"{asset.cost.generated_tokens:,}" if asset.cost.generated_tokens else "",
            f"{asset.seconds_left:,.0f}" if asset.seconds_left else "",
        )
        table.add_row(*values[: len(shown)])
    console.print(table)
    is_shared = any(len(asset.partitions) > MOST_MARKS for asset in assets)
    note = "; a mark for several partitions is the first of these that one of them has" if is_shared else ""
    console.print(" ".join(f"{mark} {name}" for name, mark in STATE_MARKS.items()) + note)
    for asset in assets:
        if failed := [name for name in sorted(asset.partitions) if asset.partitions[name] == "failed"]:
            more = f" and {len(failed) - SHOWN_FAILURES} more" if len(failed) > SHOWN_FAILURES else ""
            places = f": {', '.join(failed[:SHOWN_FAILURES])}{more}" if len(asset.partitions) > 1 else ""
            console.print(f"Failed  {asset.key}{places}", highlight=False, markup=False)
    if idle := [name for name, is_asked in settings.demand.asks_for.items() if not is_asked]:
        types = ", ".join(settings.rewards.types)
        text = f"Left empty, since the reward types {types} do not need them: {', '.join(idle)}"
        console.print(text, highlight=False, markup=False)
    labels = [asset for asset in assets if asset.key.startswith("labels/")]
    spent = sum(asset.cost.wall_seconds for asset in labels)
    left = sum(asset.seconds_left or 0 for asset in labels)
    is_unknown = any(asset.count("missing", "failed", "stale") and asset.seconds_left is None for asset in labels)
    is_done = not any(asset.count("missing", "failed", "stale", "running") for asset in labels)
    remaining = "nothing is left to label" if is_done else f"about {max(left, 1):,.0f} s left"
    if is_unknown:
        remaining = "the time left is known once every label has a finished shard"
    processors = sum(asset.cost.processor_seconds for asset in labels)
    busy = f" ({processors:,.1f} s of processor time)" if processors else ""
    console.print(f"Labeling took {spent:,.1f} s so far{busy}; {remaining}.", highlight=False)


def _marks(partitions: Mapping[str, str]) -> str:
    """A mark for each partition in order; of many partitions, a mark for so many as keep them in one line."""
    states = [partitions[name] for name in sorted(partitions)]
    size = -(-len(states) // MOST_MARKS)
    groups = (states[start : start + size] for start in range(0, len(states), size or 1))
    return "".join(next(mark for state, mark in STATE_MARKS.items() if state in group) for group in groups)
