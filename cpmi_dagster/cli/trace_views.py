"""Prints `cpmi trace`: what a label was computed from."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cpmi_dagster.cli.tables import facts_table, new_table, table_of
from cpmi_dagster.contracts.keys import COSTS, REJECTED_ROWS, REJECTED_TRAJECTORIES, TRUTH

if TYPE_CHECKING:
    from cpmi_dagster.profiles.settings import Settings
    from cpmi_dagster.resources.commands.trace import Trace
    from cpmi_dagster.resources.lake.records import Record

NAMED = {"shepherd_labels": "labels of the source"}
SHOWN_BELOW = ("run_id", "model", "code_version")
# tables that do not go into the label of a step
ASIDE = (TRUTH, REJECTED_ROWS, REJECTED_TRAJECTORIES, COSTS)


def show_trace(console: Console, trace: "Trace", settings: "Settings", full: bool = False) -> None:
    """Print what a label was computed from; with `full`, also the source row, the selection and all settings."""
    for title, facts in trace.facts.items():
        if facts and (full or title == "trajectory"):
            # `made by` shows run, model and code version
            shown = {NAMED.get(name, name): value for name, value in facts.items() if name not in SHOWN_BELOW}
            console.print(facts_table(title, _with_step_marked(facts if full else shown, trace.step)))
    if not trace.facts["selection"]:
        console.print("Not selected, so not labelled: see selection.selected_trajectories for those that are.\n")
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
    for name in ("table", "model", "code version", "run", "written", "fingerprint"):
        table.add_column(name, no_wrap=name == "table", overflow="fold")
    for key, record in files.items():
        written = record.written_at[: len("2026-01-01T00:00:00")]
        facts = (record.model, record.code_version, record.run_id[:8], written, record.key[:12])
        table.add_row(key, *map(escape, facts))
    return table
