"""Previews and notes in the Dagster UI are Markdown: texts of data are shown in it and mean nothing."""

import polars as pl
from markdown_it import MarkdownIt

from cpmi_dagster.resources.dag.presentation import preview

IMAGE = "![x](https://evil.example/a.png) <img src=x>"


def test_a_question_in_a_preview_is_no_image_and_no_html():
    text = preview(pl.DataFrame({"question": [IMAGE, "a | b\\"], "n": [0.5, 2.0]}))
    parsed = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    kinds = {inner.type for token in parsed for inner in (token.children or [token])}
    assert "td_open" in kinds
    assert not kinds & {"image", "html_inline", "html_block", "link_open"}


def test_a_preview_has_a_line_for_each_row_and_cuts_long_texts():
    lines = preview(pl.DataFrame({"question": ["a\nb\u2028c", "x" * 500]})).splitlines()
    assert lines[2] == "| a b c |"
    assert len(lines) == 4 and len(lines[3]) < 100
