"""`docs/troubleshooting.md` quotes messages that the program still has."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
QUOTED = re.compile(r"^\| `(.+?)` \|", re.MULTILINE)
GAP = "\N{REPLACEMENT CHARACTER}"


def _text(node: ast.AST) -> str | None:
    """A text of the code, with a mark for each value that is written into it."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else GAP for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


@cache
def texts() -> list[str]:
    files = [file for room in ("cpmi_dagster", "assets", "resources") for file in (ROOT / room).rglob("*.py")]
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    return [text for text in map(_text, nodes) if text]


@pytest.mark.parametrize("message", QUOTED.findall(PAGE.read_text(encoding="utf-8")))
def test_a_message_of_the_page_is_one_of_the_program(message):
    pieces = [re.escape(piece) for piece in message.split("…")]
    pattern = re.compile(".*".join(pieces), re.DOTALL)
    assert any(pattern.search(text) for text in texts())
