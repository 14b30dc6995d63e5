"""The picture of the architecture is the one that the code draws, and its page names the rooms in their order."""

import re
import tomllib
from pathlib import Path

from cpmi_dagster.contracts.tables import TABLES
from scripts.architecture_picture import GROUPS, PICTURE, picture, tables_of

ROOT = Path(__file__).resolve().parents[2]


def test_the_picture_is_that_of_the_code_today():
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run `python -m scripts.architecture_picture`"


def test_every_table_is_in_a_group_of_the_picture():
    assert sum(len(tables_of(group)) for group in GROUPS) == len(TABLES)


def test_the_page_names_every_room_in_the_order_of_the_import_contracts():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = re.findall(r"`(\w+)`", page.partition("further down in this list:")[2].partition(".")[0])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    assert listed == [room for layer in layers for room in layer.split(" | ")]
