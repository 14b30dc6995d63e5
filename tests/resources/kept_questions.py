"""Which questions are kept, worked out from the bytes of files as they were written; imported by the laws."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import strategies as st

DAMAGE = st.tuples(st.sampled_from(["delete", "truncate", "flip"]), st.integers(0, 100_000))


class Killed(Exception):
    """Stands for `kill -9`."""


@dataclass
class Kept:
    """The questions whose answers are in the files of a folder, by path and bytes of a file."""

    folder: Path
    questions: dict[tuple[Path, bytes], set[Any]] = field(default_factory=dict)

    @property
    def paths(self) -> list[Path]:
        """Files of answers."""
        return sorted(self.folder.rglob(".calls/**/*.parquet"))

    @property
    def known(self) -> set[Any]:
        """The questions that need not be asked."""
        return {question for path in self.paths for question in self.questions[path, path.read_bytes()]}

    def look(self, questions_in: Callable[[pl.DataFrame], Iterable[Any]]) -> None:
        """Note the files that were written just now."""
        for path in self.paths:
            if (path, content := path.read_bytes()) not in self.questions:
                self.questions[path, content] = {*questions_in(pl.read_parquet(content))}

    def damage(self, paths: Sequence[Path], what: str, number: int) -> None:
        """Damage a file, which has no answers then; one in which the same bit flips twice is whole again."""
        if not paths:
            return
        path = paths[number % len(paths)]
        content = path.read_bytes()
        place = number * 7919 % max(1, len(content))
        flipped = bytes([content[place] ^ 1 << number % 8]) + content[place + 1 :] if content else b""
        path.write_bytes(content[:place] + (flipped if what == "flip" else b""))
        self.questions.setdefault((path, path.read_bytes()), set())
        if what == "delete":
            path.unlink()
