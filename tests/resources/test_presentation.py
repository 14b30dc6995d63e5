"""Previews in the Dagster UI are Markdown: texts of data are shown in it and mean nothing."""

import polars as pl
from markdown_it import MarkdownIt

from cpmi_dagster.resources.dag.presentation import preview

IMAGE = "![x](https://evil.example/a.png) <img src=x>"


def test_a_question_in_a_preview_is_no_image_and_no_html_and_stays_on_its_short_line():
    text = preview(pl.DataFrame({"question": [IMAGE, "a | b\\", "c\nd\u2028e", "x" * 500], "n": [0.5, 2.0, 0.0, 1.0]}))
    lines = text.splitlines()
    assert len(lines) == 6 and lines[4] == "| c d e | 0 |" and len(lines[5]) < 100
    parsed = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    kinds = {inner.type for token in parsed for inner in (token.children or [token])}
    assert "td_open" in kinds and not kinds & {"image", "html_inline", "html_block", "link_open"}
