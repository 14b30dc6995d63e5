"""The `cpmi` command: init, run, status, plan, score, judge, evaluate, query, trace, explore, ui.

Exit codes: 0 fine, 1 failed (one sentence on stderr), 2 bad usage. Progress shows only on a terminal. Each command
imports what it needs, so that `cpmi --help` loads neither polars nor torch.
"""

import atexit
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from cpmi_dagster.cli import views
from cpmi_dagster.cli.logged_console import LOG, LoggedConsole
from cpmi_dagster.cli.safe_console import SafeConsole
from cpmi_dagster.contracts.contexts import CONDITIONINGS
from cpmi_dagster.errors import CpmiError, UsageError
from cpmi_dagster.files.json_log import check_log_format, log_as_json, logs_are_json

if TYPE_CHECKING:
    from cpmi_dagster.profiles.settings import Settings

app = typer.Typer(
    name="cpmi",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

BY_DEFAULT = ",".join(name for name, entry in CONDITIONINGS.items() if entry.by_default)
ROWS_OF_A_TABLE = 1_000
PLANNED_ROLES = ("labeler", "rollouts", "prover")
WITHOUT_PROFILE = re.compile(r"`cpmi run(?! -p)")
DISTRIBUTION = "cpmi-dagster"


def _remember(profile: str | None) -> str | None:
    """Keep the profile for the commands that an error suggests."""
    GIVEN["profile"] = f" -p {shlex.quote(profile)}" if profile else ""
    return profile


GIVEN = {"profile": ""}
ProfileOption = Annotated[
    str | None, typer.Option("--profile", "-p", help="Shipped profile, or a YAML file.", callback=_remember)
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
FormatOption = Annotated[Literal["table", "csv", "json"], typer.Option(help="How rows are written.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")]
DtypeOption = Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")]
# without a terminal rich assumes 80 columns, too few for the tables
OUT = SafeConsole(width=None if sys.stdout.isatty() else 160)
ERR = LoggedConsole() if logs_are_json() else SafeConsole(stderr=True)


def _show_version(wanted: bool) -> None:
    if wanted:
        OUT.print(f"cpmi {version(DISTRIBUTION)}", highlight=False)
        raise typer.Exit


@app.callback()
def cpmi(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Step-level reward labels for reasoning data, without Monte-Carlo rollouts."""


@app.command(epilog="Example: `cpmi init --input trajectories.jsonl --model Qwen/Qwen3-8B-Base --output mine.yaml`")
def init(
    input: Annotated[Path, typer.Option(help="Trajectories: .jsonl, .json, .parquet, .gz, or a folder of them.")],
    model: Annotated[
        str, typer.Option(help="Labeler and backbone: local folder, GGUF file, hub id, or miniature:labeler.")
    ],
    output: Annotated[
        Path | None, typer.Option(help="The profile to write; by default the input's name with .yaml, in this folder.")
    ] = None,
    force: Annotated[bool, typer.Option(help="Replace a profile that is there.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Look at your own trajectories, and write a commented profile that labels them and trains a reward model."""
    from cpmi_dagster import definitions

    with views.bar(ERR, "reading", quiet) as advance:
        starter = definitions.write_starter(input, model, output, force, advance)
    if not quiet:
        views.show_starter(OUT, starter)


@app.command(epilog="Example: `cpmi run --shards 0-3 --only labels`")
def run(
    profile: ProfileOption = None,
    shards: Annotated[str | None, typer.Option(help="Shards to label, e.g. 0-3 or 0,2,5-7.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this asset (group/name) or group; may be repeated.")
    ] = None,
    force: Annotated[bool, typer.Option(help="Rebuild even what is unchanged.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Materialize what is missing or stale; ends with the headline table and where the report is."""
    from cpmi_dagster import definitions

    if quiet:
        LOG.setLevel("WARNING")
    settings = definitions.load_settings(profile)
    chosen = parse_shards(shards, settings)
    outcome = definitions.run_with_progress(settings, chosen, only or [], force, ERR, quiet)
    for message in (*outcome.waiting, *(f"check did not pass: {name}" for name in outcome.failed_checks)):
        ERR.warn(message)
    if outcome.failures:
        raise CpmiError("; ".join(outcome.failures))
    if quiet or outcome.waiting:
        return
    if logs_are_json():
        ERR.print(f"the run has ended; its tables are in {settings.folder / 'cpmi.duckdb'}", markup=False)
    else:
        views.show_results(OUT, definitions.headline(settings), settings)


@app.command(epilog="Example: `cpmi status --profile paper`")
def status(
    profile: ProfileOption = None,
    verify: Annotated[bool, typer.Option(help="Read every file instead, and name those that are damaged.")] = False,
    json: JsonOption = False,
) -> None:
    """Shards x assets: done, failed, missing; what labeling cost so far; time left."""
    from cpmi_dagster import definitions

    settings = definitions.load_settings(profile)
    if not verify:
        assets = definitions.home_status(settings)
        views.show_json(OUT, views.status_facts(assets)) if json else views.show_status(OUT, assets, settings)
        return
    with views.bar(ERR, "verifying", False) as advance:
        found = definitions.verify_home(settings, advance)
    views.show_json(OUT, asdict(found)) if json else views.show_verification(OUT, found, settings)
    if found.damage:
        raise CpmiError(f"{len(found.damage)} of the files in {settings.home} are damaged")


@app.command(epilog="Example: `cpmi plan --profile paper --hardware h100-80gb --gpus 8`")
def plan(
    profile: ProfileOption = None,
    hardware: Annotated[
        str | None, typer.Option(help="Name in planning/hardware.yaml, FILE.yaml, or FILE.yaml:NAME.")
    ] = None,
    gpus: Annotated[int | None, typer.Option(min=1, help="Cards that share the work.")] = None,
    sample: Annotated[int, typer.Option(min=0, help="Trajectories whose tokens are counted; 0 = all.")] = 2000,
    parameters: Annotated[
        list[str] | None, typer.Option(help="ROLE=NUMBER, for a model that is not on this disk; may be repeated.")
    ] = None,
    format: FormatOption = "table",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes, the table alone.")] = False,
) -> None:
    """Tokens, GPU-hours and price of labeling by MC, PAV, CPMI and merges, before they are spent."""
    from cpmi_dagster import definitions

    settings = definitions.load_settings(profile)
    given = parse_parameters(parameters or [])
    with views.bar(ERR, "counting tokens", quiet) as advance:
        estimate = definitions.plan(settings, hardware, gpus, sample, given, advance)
    if format == "table":
        views.show_plan(OUT, estimate, settings, quiet)
    else:
        views.show_frame(OUT, estimate.frame, format)


@app.command(
    epilog="Example: `cpmi score --model miniature:labeler --input trajectories.jsonl --output scores.parquet`"
)
def score(
    model: Annotated[str, typer.Option(help="Local folder, GGUF file, hub id, or miniature:labeler.")],
    input: Annotated[Path, typer.Option(help="JSON Lines: id, question, steps, gold_answer, negative_answers.")],
    output: Annotated[Path, typer.Option(help="Parquet file for the scores.")],
    answer_logprobs: Annotated[Path | None, typer.Option(help="Parquet file for the log-probabilities.")] = None,
    conditioning: Annotated[str, typer.Option(help="Comma-separated conditionings, or all.")] = BY_DEFAULT,
    scorer: Annotated[Literal["tree", "reference"], typer.Option(help="Packed trees, or one sequence each.")] = "tree",
    negatives: Annotated[int, typer.Option(min=1, help="Hard negatives where the input gives none.")] = 4,
    seed: Annotated[int, typer.Option(help="Of the sampled negatives.")] = 0,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    quiet: QuietOption = False,
) -> None:
    """Score a file of trajectories: CPMI of every step under every template and conditioning."""
    from cpmi_dagster.scoring.files import score_file

    names = parse_conditionings(conditioning)
    with views.bar(ERR, "scoring", quiet) as advance:
        result = score_file(
            model,
            input,
            output,
            answer_logprobs,
            advance,
            conditionings=names,
            scorer=scorer,
            negatives=negatives,
            seed=seed,
            device=device,
            dtype=dtype,
        )
    for name, reason in result.rejected.select("id", "reason").iter_rows():
        ERR.warn(f"{name} was not scored: {reason}")
    if not quiet:
        scored = f"{result.scores.height:,} scores of {result.scores['id'].n_unique():,} trajectories"
        OUT.print(f"{scored} in {output}", markup=False)


@app.command(epilog="Example: `cpmi judge --prm models/cpmi_bce --input solutions.jsonl --output judged.jsonl`")
def judge(
    prm: Annotated[str, typer.Option(help="Folder of a reward model that training has written.")],
    input: Annotated[Path, typer.Option(help="JSON Lines: id, question, steps; other fields are carried over.")],
    output: Annotated[Path, typer.Option(help="JSON Lines: id, probabilities, first_error.")],
    threshold: Annotated[float, typer.Option(min=0, max=1, help="Steps below it count as wrong.")] = 0.5,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    quiet: QuietOption = False,
) -> None:
    """Judge a file of solutions with a trained reward model: a probability for every step, and the first wrong one."""
    from cpmi_dagster.prm.judging import JudgeRequest, judge_file

    request = JudgeRequest(prm, input, output, threshold, device, dtype)
    with views.bar(ERR, "judging", quiet) as advance:
        done = judge_file(request, advance)
    for name, reason in done.rejected:
        ERR.warn(f"{name} was not judged: {reason}")
    if not quiet:
        OUT.print(f"{done.judged:,} solutions judged in {output}", highlight=False, markup=False)


@app.command(epilog="Example: `cpmi evaluate --predictions judged.jsonl --profile paper`")
def evaluate(
    predictions: Annotated[Path, typer.Option(help="JSON Lines: benchmark, id, probabilities.")],
    name: Annotated[str | None, typer.Option(help="Name of the judge; the file's name by default.")] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="What the file judges, if its lines do not name it: prmbench, ...")
    ] = None,
    profile: ProfileOption = None,
    format: FormatOption = "table",
) -> None:
    """ProcessBench and PRMBench figures of an external judge, from its step probabilities."""
    from cpmi_dagster import definitions

    judge_name = name or predictions.name.partition(".")[0]
    figures = definitions.evaluate(definitions.load_settings(profile), predictions, judge_name, benchmark)
    views.show_evaluation(OUT, figures, judge_name, format)


@app.command(epilog='Example: `cpmi query "select reward_type, count(*) from labels.step_rewards group by all"`')
def query(
    sql: Annotated[str, typer.Argument(help="A read-only SQL query; `show tables` lists the tables.")],
    format: FormatOption = "table",
    limit: Annotated[
        int | None,
        typer.Option(min=0, help=f"Most rows; 0 = all. By default {ROWS_OF_A_TABLE:,} as a table, all as csv or json."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.01, help="Seconds after which the query is stopped.")] = 60,
    file: Annotated[
        list[Path] | None, typer.Option(help="JSON, CSV or Parquet to read too: rows.jsonl as `rows`; may be repeated.")
    ] = None,
    profile: ProfileOption = None,
) -> None:
    """Query cpmi.duckdb; read-only, and no other file or address is reached."""
    from cpmi_dagster import definitions

    most = (ROWS_OF_A_TABLE if format == "table" else 0) if limit is None else limit
    answer = definitions.query(definitions.load_settings(profile), sql, most or None, timeout, file or ())
    views.show_frame(OUT, answer.rows, format)
    if answer.has_more:
        ERR.warn(f"These are the first {most:,} rows, and there are more; `--limit 0` gives all.")


@app.command(epilog="Example: `cpmi trace t000000017 2`")
def trace(
    trajectory_id: Annotated[str, typer.Argument(help="As in alignment.trajectories, or the id of your row.")],
    step: Annotated[int | None, typer.Argument(help="0-based step; all by default.")] = None,
    json: JsonOption = False,
    profile: ProfileOption = None,
) -> None:
    """Everything a label was made from: row, answers, template, model revision, code."""
    from cpmi_dagster import definitions

    settings = definitions.load_settings(profile)
    found = definitions.trace(settings, trajectory_id, step)
    views.show_json(OUT, views.trace_facts(found)) if json else views.show_trace(OUT, found, settings)


@app.command(epilog="Example: `cpmi explore --port 3101`")
def explore(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on 127.0.0.1.")] = 3100,
    labels: Annotated[Path | None, typer.Option(help="File of your labels; own_labels.jsonl in the home.")] = None,
    profile: ProfileOption = None,
) -> None:
    """Look at labels in a browser: steps under several reward types, what each label came from, disagreement."""
    from cpmi_dagster import definitions

    settings = definitions.load_settings(profile)
    definitions.check_port(port)
    address = f"Label explorer: http://127.0.0.1:{port} (Ctrl-C stops it)"
    definitions.serve_explorer(settings, port, labels, lambda: ERR.print(address, highlight=False))


@app.command(epilog="Example: `cpmi ui --port 3001`")
def ui(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on 127.0.0.1.")] = 3000,
    profile: ProfileOption = None,
) -> None:
    """Serve the Dagster UI with its daemon on 127.0.0.1."""
    from cpmi_dagster import definitions

    settings = definitions.load_settings(profile)
    definitions.check_schedule(settings)
    definitions.check_port(port)
    ERR.print(f"Dagster UI: http://127.0.0.1:{port} (Ctrl-C stops it)", highlight=False)
    definitions.serve_ui(settings, profile, port)


def parse_shards(text: str | None, settings: "Settings") -> list[str]:
    """Partition keys of `0-3` or `0,2,5-7`; all shards without a text.

    Raises:
        UsageError: it is not of that form, or the profile has no such shard.
    """
    if text is None:
        return settings.shard_keys
    numbers: set[int] = set()
    for item in text.split(","):
        first, dash, last = item.strip().partition("-")
        if not first.isdecimal() or (dash and (not last.isdecimal() or int(last) < int(first))):
            raise UsageError(f"--shards {text}: write numbers and ranges, such as 0-3 or 0,2,5-7")
        if int(last or first) >= settings.shards:
            raise UsageError(f"--shards {text}: profile `{settings.profile}` has shards 0 to {settings.shards - 1}")
        numbers |= set(range(int(first), int(last or first) + 1))
    return [settings.shard_keys[number] for number in sorted(numbers)]


def parse_conditionings(text: str) -> list[str]:
    """`all`, or comma-separated names.

    Raises:
        UsageError: a name is not a conditioning.
    """
    names = list(CONDITIONINGS) if text == "all" else [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in CONDITIONINGS]
    if unknown:
        raise UsageError(f"--conditioning {unknown[0]}: choose from {', '.join(CONDITIONINGS)}, or all")
    return [name for name in CONDITIONINGS if name in names]


def parse_parameters(texts: Sequence[str]) -> dict[str, int]:
    """Parameters by role, of texts such as `labeler=8.2e9`.

    Raises:
        UsageError: a text is not of that form.
    """
    given = {}
    for text in texts:
        role, _, number = text.partition("=")
        try:
            given[role] = int(float(number))
        except (ValueError, OverflowError):
            given[role] = 0
        if role not in PLANNED_ROLES or given[role] < 1:
            raise UsageError(f"--parameters {text}: write a role and a number, such as labeler=8.2e9")
    return given


def main() -> None:
    """Entry point: errors that a user can correct are one sentence on stderr."""
    try:
        check_log_format()
        if logs_are_json():
            log_as_json()
        app()
    except (CpmiError, OSError) as error:
        message = WITHOUT_PROFILE.sub(lambda command: command.group() + GIVEN["profile"], str(error))
        ERR.complain(message)
        _leave(2 if isinstance(error, UsageError) else 1)
    except SystemExit as end:
        _leave(end.code if isinstance(end.code, int) else 1)


def _leave(code: int) -> NoReturn:
    """End the process at once: shutting the interpreter down makes extension modules print warnings."""
    # private, CPython 3.11; tests/cli/test_leaving.py fails where it is gone
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
