"""Text of data on terminals and in Markdown: shown, never obeyed."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from cpmi_dagster.files.text import NOT_SHOWN, in_markdown, printable

MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")
HOSTILE = (
    "![x](//evil.example/a.png)",
    "<img src=//evil.example/a.png>",
    "a\\|![x](//evil.example)|b",
    "&lt;img src=x&gt; &#33;[x](y)",
    "| --- |\n|![x](y)|",
    "\x1b]0;title\x07",
)


def tokens(text: str) -> list[Token]:
    parsed = MARKDOWN.parse(text)
    return [inner for token in parsed for inner in (token.children or [token])]


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left_and_json_reads_it_back(text):
    shown = printable(text)
    assert not NOT_SHOWN.search(shown)
    if not set('\\"\n\t') & set(text):
        assert json.loads(f'"{shown}"') == text


@pytest.mark.parametrize("text", ["\x1b[2J", "\x9b2J", "\x07", "\r", "\x7f", "\u202e", "\u2066", "\ud800", "\x00"])
def test_control_characters_are_written_out(text):
    assert printable(text).startswith("\\u") and printable("a\tb\né 🙂") == "a\tb\né 🙂"


@given(st.text(st.characters(blacklist_categories=["Cs"])) | st.sampled_from(HOSTILE))
@example("\\")
@example("|")
def test_any_text_in_a_cell_of_markdown_shows_itself_and_nothing_else(text):
    found = tokens(f"| a | b |\n|---|---|\n| {in_markdown(text)} | z |")
    kinds = {token.type for token in found if token.type not in ("text", "text_special", "inline")}
    assert all(kind.startswith(("table", "thead", "tbody", "tr", "th", "td")) for kind in kinds), kinds
    shown = "".join(token.content for token in found if token.type in ("text", "text_special"))
    assert shown == "ab" + printable(" ".join(text.split())) + "z"
