"""Prints results of commands, and their progress bar."""

import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn

from cpmi_dagster.cli.console import MAX_CELL, SafeConsole, facts_table, show_frame, table_of
from cpmi_dagster.cli.status_view import show_stale
from cpmi_dagster.files.text import counted, cut
from cpmi_dagster.files.time_left import TimeLeft
from cpmi_dagster.installed import program

if TYPE_CHECKING:
    import polars as pl

    from cpmi_dagster.profiles.first_look import FirstRow
    from cpmi_dagster.profiles.settings import Settings
    from cpmi_dagster.resources.commands.doctor import Finding
    from cpmi_dagster.resources.commands.init import NewProfile
    from cpmi_dagster.resources.commands.label import Written
    from cpmi_dagster.resources.commands.summary import Summary

LINE_EVERY_SECONDS = 30.0
SHOWN_REASONS, SHOWN_VERDICTS = 10, 5
SHOWN_STEPS, SHOWN_CHARACTERS = 20, 300
WIDE, MIDDLE = 130, 100
"""Width of a terminal from which the headline has intervals, and from which it has all its columns."""


@contextmanager
def bar(console: Console, label: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar, outside a terminal a line every 30 s, or nothing if `quiet`.

    Yields:
        A callback that takes the number of items just finished and the total.
    """
    work, last = TimeLeft(), time.monotonic()
    columns = (SpinnerColumn(), TextColumn(label), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[left]}"))
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        task = progress.add_task(label, total=None, left="")

        def advance(count: int, total: int) -> None:
            nonlocal last
            work.total, now = total, time.monotonic()
            work.advance(count)
            progress.update(task, total=total, advance=count, left=work.left_words)
            if progress.disable and not quiet and now - last >= LINE_EVERY_SECONDS:
                last = now
                console.print(f"{label}: {work.words}", highlight=False)

        yield advance


def show_first_row(console: Console, first: "FirstRow") -> None:
    """Print the first readable row, step by step, as a run reads it."""
    marks = [{True: " (+)", False: " (-)"}[label] for label in first.labels or ()] or [""] * len(first.steps)
    facts = {"question": cut(first.question, SHOWN_CHARACTERS)}
    for number, step in enumerate(first.steps[:SHOWN_STEPS]):
        facts[f"step {number}{marks[number]}"] = cut(step, SHOWN_CHARACTERS)
    if len(first.steps) > SHOWN_STEPS:
        facts["more steps"] = f"{len(first.steps) - SHOWN_STEPS:,}"
    if not first.steps:
        facts["steps"] = "of the solutions that the policy will give"
    facts["gold answer"] = "none"
    if first.gold_answer is not None:
        field = "" if first.gold_field == "gold_answer" else f" (field `{first.gold_field}`)"
        facts["gold answer"] = f"{first.gold_answer}{field}"
    if first.unread:
        facts["not read"] = cut(", ".join(first.unread), MAX_CELL)
    counting = "; steps count from 0" if first.steps else ""
    console.print(facts_table(f"{first.place} as it is read ({first.form}){counting}", facts))


def describe_labelled(written: "Written", output: Path) -> list[str]:
    """How many rows of a file have labels, how many lack some or all, and why, the most frequent reasons first.

    39 of 40 rows labelled in labels.jsonl; 1 of them without some labels, 1 without any; by the column `reason`:
      1 row: it has no gold answer, which cpmi needs: …
    """
    lines = [f"{written.labelled:,} of {counted(written.rows, 'row')} labelled in {output}"]
    if not written.reasons:
        return lines
    parts = {"of them without some labels": written.some, "without any": written.rows - written.labelled}
    left_out = ", ".join(f"{count:,} {words}" for words, count in parts.items() if count)
    shown = written.reasons.most_common(SHOWN_REASONS)
    more = written.reasons.total() - sum(count for _, count in shown)
    reasons = [f"  {counted(count, 'row')}: {cut(reason, MAX_CELL)}" for reason, count in shown]
    reasons += [f"  {counted(more, 'row')}: other reasons"] if more else []
    return [f"{lines[0]}; {left_out}; by the column `reason`:", *reasons]


def show_new_profile(console: Console, profile: "NewProfile") -> None:
    """Print what a file of trajectories holds, the profile written for it, and the next commands."""
    look, model, truth = profile.look, profile.model_place, profile.truth
    forms = ", ".join(f"{rows:,} {form}" for form, rows in look.forms.items())
    ids = f"{look.identified:,}" + (f", and {look.repeated_ids:,} rows repeat an id" if look.repeated_ids else "")
    reasons = look.reasons.iter_rows()
    rejected = [
        f"{place}: {cut(reason, MAX_CELL)}{f' (and {rows - 1:,} more rows)' if rows > 1 else ''}"
        for reason, rows, place in islice(reasons, SHOWN_REASONS)
    ]
    if more := look.reasons.height - len(rejected):
        rejected.append(f"and {more:,} more reasons; after a run, alignment.rejected_rows lists every row")
    facts = {
        "rows": f"{look.rows:,}: {forms}",
        "trajectories": f"{look.trajectories:,} of {look.questions:,} questions"
        + (f", {look.solutions} to be sampled of each row" if look.solutions else ""),
        "steps": f"{look.median_steps:g} in the median, {look.most_steps} at most" if look.most_steps else "not yet",
        "with gold answer": f"{look.answered:,}",
        "with labels": f"{look.labelled:,}" + (", as the reward type math_shepherd" if look.labelled else ""),
        "judged by people": f"{look.judged:,}" + (", as sources.step_truth" if look.judged and not truth else ""),
        "judgements": truth
        and (truth.notes or f"all {counted(truth.fitting, 'judged row')} fit, as sources.step_truth"),
        "with id": ids,
        "rejected rows": [f"{look.rejected.height:,}", *rejected],
        "shards": f"{look.shards}",
        "model": f"{'folder' if model.is_dir() else 'file'} {model}"
        if model
        else f"{profile.model}, a hub id, downloaded when it is first used",
    }
    console.print(facts_table(profile.source, facts))
    option = f" -p {shlex.quote(str(profile.path))}"
    lines = [f"Profile  {profile.path}"]
    if look.doubt:
        lines.append(f"Check    {look.doubt}")
    if look.maps:
        lines.append(f"First    run it again with {' '.join(look.maps)} --force, if these fields are meant")
    others = (
        f"{look.unanswered:,} of {look.trajectories:,} trajectories get no CPMI, but the labels that need no answer"
    )
    begin = "Or       " if look.maps else "First    "
    if look.unanswered and look.answered:
        more = ", …" if look.unanswered > len(look.without_gold) else ""
        lines.append(f"{begin}add the gold answers of {', '.join(look.without_gold)}{more}; without, {others}")
    elif look.unanswered:
        lines.append(
            f"{begin}name the field of gold answers (--map gold_answer=FIELD), or the sets that have them at "
            f"`references` in the profile; without, {others}"
        )
    lines += [
        f"Next     {program()} run{option} --until selection  # "
        + ("samples the solutions" if look.solutions else "matches the rows"),
        f"         {program()} plan{option}  # estimates the cost of labeling",
        f"         {program()} run{option}  # labels, and trains the reward models",
    ]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def show_results(console: Console, summary: "Summary", settings: "Settings") -> None:
    """Print the headline, or the labels if it does not measure them; rows without labels; where results are."""
    import polars as pl

    from cpmi_dagster.reports.summary import HEADLINE_COLUMNS

    headline, labels, left_out, verdicts = summary.headline, summary.labels, summary.left_out, summary.verdicts
    if headline.height:
        what = "measured, with 95 % intervals and the n behind them"
        if console.width < WIDE:  # else figures would wrap
            figures = pl.exclude("Reward").str.replace(r" \[.*\]", "").str.replace(r" too few .*", "*")
            headline, what = headline.with_columns(figures), "measured; the report has the intervals; * too few to tell"
        if console.width < MIDDLE:
            headline = headline.drop([column.title for column in HEADLINE_COLUMNS if column.is_detail], strict=False)
        console.print(table_of(headline, f"Profile {settings.profile}: {what}"))
    if labels.height and HEADLINE_COLUMNS[0].title not in headline.columns:
        what = "labels made, in each reward type's own unit; higher is better"
        console.print(table_of(labels, f"Profile {settings.profile}: {what}"))
    for name, words in islice(verdicts.items(), SHOWN_VERDICTS):
        console.print(f"{name:9} {words}", highlight=False, markup=False, soft_wrap=True)
    if (more := len(verdicts) - SHOWN_VERDICTS) > 0:
        console.print(f"Models    {more:,} more are in the report and in reports.reward_models", highlight=False)
    for reason, count, first in left_out.head(SHOWN_REASONS).iter_rows():
        others = f" and {count - 1:,} more" if count > 1 else ""
        line = f"Left out  {first}{others}: {cut(reason, SHOWN_CHARACTERS)}"
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if more := left_out[SHOWN_REASONS:].height:
        tables = "alignment.rejected_rows, sources.rejected_truth and labels.rejected_trajectories"
        console.print(f"Left out  for {more:,} more reasons; {tables} list everything", highlight=False)
    _, step, _, solution = labels["lowest at"][0].split() if labels.height else ("", "", "", "…")
    report, option = settings.home / "report" / "index.html", settings.profile_option
    show_stale(console, summary.stale, settings)
    if summary.pilot:
        line = (
            f"Pilot     {summary.pilot}; `{program()} run{option}` labels all, and asks again for nothing that is kept"
        )
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if summary.changed:
        lists = (
            f'`{program()} query{option} "from reports.changes"` lists figures, earlier.step_rewards the labels before'
        )
        line = f"Changed   {summary.changed} differ from the run before; {lists}"
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    lines = [f"Labels    {summary.made}", f"Report    {report}", f"Database  {settings.home / 'cpmi.duckdb'}"]
    for line in lines if report.is_file() else (lines[0], lines[2]):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    commands = (
        f"{program()} explore{option} (labels in a browser), ui{option} (the DAG), status{option}, "
        f'query{option} "…", trace{option} {solution} {step}'
    )
    console.print(f"Next      {commands}", highlight=False, markup=False, soft_wrap=True)


def show_findings(console: Console, findings: "Iterable[Finding]") -> int:
    """Print each finding as it comes; returns the number of problems."""
    styles, problems = {"fine": "green", "problem": "red"}, 0
    for state, what in findings:
        console.print(f"[{styles[state]}]{state:8}[/] {escape(what)}", soft_wrap=True, highlight=False)
        problems += state == "problem"
    return problems


def show_evaluation(console: SafeConsole, figures: "pl.DataFrame", name: str, form: str) -> None:
    """Print the figures of a judge, rounded for people and in full for programs."""
    from cpmi_dagster.reports.benchmark_tables import readable

    if form == "table":
        what = "percent (AUC and score means in [0, 1]), 95 % intervals of n questions"
        console.print(table_of(readable(figures), f"{name}: {what}"))
    else:
        show_frame(console, figures, form)
