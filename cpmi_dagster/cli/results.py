"""Commands on what a home holds: `cpmi query`, `trace`, `explore`, `export`, `calibrate`."""

from pathlib import Path
from typing import Annotated

import typer

from cpmi_dagster.cli import console, trace_views
from cpmi_dagster.cli.options import ERR, OUT, FormatOption, ProfileOption, QuietOption, app, load_profile
from cpmi_dagster.errors import UsageError
from cpmi_dagster.exports import FormName

ROWS_OF_A_TABLE = 1_000


@app.command(epilog='Example: `cpmi query "select reward_type, count(*) from labels.step_rewards group by all"`')
def query(
    sql: Annotated[str, typer.Argument(help="A read-only SQL query; `show tables` lists the tables.")],
    format: FormatOption = "table",
    limit: Annotated[
        int | None,
        typer.Option(min=0, help=f"Row limit; 0 = all. By default {ROWS_OF_A_TABLE:,} as a table, all as csv or json."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.01, help="Time limit of the query in seconds.")] = 60,
    profile: ProfileOption = None,
) -> None:
    """Query cpmi.duckdb, read-only; other files and addresses cannot be reached."""
    from cpmi_dagster.resources.lake import query as queries

    most = (ROWS_OF_A_TABLE if format == "table" else 0) if limit is None else limit
    settings = load_profile(profile)
    answer = queries.query(settings, sql, most or None, timeout)
    console.show_frame(OUT, answer.rows, format)
    if format == "table" and "reports." in sql:
        from cpmi_dagster import definitions

        ERR.warn(f"Profile {settings.profile}; labels: {definitions.describe_labels(settings)}")
    if answer.has_more:
        ERR.warn(f"Only the first {most:,} rows are shown; `--limit 0` shows all.")


@app.command(epilog="Example: `cpmi trace t000000017 1`, `cpmi trace --figure label_quality/CPMI`")
def trace(
    trajectory_id: Annotated[
        str | None, typer.Argument(help="Id from alignment.trajectories, or the id of your own row.")
    ] = None,
    step: Annotated[int | None, typer.Argument(help="0-based step; all by default.")] = None,
    figure: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE[/ROW[/COLUMN]]",
            help="Instead of a trajectory, figures of the report: their tables, settings, reward models and labels.",
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option(help="Also show the source row, the settings of each table, and all figures.")
    ] = False,
    profile: ProfileOption = None,
) -> None:
    """Show what a label, or a figure of the report, was made from: rows, answers, scores, settings, models, code."""
    if (trajectory_id is None) == (figure is None):
        raise UsageError("give the id of a trajectory, or `--figure TABLE/ROW` for figures of the report")
    settings = load_profile(profile)
    if figure is not None:
        from cpmi_dagster.resources.commands.trace_figure import trace_figure

        trace_views.show_figure_trace(OUT, trace_figure(settings, figure), settings, full)
    elif trajectory_id is not None:
        from cpmi_dagster.resources.commands import trace as tracing

        trace_views.show_trace(OUT, tracing.trace(settings, trajectory_id, step), settings, full)


@app.command(epilog="Example: `cpmi explore --port 3101`")
def explore(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on 127.0.0.1.")] = 3100,
    labels: Annotated[
        Path | None, typer.Option(help="File of your own labels; by default own_labels.jsonl in the home.")
    ] = None,
    profile: ProfileOption = None,
) -> None:
    """Look at labels in a browser: steps under several reward types, what each label came from, disagreement."""
    from cpmi_dagster.resources.commands.ui import check_port
    from cpmi_dagster.resources.explorer import serve_explorer

    settings = load_profile(profile)
    check_port(port)
    address = f"Label explorer: http://127.0.0.1:{port} (Ctrl-C stops it)"
    serve_explorer(settings, port, labels, lambda: ERR.print(address, highlight=False))


@app.command(epilog="Example: `cpmi export --to mine`, `cpmi export --prm cpmi_bce --to my-prm`")
def export(
    to: Annotated[
        str, typer.Option(help="Folder, or on the hub hf://datasets/OWNER/NAME (with --prm, hf://OWNER/NAME).")
    ],
    prm: Annotated[
        str | None, typer.Option(help="Export the reward model of this recipe instead; it loads without this package.")
    ] = None,
    form: Annotated[FormName | None, typer.Option(help="Format of the rows; trl by default.")] = None,
    reward_type: Annotated[
        list[str] | None,
        typer.Option(
            help="Reward type of the labels; cpmi by default. Repeat it for several: the first gives `labels`."
        ),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|calibrated",
            help="Least reward of a right step in hard labels: a number, or calibrated (fits judged steps best). By "
            "default 0 for differences, 0.5 for probabilities.",
        ),
    ] = None,
    test_share: Annotated[
        float | None,
        typer.Option(help="Share of the questions, such as 0.1, whose rows go to a part `test`; none by default."),
    ] = None,
    profile: ProfileOption = None,
    quiet: QuietOption = False,
) -> None:
    """Export the labelled data set or a reward model, in formats that other tools read."""
    from cpmi_dagster.resources.commands import export as exporting

    exported = exporting.export(load_profile(profile, quiet), to, form, reward_type, threshold, prm, test_share)
    if not quiet:
        for line in (f"{exported.what} in {exported.place}", exported.opened):
            OUT.print(line, highlight=False, markup=False, soft_wrap=True)


@app.command(epilog="Example: `cpmi calibrate -p judged.yaml --output first_error.yaml`")
def calibrate(
    labels: Annotated[
        str | None,
        typer.Option(
            help="Labels that it reads beside step length, separated by commas; all that are there if absent."
        ),
    ] = None,
    output: Annotated[Path, typer.Option(help="The file of weights to write.")] = Path("first_error.yaml"),
    format: FormatOption = "table",
    profile: ProfileOption = None,
) -> None:
    """Fit the labels `first_error` and `right_so_far` on twenty or more solutions that people have judged."""
    from cpmi_dagster.resources.commands import calibrate as calibration

    result = calibration.calibrate(
        load_profile(profile), [*dict.fromkeys(map(str.strip, labels.split(",")))] if labels else None
    )
    console.show_frame(OUT, result.table, format)
    calibration.write_weights(result.weights, output)
    if format == "table":
        setting = f"rewards: {{weights: {output.absolute()}}}"
        OUT.print(f"{result.advice}\nTo use {output}: {setting}", markup=False, highlight=False)
