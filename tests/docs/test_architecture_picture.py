"""The picture of the architecture is the one that the code draws, and its page names the rooms in their order."""

import re
from pathlib import Path

from cpmi_dagster.contracts.tables import TABLES
from scripts.architecture_picture import GROUPS, PICTURE, picture, tables_of
from scripts.rooms import METHOD, rooms_in_order

PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"


def test_the_picture_is_that_of_the_code_today():
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run `python -m scripts.architecture_picture`"


def test_every_table_is_in_a_group_of_the_picture():
    assert sum(len(tables_of(group)) for group in GROUPS) == len(TABLES)


def test_the_page_names_every_room_in_the_order_of_the_import_contracts():
    listed = PAGE.read_text(encoding="utf-8").partition("further down in this list:")[2].partition(".")[0]
    assert re.findall(r"`(\w+)`", listed) == [room.removeprefix(f"{METHOD}.") for room in rooms_in_order()]
