"""How a run compares answers: by the built-in equivalence, or by a function that the profile names.

    BUILT_IN.same("1/2", "0.5")                                                      ->  True

    answers: {equivalent: "my_module:same"}                  in the profile, beside which my_module.py stands
    def same(gold: str, candidate: str) -> bool: ...         in my_module.py
    load_comparison("my_module:same", folder, digest).same("Ann", "ann")             ->  what the function returns

Wrong answers are compared with one another too, the earlier one as `gold`.
"""

import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from pydantic import Field, PrivateAttr, model_validator

from cpmi_dagster.answers.verdicts import decide, equivalent, is_equivalent
from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.errors import SettingsError, first_line
from cpmi_dagster.files.text import cut

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

NAME = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<function>[^\W\d]\w*)")
LONGEST_SHOWN = 80


@dataclass(frozen=True)
class Comparison:
    """Whether two answers are the same.

    Attributes:
        name: `module:function` of the user's function; empty for the built-in equivalence.
        function: takes the gold answer and another, returns a bool; None for the built-in equivalence.
    """

    name: str = ""
    function: Callable[[str, str], Any] | None = None

    def same(self, gold: str, candidate: str) -> bool:
        """Whether a candidate is the gold answer.

        Raises:
            SettingsError: the user's function raises, or returns something else than True or False.
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
        """`same` of many pairs, in order; each different pair is compared once."""
        if self.function is None:
            return equivalent(golds, candidates)
        pairs = list(zip(golds, candidates, strict=True))
        verdicts = {pair: self.same(*pair) for pair in dict.fromkeys(pairs)}
        return [verdicts[pair] for pair in pairs]

    def clearly_same(self, one: str, other: str) -> bool:
        """`same` without what is slow: the built-in equivalence leaves doubtful pairs to math-verify."""
        return decide(one, other) is True if self.function is None else self.same(one, other)


BUILT_IN = Comparison()


def module_digest(name: str, folder: str | None) -> str:
    """Sha256 of the file that a `module:function` is in.

    Raises:
        SettingsError: there is no such module, or the name is not of that form.
    """
    return hashlib.sha256(_file_of(name, folder).read_bytes()).hexdigest()


@lru_cache
def load_comparison(name: str, folder: str | None, digest: str) -> Comparison:
    """The comparison by a function of the user's.

    Args:
        name: `module:function`.
        folder: where the module is looked for first.
        digest: sha256 of its file as it was when the profile was read.

    Raises:
        SettingsError: there is no such module or function, or the file has been changed.
    """
    file = _file_of(name, folder)
    source = file.read_bytes()
    if hashlib.sha256(source).hexdigest() != digest:
        raise SettingsError(f"{file} has changed since the profile was read; run again")
    name_of_module, _, function = name.partition(":")
    if folder and folder not in sys.path:
        sys.path.append(folder)  # for what the module imports from its own folder, also when it is called
    try:
        # a name of its own: no other module of that name is taken for it, and it for no other
        spec = importlib.util.spec_from_file_location(f"{name_of_module}_{digest[:12]}", file)
        module = importlib.util.module_from_spec(cast("ModuleSpec", spec))
        sys.modules[module.__name__] = module
        # run from its source: Python's cache of compiled files misses changes within a second
        exec(compile(source, str(file), "exec"), module.__dict__)
    except Exception as error:  # whatever the module does when it is imported
        reason = f"{type(error).__name__}: {first_line(error)}"
        problem = f"the module `{name_of_module}` ({file}) cannot be imported: {reason}; correct it"
        raise SettingsError(problem) from error
    found = getattr(module, function, None)
    if not callable(found):
        problem = f"has no `{function}`" if found is None else f"has a `{function}` that cannot be called"
        raise SettingsError(f"the module `{name_of_module}` {problem}; name a function of {file}")
    return Comparison(name, found)


def _file_of(name: str, folder: str | None) -> Path:
    """The file of a module, in the folder or among those that Python finds."""
    if not (written := NAME.fullmatch(name)):
        raise SettingsError(f"`{name}` does not name a function; write it as `module:function`")
    module = written["module"]
    place = Path(folder or "", *module.split("."))
    for file in (place.with_suffix(".py"), place / "__init__.py") if folder else ():
        if file.is_file():
            return file
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not str(spec.origin).endswith(".py"):
        beside = f"beside the profile in {folder}, or " if folder else ""
        raise SettingsError(f"there is no module `{module}`; put it {beside}where Python finds it")
    return Path(str(spec.origin))


class Answers(Frozen):
    """How the answers of problems are compared, wherever a run compares some."""

    equivalent: str | None = Field(
        default=None, description="`module:function` of the gold answer and another; the built-in equivalence if null"
    )
    folder: str | None = Field(
        default=None, description="where its module is looked for first; the folder of the profile that names it"
    )
    _digest: str = PrivateAttr(default="")

    @model_validator(mode="after")
    def _can_be_loaded(self) -> "Answers":
        if self.equivalent:
            try:
                self._digest = module_digest(self.equivalent, self.folder)
                load_comparison(self.equivalent, self.folder, self._digest)
            except SettingsError as error:
                raise ValueError(str(error)) from error
        return self

    @property
    def comparison(self) -> Comparison:
        """The function that the profile names, loaded once in every process; else the built-in equivalence."""
        return load_comparison(self.equivalent, self.folder, self._digest) if self.equivalent else BUILT_IN

    @property
    def identity(self) -> dict[str, str] | None:
        """The function's name and the sha256 of its module's file; None for the built-in equivalence."""
        return {"function": self.equivalent, "sha256": self._digest} if self.equivalent else None
