"""The picture of the architecture is the one that the code draws."""

from cpmi_dagster.contracts.tables import TABLES
from scripts.architecture_picture import GROUPS, PICTURE, picture, tables_of


def test_the_picture_is_that_of_the_code_today():
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run `python -m scripts.architecture_picture`"


def test_every_table_is_in_a_group_of_the_picture():
    assert sum(len(tables_of(group)) for group in GROUPS) == len(TABLES)
