"""The addresses of pages: search, task, reward types, step. Every view is a link.

/trajectory/t000000017?search=eggs&types=mc&types=cpmi&step=2
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

from cpmi_dagster.resources.explorer.results import Results

Name = TypeVar("Name", bound=str)
LONGEST = 300
SHOWN_AT_FIRST = 4
MOST_TYPES = 12


@dataclass(frozen=True)
class Choice:
    """What the reader has chosen to see on every page.

    Attributes:
        search: words of questions, or a whole id.
        task: empty for all.
        types: reward types side by side.
        conditioning: of answers; empty for the first that was scored.
    """

    search: str
    task: str
    types: list[str]
    conditioning: str

    @property
    def filters(self) -> dict[str, str]:
        """The parameters of `queries.MATCHES`."""
        return {"search": self.search, "task": self.task}

    @property
    def asked(self) -> dict[str, object]:
        """The parameters of an address."""
        return {**self.filters, "types": self.types, "conditioning": self.conditioning}


def choice_of(query: QueryParams, results: Results) -> Choice:
    """The choice of an address; an HTTPException 400 if it names an unknown type or task."""
    types = list(dict.fromkeys(query.getlist("types"))) or results.reward_types[:SHOWN_AT_FIRST]
    for name in types:
        check_known("types", name, results.reward_types)
    if len(types) > MOST_TYPES:
        raise HTTPException(400, f"types: choose at most {MOST_TYPES} reward types, which fit side by side")
    task = text_of(query, "task")
    if task:
        check_known("task", task, results.tasks)
    return Choice(text_of(query, "search").strip(), task, types, text_of(query, "conditioning"))


def text_of(query: QueryParams, name: str) -> str:
    """A parameter as text, empty by default; an HTTPException 400 if it is too long or not printable."""
    text = query.get(name, "")
    if len(text) > LONGEST or not text.replace("\t", " ").isprintable():
        raise HTTPException(400, f"{name}: give at most {LONGEST} printable characters")
    return text


def number_of(query: QueryParams, name: str) -> int | None:
    """A parameter as a number from 0, None by default; an HTTPException 400 if it is not one."""
    text = query.get(name, "")
    if text and not (text.isascii() and text.isdecimal() and len(text) < 7):
        raise HTTPException(400, f"{name}: write a whole number, 0 or more")
    return int(text) if text else None


def check_known(name: str, value: str, values: Sequence[Name]) -> Name:
    """A value that is among `values`; an HTTPException 400 that lists them if it is not."""
    for each in values:
        if each == value:
            return each
    raise HTTPException(400, f"{name}: there is no `{value[:LONGEST]}`; choose from {', '.join(values) or 'none'}")


def address(*place: str, **params: object) -> str:
    """The address of a page, from the parts of its path, and its parameters without empty ones."""
    given = {name: value for name, value in params.items() if value not in (None, "", [])}
    path = "/" + "/".join(quote(part, safe="") for part in place)
    return f"{path}?{urlencode(given, doseq=True)}" if given else path
