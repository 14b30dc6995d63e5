"""What scripts write into the pages is what they write today, and the page of the architecture has today's rooms."""

import re
import tomllib
from pathlib import Path

import polars as pl

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.profiles.spelling import settings_in
from scripts import architecture_picture, readme_table, settings_page

ROOT = Path(__file__).resolve().parents[2]


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
    assert not [field for field in fields if not field.description and not settings_in(field.annotation)]


def test_the_page_of_the_architecture_names_every_room_in_the_order_of_the_import_contracts():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = re.findall(r"`(\w+)`", page.partition("further down in this list:")[2].partition(".")[0])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    assert listed == [room for layer in layers for room in layer.split(" | ")]
