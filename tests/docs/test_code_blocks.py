"""Code of the pages: queries run on a finished home, Python runs, profiles load, commands have the options they name.

What a page shows but cannot be run here stands after `<!-- not run: reason -->`.
"""

import json
import re
import shlex
from pathlib import Path

import click
import pytest
import typer
import yaml
from sybil import Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

from cpmi_dagster.cli.commands import app
from cpmi_dagster.definitions import query
from cpmi_dagster.profiles.settings import load_settings

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
# its examples are inserted into a copy of the method by test_extending.py
TESTED_ELSEWHERE = {"extending.md"}
LANGUAGES = ("sql", "python", "json", "yaml", "console", "text", "")
FENCE = re.compile(r"^ *```(\w*)[^`\n]*\n", re.MULTILINE)
NOT_RUN = re.compile(r"<!-- not run: \S[^>]+ -->\s*\Z")
COMMAND = re.compile(r"^(?:\.venv/bin/)?cpmi (?:[^\n\"]|\"[^\"]*\")*", re.MULTILINE)
OPEN_ENDS = re.compile(r"[ \t]+#[^\n\"]*$|\\\n", re.MULTILINE)


def shown(language: str) -> list[Example]:
    """The blocks of a language that must run, in the order of the pages."""
    parser = CodeBlockParser(language=language or r"(?=\n)", evaluator=PythonEvaluator())
    documents = [Sybil([parser]).parse(page) for page in PAGES if page.name not in TESTED_ELSEWHERE]
    examples = [example for document in documents for example in document.examples()]
    return [one for one in examples if not NOT_RUN.search(one.document.text[: one.region.start])]


def place(example: Example) -> str:
    return f"{Path(example.path).name}:{example.line}"


def commands() -> list[tuple[str, list[str]]]:
    """Every command line of `cpmi` in a block without a language, and its page."""
    return [
        (place(example), shlex.split(OPEN_ENDS.sub("", command.group()).removeprefix(".venv/bin/"))[1:])
        for example in shown("")
        for command in COMMAND.finditer(OPEN_ENDS.sub("", str(example.parsed)))
    ]


@pytest.mark.parametrize("example", shown("sql"), ids=place)
def test_a_query_of_the_pages_runs_on_a_finished_home(example, finished):
    query(finished, str(example.parsed), None, 60, ())


def test_every_question_of_the_page_but_the_one_about_rejected_negatives_has_an_answer(finished):
    page = [one for one in shown("sql") if Path(one.path).name == "queries.md"]
    empty = [place(one) for one in page if query(finished, str(one.parsed), None, 60, ()).rows.is_empty()]
    assert len(page) == 20 and len(empty) <= 1, empty


@pytest.mark.parametrize("example", shown("python"), ids=place)
def test_python_of_the_pages_runs(example, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    example.evaluate()


@pytest.mark.parametrize("example", shown("json"), ids=place)
def test_rows_of_the_pages_are_json_lines(example):
    rows = [json.loads(line) for line in str(example.parsed).splitlines()]
    assert rows and all(isinstance(row, dict) for row in rows)


@pytest.mark.parametrize("example", shown("yaml"), ids=place)
def test_profiles_of_the_pages_load(example, tmp_path):
    values = {"extends": "paper", **yaml.safe_load(str(example.parsed))}
    profile = tmp_path / "shown.yaml"
    profile.write_text(yaml.safe_dump(values), encoding="utf-8")
    assert load_settings(str(profile), tmp_path / "home")


@pytest.mark.parametrize(("where", "arguments"), commands(), ids=lambda value: value if isinstance(value, str) else "")
def test_commands_of_the_pages_have_the_options_they_name(where, arguments):
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    with click.Context(group) as context:
        name, command, rest = group.resolve_command(context, arguments)
        assert command is not None
        command.make_context(name, rest, parent=context)


def test_blocks_of_the_pages_have_a_language_that_is_checked():
    starts = [match.group(1) for page in PAGES for match in list(FENCE.finditer(page.read_text(encoding="utf-8")))]
    assert set(starts) <= set(LANGUAGES)


def test_make_targets_of_the_pages_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = {name for page in PAGES for name in re.findall(r"^make ([a-z-]+)", page.read_text("utf-8"), re.MULTILINE)}
    missing = [name for name in sorted(named) if not re.search(rf"^{name}:", makefile, re.MULTILINE)]
    assert named and not missing
