"""Prints `cpmi trace`: what a label, or a figure of the report, was computed from."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cpmi_dagster.cli.console import SafeConsole, facts_table, new_table, table_of
from cpmi_dagster.contracts.keys import COSTS, MODELS, REJECTED_ROWS, REJECTED_TRAJECTORIES, TRUTH
from cpmi_dagster.files.text import counted
from cpmi_dagster.installed import program

if TYPE_CHECKING:
    import polars as pl

    from cpmi_dagster.profiles.settings import Settings
    from cpmi_dagster.resources.commands.trace import Trace
    from cpmi_dagster.resources.commands.trace_figure import FigureTrace
    from cpmi_dagster.resources.lake.parquet import Record

TITLES = {"shepherd_labels": "labels of the source"}
SHOWN_BELOW = ("run_id", "model", "code_version")
# tables that do not go into the label of a step
ASIDE = (TRUTH, REJECTED_ROWS, REJECTED_TRAJECTORIES, COSTS)
FIGURE = ("row", "column", "measured", "low", "high", "n", "units", "unit", "paper")
MOST_FIGURES, MOST_RECIPES = 30, 3
"""Figures, and recipes whose settings are shown, without `--full`."""
MOST_NAMED = 4
"""Partitions that are named."""
SECONDS = len("2026-01-01T00:00:00")
HASH = 12
"""Characters of a hash that are shown."""


def show_trace(console: Console, trace: "Trace", settings: "Settings", full: bool = False) -> None:
    """Print what a label was computed from; with `full`, also the source row, the selection and all settings."""
    for title, facts in trace.facts.items():
        if facts and (full or title == "trajectory"):
            # `made by` shows run, model and code version
            shown = {TITLES.get(name, name): value for name, value in facts.items() if name not in SHOWN_BELOW}
            console.print(facts_table(title, _with_step_marked(facts if full else shown, trace.step)))
    if trace.unlabelled:
        console.print(f"{trace.unlabelled}.\n", highlight=False, markup=False, soft_wrap=True)
    for title, frame in trace.tables.items():
        if frame.height:
            console.print(table_of(frame, title))
    files = {key: record for key, record in trace.files.items() if full or (record.rows and not key.startswith(ASIDE))}
    console.print(_files_table(files))
    for key, record in files.items():
        if full and key.startswith("labels/"):
            console.print(f"{key}: {json.dumps(dict(record.settings))}", style="dim", highlight=False, markup=False)
    more = "" if full else "; --full shows the source row, the selection and all settings"
    text = f"Profile {settings.profile}, seed {settings.seed}, home {settings.home}{more}"
    console.print(text, highlight=False, markup=False)


def _with_step_marked(facts: Mapping[str, Any], step: int | None) -> Mapping[str, Any]:
    """The facts with an arrow before the step that was asked for."""
    if step is None or "steps" not in facts:
        return facts
    steps = [f"{'→' if number == step else ' '} {text}" for number, text in enumerate(facts["steps"])]
    return {**facts, "steps": steps}


def _files_table(files: Mapping[str, "Record"]) -> Table:
    table = new_table("made by")
    for name in ("table", "model", "code version", "run", "written", "key"):
        table.add_column(name, no_wrap=name == "table", overflow="fold")
    for key, record in files.items():
        written = record.written_at[:SECONDS]
        facts = (record.model, record.code_version, record.run_id[:8], written, record.key[:HASH])
        table.add_row(key, *map(escape, facts))
    return table


def show_figure_trace(console: SafeConsole, trace: "FigureTrace", settings: "Settings", full: bool = False) -> None:
    """Print what figures were measured from; with `full`, all figures, a row for each file, and all settings."""
    _show_figures(console, trace, full)
    for title, frame in (("reward models", _shown_models(trace.models)), ("labels", _shown_labels(trace.labels))):
        if frame.height:
            console.print(table_of(frame, title))
    console.print(_tables_table(trace.files, full))
    option = settings.profile_option
    for key in trace.changed:
        console.warn(
            f"{key} has changed since these figures were measured; {program()} run{option} measures them again."
        )
    _show_settings(console, trace, full)
    console.warn(f'Rows behind them, by {program()} query{option} "…":')
    for sql in trace.queries.values():
        console.warn(f"  {sql}")
    for examples in trace.labels["examples"].drop_nulls().head(1):
        console.warn(f"What a label was made from: {program()} trace{option} {examples[0]}")
    console.warn(f"Profile {settings.profile}, seed {settings.seed}, home {settings.home}")


def _show_figures(console: SafeConsole, trace: "FigureTrace", full: bool) -> None:
    """Print the figures: ours, without `full` the first of them, or the paper's if none is ours."""
    from cpmi_dagster.contracts.report_tables import ARTIFACT_TITLES
    from cpmi_dagster.reports.artifacts import IS_OURS

    ours = trace.figures.filter(IS_OURS)
    shown = trace.figures if full or ours.is_empty() else ours.head(MOST_FIGURES)
    console.print(table_of(shown.select(FIGURE), f"{trace.artifact}: {ARTIFACT_TITLES[trace.artifact]}"))
    if ours.is_empty():
        console.warn("The profile measures none of these figures.\n")
    elif left := trace.figures.height - shown.height:
        measured = ours.height - min(ours.height, shown.height)
        console.warn(f"{counted(left, 'figure')} more, {measured:,} of them measured; --full shows them.\n")


def _shown_models(models: "pl.DataFrame") -> "pl.DataFrame":
    """Reward models with the first characters of hashes."""
    import polars as pl

    hashes = {"weights": "weights_fingerprint", "soft_labels": "data_version"}
    shown = (pl.col(column).str.head(HASH).alias(name) for name, column in hashes.items())
    return models.select("recipe", "reward_type", "objective", "backbone", *shown)


def _shown_labels(labels: "pl.DataFrame") -> "pl.DataFrame":
    """Labels with their examples as text, and without the number of judged trajectories if none is judged."""
    import polars as pl

    shown = labels.with_columns(pl.col("examples").list.join(" "))
    return shown if labels["judged"].sum() else shown.drop("judged")


def _tables_table(files: Mapping[str, Sequence["Record"]], full: bool) -> Table:
    """What made the files of each table: a row a table, which counts several models, runs and keys, or a row a file."""
    table = new_table("made by")
    for name in ("table", "partitions", "rows", "model", "code version", "run", "written", "key"):
        table.add_column(name, no_wrap=name == "table", overflow="fold", justify="right" if name == "rows" else "left")
    rows = [
        (key, part) for key, records in files.items() for part in ([[each] for each in records] if full else [records])
    ]
    for key, records in rows:
        names = [record.partition for record in records if record.partition]
        facts = (
            ", ".join(names) if len(names) <= MOST_NAMED else f"{names[0]} … {names[-1]} ({len(names)})",
            f"{sum(record.rows for record in records):,}",
            _one_or_count((record.model for record in records), "model"),
            _one_or_count((record.code_version for record in records), "version"),
            _one_or_count((record.run_id[:8] for record in records), "run"),
            max(record.written_at for record in records)[:SECONDS],
            _one_or_count((record.key[:HASH] for record in records), "key"),
        )
        table.add_row(key, *map(escape, facts))
    return table


def _one_or_count(values: Iterable[str], what: str) -> str:
    """The value that all records share, or the number of values: `7 models`."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else counted(len(distinct), what)


def _show_settings(console: SafeConsole, trace: "FigureTrace", full: bool) -> None:
    """Print a line of settings by table; without `full`, those of recipes only if they are few."""
    has_many = trace.models.height > MOST_RECIPES and not full
    lines = {
        title: ", ".join(f"{name} {_words(value)}" for name, value in facts.items())
        for title, facts in trace.settings.items()
        if not (has_many and title.startswith(MODELS))
    }
    console.print(facts_table("settings", lines))
    if has_many:
        console.warn(f"--full shows those of the {trace.models.height} recipes too.\n")


def _words(value: Any) -> str:
    """The value of a setting: `marginal`, `4`, `mc cpmi`."""
    if isinstance(value, list):
        return " ".join(map(_words, value))
    return value if isinstance(value, str) else json.dumps(value)
