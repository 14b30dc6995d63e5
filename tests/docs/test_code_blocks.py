"""Code of the pages: queries run on a finished home, Python runs, profiles load, commands have the options they name.

What a page shows but cannot be run here stands after `<!-- not run: reason -->`. Code of `docs/extending.md` is run by
`test_extending.py`, the commands of `docs/tutorial.md` also one after the other by `test_tutorial.py`.
"""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from sybil import Document, Example, Region, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer

from cpmi_dagster.cli.commands import app
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.lake.query import query

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN_ELSEWHERE = "extending.md"
FENCES = RawFencedCodeBlockLexer(re.compile(r"(?P<language>\w*)[^\n]*\n"))
NOT_RUN = re.compile(r"<!-- not run(?: here)?: \S[^>]+ -->\s*\Z")
COMMAND = re.compile(r'^ *(?:\.venv/bin/)?cpmi (?:[^\n"#]|"[^"]*")*', re.MULTILINE)
SECONDS = 600


def read_json(example: Example) -> None:
    for line in example.parsed.splitlines():
        assert isinstance(json.loads(line), dict)


def load_yaml(example: Example) -> None:
    folder, shown = example.namespace["folder"], yaml.safe_load(example.parsed)
    profile = folder / "shown.yaml"
    profile.write_text(yaml.safe_dump({"extends": "paper", **shown}), encoding="utf-8")
    load_settings(str(profile), folder / "home")


def parse_commands(example: Example) -> None:
    """Let the command line read the options of every `cpmi …`, and do nothing."""
    group: Any = typer.main.get_command(app)
    for shown in COMMAND.finditer(example.parsed.replace("\\\n", " ")):
        _, arguments = shown.group().split("cpmi ", 1)
        with typer.Context(group) as context:
            name, command, rest = group.resolve_command(context, shlex.split(arguments))
            assert command is not None
            command.make_context(name, rest, parent=context)


def run_sql(example: Example) -> None:
    rows = query(example.namespace["finished"], example.parsed, None, SECONDS).rows
    example.namespace["is_empty"] = rows.is_empty()


EVALUATORS = {"sql": run_sql, "python": PythonEvaluator(), "json": read_json, "yaml": load_yaml, "": parse_commands}
EVALUATORS["text"] = lambda example: None  # what a program prints


def blocks(document: Document) -> Iterator[Region]:
    """Every block of a page that is not said to be not run; a language that nothing checks is an error."""
    for region in FENCES(document):
        is_elsewhere = Path(document.path).name == RUN_ELSEWHERE and region.lexemes["language"]
        if not is_elsewhere and not NOT_RUN.search(document.text[: region.start]):
            region.parsed = region.lexemes["source"]
            region.evaluator = EVALUATORS[region.lexemes["language"]]
            yield region


EXAMPLES = [example for page in PAGES for example in Sybil([blocks]).parse(page).examples()]
QUERIES = [example for example in EXAMPLES if example.region.lexemes["language"] == "sql"]


def place(example: Example) -> str:
    return f"{Path(example.path).name}:{example.line}"


def test_queries_of_the_pages_run_on_a_finished_home_and_the_twenty_questions_have_answers(finished):
    empty, count = [], 0
    for example in QUERIES:
        example.namespace["finished"] = finished
        example.evaluate()
        if Path(example.path).name == "queries.md":
            count += 1
            empty += [place(example)] * example.namespace["is_empty"]
    assert count == 20
    assert len(empty) <= 1, f"more than trajectories with few negatives, which a good run lacks, is empty: {empty}"


@pytest.mark.parametrize("example", [example for example in EXAMPLES if example not in QUERIES], ids=place)
def test_a_block_of_the_pages_runs_or_is_read(example, tmp_path):
    example.namespace["folder"] = tmp_path
    example.evaluate()
