"""The `cpmi` command: init, run, status, plan, score, judge, evaluate, query, trace, export, doctor, ui.

Exit codes: 0 fine, 1 failed (one sentence on stderr), 2 bad usage. Progress shows only on a terminal. Each command
imports what it needs, so that `cpmi --help` loads neither polars nor torch.
"""

import re
import shlex
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

import typer

from cpmi_dagster.cli import views
from cpmi_dagster.cli.leaving import leave
from cpmi_dagster.cli.logged_console import LOG, LoggedConsole
from cpmi_dagster.cli.option_texts import parse_conditionings, parse_parameters, parse_shards
from cpmi_dagster.cli.safe_console import SafeConsole
from cpmi_dagster.contracts.contexts import CONDITIONINGS
from cpmi_dagster.errors import CpmiError, UsageError
from cpmi_dagster.exports.names import FormName
from cpmi_dagster.files.json_log import check_log_format, log_as_json, logs_are_json

app = typer.Typer(
    name="cpmi",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

BY_DEFAULT = ",".join(name for name, entry in CONDITIONINGS.items() if entry.by_default)
ROWS_OF_A_TABLE = 1_000
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
    if isinstance(settings.home, Path) and not settings.home.exists() and not json:
        OUT.print(f"Nothing has been made: there is no home at {settings.home}", highlight=False, markup=False)
        OUT.print("Stand where you ran `cpmi run`, or set CPMI_HOME to its home; `cpmi run` makes a new one here.")
        return
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
    templates: Annotated[int, typer.Option(min=1, max=4, help="The paper's first K prompts.")] = 4,
    layout: Annotated[
        Literal["paper", "released"],
        typer.Option(help="Prompts as the paper prints them, or as the authors' code does."),
    ] = "paper",
    scorer: Annotated[Literal["tree", "reference"], typer.Option(help="Packed trees, or one sequence each.")] = "tree",
    reader: Annotated[
        Literal["auto", "flex", "blocked", "masked", "cached"], typer.Option(help="How the model reads token trees.")
    ] = "auto",
    row_tokens: Annotated[
        int | None, typer.Option(min=16, help="Tokens of a packed row; by free memory when not given.")
    ] = None,
    negatives: Annotated[int, typer.Option(min=1, help="Hard negatives where the input gives none.")] = 4,
    seed: Annotated[int, typer.Option(help="Of the sampled negatives.")] = 0,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    device_map: Annotated[
        str | None, typer.Option(help="accelerate's, such as auto: a model larger than one GPU.")
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Commit of a hub id.")] = None,
    quiet: QuietOption = False,
) -> None:
    """Score a file of trajectories: CPMI of every step under every template and conditioning.

    Started again after a kill, with the same file, model and options, it continues where it was.
    """
    from cpmi_dagster.scoring.files import score_file

    names = parse_conditionings(conditioning)
    optional = {"row_tokens": row_tokens, "device_map": device_map, "revision": revision}
    given = {name: value for name, value in optional.items() if value is not None}
    with views.bar(ERR, "scoring", quiet) as advance:
        result = score_file(
            model,
            input,
            output,
            answer_logprobs,
            advance,
            conditionings=names,
            templates=templates,
            layout=layout,
            scorer=scorer,
            reader=reader,
            negatives=negatives,
            seed=seed,
            device=device,
            dtype=dtype,
            **given,
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


@app.command(epilog="Example: `cpmi trace t000000017 2`, `cpmi trace --column labels.step_rewards.reward`")
def trace(
    trajectory_id: Annotated[
        str | None, typer.Argument(help="As in alignment.trajectories, or the id of your row.")
    ] = None,
    step: Annotated[int | None, typer.Argument(help="0-based step; all by default.")] = None,
    column: Annotated[
        str | None, typer.Option(help="Instead of a label: the columns that group.table.column is made from.")
    ] = None,
    json: JsonOption = False,
    profile: ProfileOption = None,
) -> None:
    """Everything a label was made from: row, answers, template, model revision, code."""
    from cpmi_dagster import definitions

    settings = definitions.load_settings(profile)
    if (column is None) == (trajectory_id is None):
        raise UsageError("give a trajectory id (`alignment.trajectories` lists them), or --column group.table.column")
    if column is not None:
        origin = definitions.column_origins(column)
        views.show_json(OUT, origin.to_dict()) if json else views.show_origins(OUT, origin)
        return
    assert trajectory_id is not None
    found = definitions.trace(settings, trajectory_id, step)
    views.show_json(OUT, views.trace_facts(found)) if json else views.show_trace(OUT, found, settings)


@app.command(epilog="Example: `cpmi export --to mine`, `cpmi export --prm cpmi_bce --to my-prm`")
def export(
    to: Annotated[
        str,
        typer.Option(help="Folder, FILE.duckdb, or on the hub hf://datasets/OWNER/NAME (hf://OWNER/NAME of --prm)."),
    ],
    prm: Annotated[
        str | None, typer.Option(help="Export the reward model of this recipe instead, to be loaded without us.")
    ] = None,
    form: Annotated[FormName | None, typer.Option(help="Form of the rows; trl by default.")] = None,
    reward_type: Annotated[str | None, typer.Option(help="Whose labels; cpmi by default.")] = None,
    threshold: Annotated[
        float | None, typer.Option(min=0, max=1, help="Soft labels from here on are right; 0.5 by default.")
    ] = None,
    profile: ProfileOption = None,
    quiet: QuietOption = False,
) -> None:
    """Write the labelled data set, one self-contained database, or a reward model, in forms that others read."""
    from cpmi_dagster import definitions

    request = definitions.ExportRequest(to, form, reward_type, threshold, prm)
    with views.bar(ERR, "exporting", quiet) as advance:
        done = definitions.export(definitions.load_settings(profile), request, advance)
    for message in done.warnings:
        ERR.warn(message)
    if not quiet:
        for line in (f"{done.what} in {done.place}", done.opened):
            OUT.print(line, highlight=False, markup=False, soft_wrap=True)


@app.command(epilog="Example: `cpmi doctor --profile paper`")
def doctor(profile: ProfileOption = None, json: JsonOption = False) -> None:
    """What this machine has, and whether a profile can run on it; nothing is downloaded."""
    from cpmi_dagster import definitions
    from cpmi_dagster.cli.doctor import show_findings

    show_findings(OUT, definitions.examine(definitions.load_settings(profile)), json)


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
        leave(2 if isinstance(error, UsageError) else 1)
    except SystemExit as end:
        leave(end.code if isinstance(end.code, int) else 1)
