"""`docs/troubleshooting.md` quotes messages that the program still has."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
QUOTED = re.compile(r"^\| `(.+?)` \|", re.MULTILINE)


def text_of(node: ast.AST) -> str | None:
    """A text of the code, with a mark for each value that is written into it."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "\ufffd" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def test_every_message_of_the_page_is_one_of_the_program():
    files = [file for room in ("cpmi_dagster", "assets", "resources") for file in (ROOT / room).rglob("*.py")]
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    texts = [text for text in map(text_of, nodes) if text]
    messages = QUOTED.findall(PAGE.read_text(encoding="utf-8"))
    patterns = {text: re.compile(".*".join(map(re.escape, text.split("…"))), re.DOTALL) for text in messages}
    assert messages
    assert not [message for message, pattern in patterns.items() if not any(map(pattern.search, texts))]
