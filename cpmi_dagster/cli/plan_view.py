"""Prints what a run would do and take: `cpmi run --dry` and `cpmi plan`."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from cpmi_dagster.cli.console import new_table
from cpmi_dagster.files.text import counted

if TYPE_CHECKING:
    from cpmi_dagster.planning.training import TrainingPlan
    from cpmi_dagster.profiles.settings import Settings
    from cpmi_dagster.resources.commands.plan import Plan
    from cpmi_dagster.resources.dag.run import DryRun


def show_dry_run(console: Console, dry: "DryRun", settings: "Settings") -> None:
    """Print what a run would make, and what it would keep."""
    what = f"{counted(dry.to_make.height, 'table')} would be made" if dry.to_make.height else "nothing would be made"
    table = new_table(f"Profile {settings.profile}, home {settings.home}: {what}")
    table.add_column("tables", overflow="fold")
    for name in ("partitions", "rows now"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why", overflow="fold")
    for (why,), alike in dry.to_make.group_by("why", maintain_order=True):
        sums = (f"{alike[name].sum():,}" for name in ("partitions", "rows now"))
        table.add_row(escape(", ".join(alike["table"])), *sums, escape(str(why)))
    console.print(table)
    kept = f"Kept: {dry.rows:,} rows of {dry.tables} other tables"
    if answers := dry.to_make["answers kept"].sum():
        kept += f"; of the tables above, {answers:,} answers of models, under all settings so far"
    lines = [f"{kept}."]
    asked = "; ".join(f"{role} ({', '.join(stages)})" for role, stages in dry.asks.items())
    labels = dry.trajectories is not None and {"labeler", "rollouts", "prover"} & set(dry.asks)
    most = f", for {dry.trajectories:,} trajectories at most" if labels else ""
    lines.append(f"Asked for the answers that are not kept{most}: {asked}." if asked else "No model is asked.")
    lines += [_training_line(dry.training)] if dry.training else []
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def show_plan(console: Console, plan: "Plan", settings: "Settings", quiet: bool) -> None:
    """Print the tokens and time of labeling by method, and how they are counted or estimated."""
    place = "this machine, measured here" if plan.speed else f"one {plan.hardware}"
    base = sum(plan.frame.filter(method="mc")["gpu_hours"])
    table = new_table(f"Labeling {plan.trajectories:,} trajectories of profile {settings.profile} on {place}")
    table.add_column("method")
    for name in ("forward tokens", "generated tokens", "time", *(["of MC's time"] if base else [])):
        table.add_column(name, justify="right", no_wrap=True)
    for method, forward, generated, hours in plan.frame.iter_rows():
        share = [f"{100 * hours / base:,.0f} %"] if base else []
        table.add_row(method, f"{forward:,}", f"{generated:,}", _duration(hours), *share)
    console.print(table)
    if plan.training:
        console.print(_training_line(plan.training), highlight=False, markup=False, soft_wrap=True)
    if quiet:
        return
    notes = [
        "Forward tokens include the generated ones. `together` is what all of these take, which share what they use."
    ]
    if (settings.rollouts.sample or plan.trajectories) < plan.trajectories:
        notes.append(f"Rollouts are planned for all trajectories; a run draws them for {settings.rollouts.sample:,}.")
    if plan.is_measured:
        notes.append(
            f"Scaled from what {plan.counted:,} labelled trajectories of this home took. With --hardware, tokens are "
            "counted and hours are estimated for that card."
        )
    else:
        notes.append(
            f"Counted on {plan.counted:,} trajectories. Text that is not sampled yet is assumed: a hard negative as "
            "long as the gold answer, a rollout as long as the steps that remain."
        )
    if plan.speed:
        read, sampled = plan.speed
        notes.append(
            f"The labeler was measured on this machine just now, with whatever else runs on it: {read:,.0f} tokens "
            f"read and {sampled:,.0f} sampled a second; other models by their size. Another card is named with "
            "--hardware, such as h100-80gb."
        )
    elif not plan.is_measured:
        reason = f"The labeler was not measured here: {plan.not_here}. " if plan.not_here else ""
        notes.append(
            f"{reason}Hours are the card's speed times the shares in planning/hardware.yaml, which is rough until a "
            "shard is labelled here: it may be several times more or less. Another card is named with --hardware, such "
            "as h100-80gb."
        )
    for line in notes:
        console.print(line, style="dim", highlight=False, markup=False)


def _training_line(training: "TrainingPlan") -> str:
    what = "a head on a frozen backbone each" if training.is_frozen else "all weights, or adapters"
    return (
        f"Training of {counted(training.recipes, 'reward model')} ({what}) on what is selected now: "
        f"about {_duration(training.hours)}, {training.gib:.1f} GiB."
    )


def _duration(hours: float) -> str:
    """Hours in the unit that fits: 2.1 h, 14 min, 8 s, under 0.01 s."""
    if hours >= 1:
        return f"{hours:,.1f} h"
    if hours * 60 >= 1:
        return f"{hours * 60:.0f} min"
    return f"{hours * 3600:.2g} s" if hours * 3600 >= 0.01 else "under 0.01 s"
