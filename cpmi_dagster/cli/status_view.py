"""Prints `cpmi status`: a line for each group or asset, which fits a terminal of 80 columns.

labels                 ●●✗○   31/40  18,350    of four shards one failed, one is stale
labels/step_rewards    ●●✗○    2/4    1,950    with `--all`
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Console

from cpmi_dagster.cli.console import new_table

if TYPE_CHECKING:
    from cpmi_dagster.profiles.settings import Settings
    from cpmi_dagster.resources.dag.status import AssetStatus, Stale

STATUS_COLUMNS = ("partitions", "done", "rows", "seconds", "generated", "seconds left")
NARROW, NARROW_COLUMNS = 125, 3
"""Width of a terminal below which only the first few columns are shown."""
MOST_MARKS = 16
SHOWN_FAILURES = 20
STATE_MARKS = {
    "failed": "[red]✗[/red]",
    "interrupted": "[yellow]![/yellow]",
    "running": "[yellow]◐[/yellow]",
    "missing": "[dim]·[/dim]",
    "stale": "[yellow]○[/yellow]",
    "done": "[green]●[/green]",
}
"""Marks of states; several partitions share the mark of the first of these states that one of them has."""


def show_status(
    console: Console, assets: Sequence["AssetStatus"], settings: "Settings", stale: "Stale | None", of_each: bool
) -> None:
    """Print groups (with `of_each`, assets) by partition, what is stale and why, labeling costs, and the time left."""
    table = new_table(f"Profile {settings.profile}, home {settings.home}")
    shown = STATUS_COLUMNS if console.width >= NARROW else STATUS_COLUMNS[:NARROW_COLUMNS]
    table.add_column("asset" if of_each else "group", no_wrap=True)
    for name in shown:
        table.add_column(name, justify="left" if name == "partitions" else "right", no_wrap=True)
    for name, members in groupby(assets, key=lambda asset: asset.key if of_each else asset.key.partition("/")[0]):
        group = list(members)
        seconds, left = sum(each.cost.wall_seconds for each in group), sum(each.seconds_left or 0 for each in group)
        tokens = sum(each.cost.generated_tokens for each in group)
        values = (
            _marks(_worst_states(group)),
            f"{sum(each.count('done') for each in group)}/{sum(len(each.partitions) for each in group)}",
            f"{sum(each.rows for each in group):,}",
            f"{seconds:,.1f}" if seconds else "",
            f"{tokens:,}" if tokens else "",
            f"{left:,.0f}" if left else "",
        )
        table.add_row(name, *values[: len(shown)])
    console.print(table)
    is_shared = not of_each or any(len(asset.partitions) > MOST_MARKS for asset in assets)
    note = "; a mark of several is the first of these that one of them has" if is_shared else ""
    words = {"stale": "of the pilot"} if stale and stale.pilot else {}
    console.print(" ".join(f"{mark} {words.get(name, name)}" for name, mark in STATE_MARKS.items()) + note)
    if not of_each:
        console.print("`--all` shows each asset.", markup=False)
    show_stale(console, stale, settings)
    for asset in assets:
        if failed := [name for name in sorted(asset.partitions) if asset.partitions[name] == "failed"]:
            more = f" and {len(failed) - SHOWN_FAILURES} more" if len(failed) > SHOWN_FAILURES else ""
            places = f": {', '.join(failed[:SHOWN_FAILURES])}{more}" if len(asset.partitions) > 1 else ""
            console.print(f"Failed  {asset.key}{places}", highlight=False, markup=False)
    show_interrupted(console, assets, settings, stale.pilot if stale else None)
    if idle := [name for name, is_asked in settings.demand.needs.items() if not is_asked]:
        text = f"Left out  {', '.join(idle)}: no reward type of the profile needs them"
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    labels = [asset for asset in assets if asset.key.startswith("labels/")]
    spent = sum(asset.cost.wall_seconds for asset in labels)
    processors = sum(asset.cost.processor_seconds for asset in labels)
    busy = f" ({processors:,.1f} s of processor time)" if processors else ""
    if stale and stale.labelled and stale.others and spent:
        seconds = spent / stale.labelled * stale.others
        left = f"about {seconds:,.0f} s for the other {stale.others:,}, at the rate of the pilot's {stale.labelled:,}"
    else:
        left = time_left(assets)
    console.print(f"Labeling took {spent:,.1f} s so far{busy}; {left}.", highlight=False)


def time_left(assets: Sequence["AssetStatus"]) -> str:
    """The seconds of models that are left as far as files tell, and of how many unfinished tables nothing is known.

    about 610 s left for 3 of 22 unfinished tables; nothing is known of the other 19
    """
    unfinished = [asset for asset in assets if asset.count("done") < len(asset.partitions)]
    known = [asset.seconds_left for asset in unfinished if asset.seconds_left is not None]
    if not unfinished:
        return "nothing is left to do"
    if not known:
        return f"nothing is known yet of the time left; {len(unfinished)} of {len(assets)} tables are unfinished"
    words = f"about {max(sum(known), 1):,.0f} s left for {len(known)} of {len(unfinished)} unfinished tables"
    others = len(unfinished) - len(known)
    return f"{words}; nothing is known of the other {others}" if others else words


def show_interrupted(
    console: Console, assets: Sequence["AssetStatus"], settings: "Settings", pilot: int | None = None
) -> None:
    """Print in one line what a killed or cancelled run left, by group and partition; nothing if it left nothing."""
    places: dict[str, set[str]] = {}
    for asset in assets:
        names = {name for name, state in asset.partitions.items() if state == "interrupted"} - {"all"}
        if names or "interrupted" in asset.partitions.values():
            places.setdefault(asset.key.partition("/")[0], set()).update(names)
    if places:
        groups = ", ".join(" ".join((group, *sorted(names)[:SHOWN_FAILURES])) for group, names in places.items())
        again = f"`cpmi run{settings.profile_option}{f' --limit {pilot}' if pilot else ''}` continues"
        text = (
            f"Interrupted  {groups}: the process was stopped; {again}{', without --limit labels all' if pilot else ''}"
        )
        console.print(text, highlight=False, markup=False, soft_wrap=True)


def show_stale(console: Console, stale: "Stale | None", settings: "Settings") -> None:
    """Print in one line what is stale, since when and why, or that it is a pilot's; nothing if all is current."""
    if stale:
        name, what, then = "Stale", stale.reason, "makes it again"
        if stale.pilot:
            name, what, then = "Pilot", f"of {stale.pilot:,} trajectories at most", "labels the others too"
        text = f"{name}     {', '.join(stale.groups)}, as of {stale.since} UTC: {what}"
        again = f"`cpmi run{settings.profile_option}` {then}"
        console.print(f"{text}; {again}", highlight=False, markup=False, soft_wrap=True)


def _worst_states(assets: Sequence["AssetStatus"]) -> dict[str, str]:
    """By partition, the first state in the order of `STATE_MARKS` that one of the assets has."""
    all_states = {name: {each.partitions.get(name) for each in assets} for asset in assets for name in asset.partitions}
    return {name: next(state for state in STATE_MARKS if state in states) for name, states in all_states.items()}


def _marks(partitions: Mapping[str, str]) -> str:
    """A mark for each partition in order; many partitions share marks, so that they fit one line."""
    states = [partitions[name] for name in sorted(partitions)]
    size = -(-len(states) // MOST_MARKS)
    groups = (states[start : start + size] for start in range(0, len(states), size or 1))
    return "".join(next(mark for state, mark in STATE_MARKS.items() if state in group) for group in groups)
