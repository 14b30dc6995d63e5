"""`docs/extending.md` as data: its examples, and how their code is inserted.

    examples()["A question set"].files         ["cpmi_dagster/benchmarks/question_sets.py", …]
    examples()["A question set"].insertions    code, its file, and the line it stands after or before

Code stands under a line such as "In `FILE`, after the line `LINE`:", or "before the line", or "In `FILE`, at the end:".
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "extending.md"
PLACE = re.compile(
    r"^In `(?P<file>[^`]+)`, (?:at the end|(?P<side>after|before) the line `(?P<line>[^`]+)`):\n\n"
    r"```python\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Insertion:
    """Code and its place; `line` is None where it stands at the end of the file."""

    file: str
    code: str
    line: str | None = None
    after: bool = True

    def into(self, root: Path) -> None:
        """Insert the code into the file below `root`."""
        path = root / self.file
        path.write_text(self.inserted(path.read_text(encoding="utf-8")), encoding="utf-8")

    def inserted(self, text: str) -> str:
        """The text with the code in its place; what ends a file stands apart from the rest as functions do."""
        if self.line is None:
            return f"{text}\n\n{self.code}"
        lines = text.splitlines(keepends=True)
        found = [number for number, line in enumerate(lines) if line.rstrip("\n") == self.line]
        assert len(found) == 1, f"{PAGE.name}: {self.file} has the line `{self.line}` {len(found)} times, not once"
        place = found[0] + self.after
        return "".join([*lines[:place], self.code, *lines[place:]])


@dataclass(frozen=True)
class Example:
    """One section of the page."""

    files: list[str]
    insertions: list[Insertion]
    profile: str
    rows: str


def examples(page: str | None = None) -> dict[str, Example]:
    """By heading, every section that names files.

    Args:
        page: text of the page; the page as it stands by default.
    """
    sections = re.split(r"^## (.+)$", page or PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {heading: _example(text) for heading, text in zip(sections[::2], sections[1::2], strict=True)}


def _example(text: str) -> Example:
    insertions = [
        Insertion(found["file"], found["code"], found["line"], found["side"] != "before")
        for found in PLACE.finditer(text)
    ]
    assert len(insertions) == len(_blocks(text, "python")), "some code of the page says not where it stands"
    (files,) = re.findall(r"^Files: (.+)$", text, re.MULTILINE)
    (profile,) = _blocks(text, "yaml")
    return Example(re.findall(r"`([^`]+)`", files), insertions, profile, "".join(_blocks(text, "json")))


def _blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
