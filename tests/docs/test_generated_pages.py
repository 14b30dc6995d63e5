"""What scripts write into the pages is what they write today, and messages that a page quotes are in the program."""

import ast
import re
from pathlib import Path

import polars as pl

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.profiles.settings import Settings
from scripts import architecture_picture, readme_table, settings_page

ROOT = Path(__file__).resolve().parents[2]
TROUBLESHOOTING = ROOT / "docs" / "troubleshooting.md"
QUOTED = re.compile(r"^\| `(.+?)` \|", re.MULTILINE)


def test_the_picture_is_that_of_the_code_today_and_has_every_table():
    drawn = architecture_picture.PICTURE.read_text(encoding="utf-8")
    assert drawn == architecture_picture.picture(), "run `python -m scripts.architecture_picture`"
    assert sum(len(architecture_picture.tables_of(group)) for group in architecture_picture.GROUPS) == len(TABLES)


def test_the_readme_has_the_rows_of_the_demo_and_no_others():
    text, rows = readme_table.README.read_text(encoding="utf-8"), pl.read_csv(readme_table.ROWS, infer_schema=False)
    assert readme_table.with_table(text, rows) == text, "run `python -m scripts.readme_table`"
    assert all(text.count(f"| {reward} |") == 1 for reward in readme_table.SHOWN_ROWS)


def test_the_page_of_settings_is_what_its_script_writes_and_every_setting_has_a_meaning():
    assert settings_page.PAGE.read_text(encoding="utf-8") == settings_page.page(), (
        "run `python -m scripts.settings_page`"
    )
    fields = [field for model, _ in settings_page.sections(Settings) for field in model.model_fields.values()]
    assert not [field for field in fields if not field.description and not settings_page.settings_in(field.annotation)]


def text_of(node: ast.AST) -> str | None:
    """A text of the code, with a mark for each value that is written into it."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "\ufffd" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def test_every_message_of_troubleshooting_is_one_of_the_program():
    files = (ROOT / "cpmi_dagster").rglob("*.py")
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    texts = [text for text in map(text_of, nodes) if text]
    messages = QUOTED.findall(TROUBLESHOOTING.read_text(encoding="utf-8"))
    patterns = {text: re.compile(".*".join(map(re.escape, text.split("…"))), re.DOTALL) for text in messages}
    assert messages
    assert not [message for message, pattern in patterns.items() if not any(map(pattern.search, texts))]
