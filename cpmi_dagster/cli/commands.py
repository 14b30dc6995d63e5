"""The `cpmi` command: init, run, status, plan, doctor and ui; `labels` has commands on files, `results` those on homes.

Exit codes: 0 fine, 1 failed (one sentence on stderr), 2 bad usage, 130 interrupted. Commands import what they need when
they run, so that `cpmi --help` loads neither polars nor torch.
"""

import atexit
import os
import re
import sys
import time
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from cpmi_dagster.cli import labels, plan_view, results, views
from cpmi_dagster.cli.options import (
    ERR,
    GIVEN,
    OUT,
    MapOption,
    ProfileOption,
    QuietOption,
    SplitOption,
    app,
    load_profile,
    parse_fields,
    parse_shards,
)
from cpmi_dagster.cli.status_view import show_status
from cpmi_dagster.errors import CpmiError
from cpmi_dagster.trajectories.steps import AUTO

__all__ = ["app", "labels", "main", "results"]

WITHOUT_PROFILE = re.compile(r"`cpmi (?:run|status|explore|export|calibrate|plan|query|trace)\b(?! -p)")


@app.command(epilog="Example: `cpmi init --input trajectories.jsonl --model Qwen/Qwen3-8B-Base --output mine.yaml`")
def init(
    input: Annotated[
        str, typer.Option(help="Trajectories: .jsonl, .json, .csv, .parquet, .arrow, .gz, a folder, or a hub id.")
    ],
    model: Annotated[
        str, typer.Option(help="Labeler and backbone: local folder, GGUF file, hub id, or miniature:labeler.")
    ],
    output: Annotated[
        Path | None, typer.Option(help="The profile to write; by default the input's name with .yaml, in this folder.")
    ] = None,
    force: Annotated[bool, typer.Option(help="Overwrite an existing profile.")] = False,
    split: SplitOption = AUTO,
    map: MapOption = None,
    config: Annotated[str | None, typer.Option(help="Configuration of a hub id.")] = None,
    hub_split: Annotated[str, typer.Option(help="Split of a hub id.")] = "train",
    sample: Annotated[
        int | None, typer.Option(min=1, max=1000, help="The input has questions alone: solutions to sample of each.")
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option(
            "--truth",
            "--judgements",
            help="Judgements of their steps, by `id` with `first_error` or `correct`: a file.",
        ),
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Inspect your trajectories, show how the first is read, and write a profile that labels them, with comments."""
    from cpmi_dagster.resources.commands.init import new_profile

    source = {"fields": parse_fields(map or []), "steps": split, "config": config, "split": hub_split}
    source["sample"] = sample and {"solutions": sample}
    with views.bar(ERR, "reading", quiet) as advance:
        new = new_profile(input, model, output, force, truth, advance, **source)
    if not quiet:
        views.show_first_row(OUT, new.look.first)
    new.write()
    if not quiet:
        views.show_new_profile(OUT, new)


@app.command(epilog="Example: `cpmi run --limit 20 --until labels`")
def run(
    profile: ProfileOption = None,
    shards: Annotated[str | None, typer.Option(help="Shards to label, e.g. 0-3 or 0,2,5-7.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this asset (group/name) or group; may be repeated.")
    ] = None,
    until: Annotated[
        list[str] | None, typer.Option(help="Up to this asset or group, and all it is made from; may be repeated.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, max=10**9, help="A pilot: the most trajectories to label; run again without it for all."),
    ] = None,
    force: Annotated[bool, typer.Option(help="Rebuild everything, even if unchanged.")] = False,
    dry: Annotated[bool, typer.Option("--dry", help="Show what would be made and what is kept; make nothing.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Compute what is missing or stale, then show the measurements (or the labels) and the place of the report."""
    from cpmi_dagster import definitions

    settings = load_profile(profile, quiet, makes=True).limited(limit)
    chosen = parse_shards(shards, settings)
    if dry:
        settings = definitions.narrow_pilot(settings, chosen, force)
        chosen = [shard for shard in chosen if shard in settings.shard_keys]
        plan_view.show_dry_run(OUT, definitions.dry_run(settings, chosen, only or [], force, until or []), settings)
        return
    began = time.time()
    outcome = definitions.run_with_progress(settings, chosen, only or [], force, ERR, quiet, until or [])
    for message in (*outcome.waiting, *outcome.failed_checks.values()):
        ERR.warn(message)
    outcome.check()
    if quiet or outcome.waiting:
        return
    settings = definitions.narrow_pilot(settings, chosen, force)
    views.show_results(OUT, definitions.summarise(settings, began), settings)


@app.command(epilog="Example: `cpmi status --profile paper`")
def status(
    profile: ProfileOption = None,
    verify: Annotated[
        bool, typer.Option(help="Read every file, and list those that are damaged, changed, or not of this home.")
    ] = False,
    all: Annotated[bool, typer.Option("--all", help="A line for each asset, not for each group.")] = False,
) -> None:
    """Show what is done, failed, stale or missing, and why, what labeling has cost so far, and the time left."""
    from cpmi_dagster.resources.commands.doctor import verify_home
    from cpmi_dagster.resources.lake.home_file import nothing_made

    settings = load_profile(profile)
    if not settings.home.exists():
        OUT.warn(nothing_made(settings))
        return
    if not verify:
        from cpmi_dagster import definitions

        stale = definitions.what_is_stale(settings)
        show_status(OUT, definitions.home_status(settings), settings, stale, all)
        OUT.print(f"Labels: {definitions.describe_labels(settings)}.", highlight=False, markup=False, soft_wrap=True)
        return
    with views.bar(ERR, "verifying", False) as advance:
        files, damage = verify_home(settings, advance)
    for sentence in damage:
        OUT.warn(sentence)
    OUT.warn(f"{files:,} files of {settings.home} were read{'' if damage else '; all are intact'}.")
    if damage:
        raise CpmiError(f"{len(damage)} of the files in {settings.home} are damaged")


@app.command(epilog="Example: `cpmi plan --profile paper --hardware h100-80gb`")
def plan(
    profile: ProfileOption = None,
    hardware: Annotated[
        str | None, typer.Option(help="A card such as h100-80gb, or laptop-cpu; this machine by default.")
    ] = None,
    measure: Annotated[
        bool,
        typer.Option("--measure/--no-measure", help="Load the labeler, and time it here for ten seconds."),
    ] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the table, without notes.")] = False,
) -> None:
    """Estimate tokens and GPU-hours of labeling by MC, PAV, CPMI and merges, before anything runs."""
    from cpmi_dagster import definitions

    settings = load_profile(profile, quiet)
    with views.bar(ERR, "counting tokens", quiet) as advance:
        estimate = definitions.plan(settings, hardware, advance, measures=measure)
    plan_view.show_plan(OUT, estimate, settings, quiet)


@app.command(epilog="Example: `cpmi doctor --profile paper`")
def doctor(profile: ProfileOption = None) -> None:
    """Check what this machine has, and whether a profile can run on it; downloads nothing."""
    from cpmi_dagster.resources.commands.doctor import examine

    problems = views.show_findings(OUT, examine(load_profile(profile)))
    if problems:
        raise CpmiError(f"{problems} of these must be solved before the profile can run")


@app.command(epilog="Example: `cpmi ui --port 3001`")
def ui(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on 127.0.0.1.")] = 3000,
    profile: ProfileOption = None,
) -> None:
    """Serve the Dagster UI with its daemon on 127.0.0.1."""
    from cpmi_dagster import definitions

    settings = load_profile(profile, makes=True)
    definitions.check_schedule(settings)
    definitions.check_port(port)
    address = f"http://127.0.0.1:{port}"
    lines = (
        f"Dagster UI: {address} (Ctrl-C stops it)",
        f"Lineage     {address}/asset-groups",
        f"Runs        {address}/runs (of `cpmi run` too)",
    )
    definitions.serve_ui(settings, port, lambda: ERR.print("\n".join(lines), highlight=False))


# in the help, commands that run the DAG come before those that read its results
app.registered_commands.sort(key=lambda command: getattr(command.callback, "__module__", "") != __name__)


def main() -> None:
    """Run a command; an error that the user can correct is one sentence on stderr."""
    try:
        app()
    except (CpmiError, OSError) as error:
        ERR.complain(WITHOUT_PROFILE.sub(lambda command: command.group() + GIVEN["profile"], str(error)))
        leave(getattr(error, "exit_code", 1))
    except SystemExit as end:
        leave(end.code if isinstance(end.code, int) else 1)


def leave(code: int) -> NoReturn:
    """End the process without shutting the interpreter down, when DuckDB's module prints what it leaks."""
    # private to CPython; tests/cli/test_cli.py fails if it is gone
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
