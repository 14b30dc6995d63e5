"""Code of the pages: queries run on a finished home, Python runs, profiles load, commands have the options they name.

What a page shows but cannot be run here stands after `<!-- not run: reason -->`. Blocks of `docs/extending.md` are
inserted into a copy of the method by `test_extending.py`, those of `docs/tutorial.md` also run one after the other by
`test_tutorial.py`.
"""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
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
TESTED_ELSEWHERE = {"extending.md"}
FENCES = RawFencedCodeBlockLexer(re.compile(r"(?P<language>\w*)[^\n]*\n"))
NOT_RUN = re.compile(r"<!-- not run(?: here)?: \S[^>]+ -->\s*\Z")
COMMAND = re.compile(r'^ *(?:\.venv/bin/)?cpmi (?:[^\n"#]|"[^"]*")*', re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
SECONDS = 600


def run_sql(example: Example) -> None:
    query(example.namespace["finished"], example.parsed, None, SECONDS)


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
    for found in COMMAND.finditer(example.parsed.replace("\\\n", " ")):
        _, arguments = found.group().split("cpmi ", 1)
        with typer.Context(group) as context:
            name, command, rest = group.resolve_command(context, shlex.split(arguments))
            assert command is not None
            command.make_context(name, rest, parent=context)


EVALUATORS = {
    "sql": run_sql,
    "python": PythonEvaluator(),
    "json": read_json,
    "yaml": load_yaml,
    "": parse_commands,
    # what a program prints
    "text": lambda example: None,
}


def blocks(document: Document) -> Iterator[Region]:
    """Every block of a page that is not said to be not run; a language that nothing checks is an error."""
    for region in FENCES(document):
        if not NOT_RUN.search(document.text[: region.start]):
            region.parsed = region.lexemes["source"]
            region.evaluator = EVALUATORS[region.lexemes["language"]]
            yield region


def examples(*languages: str) -> list[Example]:
    """The blocks of some languages, in the order of the pages."""
    documents = [Sybil([blocks]).parse(page) for page in PAGES if page.name not in TESTED_ELSEWHERE]
    found = [example for document in documents for example in document.examples()]
    return [one for one in found if one.region.lexemes["language"] in languages]


def place(example: Example) -> str:
    return f"{Path(example.path).name}:{example.line}"


@pytest.mark.parametrize("example", examples("sql"), ids=place)
def test_a_query_of_the_pages_runs_on_a_finished_home(example, finished):
    example.namespace["finished"] = finished
    example.evaluate()


def test_the_twenty_questions_have_answers_but_for_what_a_good_run_lacks(finished):
    page = [one for one in examples("sql") if place(one).startswith("queries.md")]
    empty = [one.line for one in page if query(finished, one.parsed, None, SECONDS).rows.is_empty()]
    assert len(page) == 20
    assert len(empty) <= 1, f"more than trajectories with few negatives is empty: queries.md, lines {empty}"


@pytest.mark.parametrize("example", examples("python", "json", "yaml", "", "text"), ids=place)
def test_a_block_of_the_pages_runs_or_is_read(example, tmp_path):
    example.namespace["folder"] = tmp_path
    example.evaluate()


def test_code_of_the_project_that_a_page_shows_is_that_of_the_project():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown = [dedent(code) for code in re.findall(r"^ *```python\n(.*?)^ *```", page, re.MULTILINE | re.DOTALL)]
    stages = (ROOT / "assets" / "labels.py").read_text(encoding="utf-8")
    assert shown and all(code in stages for code in shown)


def test_make_targets_of_the_pages_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = {name for page in PAGES for name in re.findall(r"^make ([a-z-]+)", page.read_text("utf-8"), re.MULTILINE)}
    missing = [name for name in sorted(named) if not re.search(rf"^{name}:", makefile, re.MULTILINE)]
    assert named and not missing


@pytest.mark.parametrize("page", PAGES[:2], ids=lambda page: page.name)
def test_links_of_the_pages_outside_the_site_lead_somewhere(page):
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert targets and not [target for target in targets if not (ROOT / target).exists()]
