r"""Compare answers by the built-in equivalence, or by a function that the profile names.

    answers: {equivalent: "my_module:same"}                  in the profile, beside which my_module.py stands
    def same(gold: str, candidate: str) -> bool: ...         in my_module.py

Two wrong answers are also compared; the earlier one is then passed as `gold`.
"""

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeVar

import numpy as np
from pydantic import Field, model_validator

from cpmi_dagster.answers.verdicts import EQUIVALENCE_VERSION, decide, equivalent, is_equivalent
from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.errors import SettingsError, first_line
from cpmi_dagster.files.text import cut

LONGEST_SHOWN = 80
Item = TypeVar("Item")


@dataclass(frozen=True)
class Comparison:
    """A comparison of answers.

    Attributes:
        name: `module:function` of the user's function; empty for the built-in equivalence.
        function: takes gold answer and candidate, returns a bool; None for the built-in equivalence.
        digest: sha256 of the file of the function's module.
    """

    name: str = ""
    function: Callable[[str, str], Any] | None = None
    digest: str = ""

    def same(self, gold: str, candidate: str) -> bool:
        """Whether a candidate is equivalent to the gold answer.

        Raises:
            SettingsError: the user's function raises, or returns neither True nor False.
        """
        if self.function is None:
            return is_equivalent(gold, candidate)
        try:
            verdict = self.function(gold, candidate)
        except (Exception, SystemExit) as error:  # the function is not ours
            problem = f"it raised {type(error).__name__}: {first_line(error)}"
        else:
            if isinstance(verdict, bool | np.bool_):
                return bool(verdict)
            problem = f"it returned {cut(repr(verdict), LONGEST_SHOWN)}, which is neither True nor False"
        gold, candidate = (cut(repr(answer), LONGEST_SHOWN) for answer in (gold, candidate))
        raise SettingsError(f"`{self.name}` cannot compare the answers {gold} and {candidate}: {problem}; correct it")

    def each(self, golds: Sequence[str], candidates: Sequence[str]) -> list[bool]:
        """`same` of many pairs, in order; each distinct pair is compared once."""
        if self.function is None:
            return equivalent(golds, candidates)
        pairs = list(zip(golds, candidates, strict=True))
        verdicts = {pair: self.same(*pair) for pair in dict.fromkeys(pairs)}
        return [verdicts[pair] for pair in pairs]

    def distinct(self, gold: str | None, items: Iterable[Item], answer: Callable[[Item], str]) -> Iterator[Item]:
        """The items whose answers differ from the gold answer and from those before them, one at a time."""
        earlier = [] if gold is None else [gold]
        for item in items:
            if not any(self.same(other, answer(item)) for other in earlier):
                earlier.append(answer(item))
                yield item

    def is_clearly_same(self, gold: str, candidate: str) -> bool:
        """`same`, but False for pairs that the built-in equivalence would leave to math-verify, which is slow."""
        return decide(gold, candidate) is True if self.function is None else self.same(gold, candidate)


BUILT_IN = Comparison()


@lru_cache
def load_comparison(name: str, folder: str | None) -> Comparison:
    """Import the function `module:function`; the module is in the folder or on Python's path.

    Raises:
        SettingsError: there is no such module or function.
    """
    if folder and folder not in sys.path:
        sys.path.append(folder)
    try:
        function = resolve_name(name)
    except Exception as error:  # whatever the module does when it is imported
        problem = f"{type(error).__name__}: {first_line(error)}"
        where = f"; its module is looked for on Python's path, then beside the profile in {folder}" if folder else ""
        raise SettingsError(f"`{name}` cannot be imported: {problem}{where}") from error
    if ":" not in name or not callable(function):
        raise SettingsError(f"`{name}` does not name a function; write it as `module:function`")
    file = sys.modules[name.partition(":")[0]].__file__
    return Comparison(name, function, hashlib.sha256(Path(file).read_bytes() if file else b"").hexdigest())


class Answers(Frozen):
    """How a run compares answers."""

    equivalent: str | None = Field(
        default=None, description="`module:function` of the gold answer and another; the built-in equivalence if null"
    )
    folder: str | None = Field(
        default=None,
        description="where its module stands if it is not installed; the folder of the profile that names it",
    )

    @model_validator(mode="after")
    def _can_be_loaded(self) -> "Answers":
        try:
            self.comparison  # noqa: B018
        except SettingsError as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def comparison(self) -> Comparison:
        """The profile's function, loaded once in each process, or the built-in equivalence."""
        return load_comparison(self.equivalent, self.folder) if self.equivalent else BUILT_IN

    @property
    def identity(self) -> dict[str, str]:
        """Name and module sha256 of the function, or the built-in equivalence."""
        return {"function": self.equivalent, "sha256": self.comparison.digest} if self.equivalent else self.built_in

    @property
    def built_in(self) -> dict[str, str]:
        """The built-in equivalence and its version; it compares options of questions, whatever the function is."""
        return {"function": "built in", "version": EQUIVALENCE_VERSION}
