"""The README's table of the demo is the one that a script made of the demo's rows."""

import polars as pl

from scripts.readme_table import BLOCK, README, ROWS, markdown_table, with_table


def demo_rows() -> pl.DataFrame:
    return pl.read_csv(ROWS, infer_schema=False)


def test_the_readme_has_the_rows_of_the_demo_and_no_others():
    text = README.read_text(encoding="utf-8")
    assert len(BLOCK.findall(text)) == 1
    assert with_table(text, demo_rows()) == text


def test_a_table_has_a_heading_and_a_line_for_every_row():
    lines = markdown_table(demo_rows()).splitlines()
    assert len(lines) == demo_rows().height + 2
    assert lines[0].startswith("| Reward | ") and set(lines[1]) <= set("| -")
