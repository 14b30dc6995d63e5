"""What the address of a page says: search, task, reward types, step. Every view is a link.

/trajectory/t000000017?search=eggs&types=mc&types=cpmi&step=2
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote, unquote, urlencode

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request

from cpmi_dagster.resources.web.explorer.own_labels import UNNAMED
from cpmi_dagster.resources.web.explorer.snapshot import Snapshot

Name = TypeVar("Name", bound=str)
LONGEST = 300
LARGEST = 10**6
SHOWN_AT_FIRST = 4
MOST_TYPES = 12
ANNOTATOR = "annotator"
LONGEST_NAME = 40


@dataclass(frozen=True)
class Choice:
    """What the reader has chosen to see, wherever they go.

    Attributes:
        search: in questions, or a whole id.
        task: a task, or empty for all.
        types: reward types side by side.
        conditioning: of the answers' log-probabilities; empty for the first that was scored.
    """

    search: str
    task: str
    types: list[str]
    conditioning: str

    @property
    def asked(self) -> dict[str, object]:
        """As the parameters of an address, without what is empty."""
        every = {"search": self.search, "task": self.task, "types": self.types, "conditioning": self.conditioning}
        return {name: value for name, value in every.items() if value}

    @property
    def filters(self) -> dict[str, str]:
        """The parameters of `queries.MATCHES`."""
        return {"search": self.search, "task": self.task}


def choice_of(query: QueryParams, snapshot: Snapshot) -> Choice:
    """What an address says.

    Raises:
        HTTPException: it names what is not there; 400 with a sentence.
    """
    types = list(dict.fromkeys(query.getlist("types"))) or snapshot.reward_types[:SHOWN_AT_FIRST]
    for name in types:
        known("types", name, snapshot.reward_types)
    if len(types) > MOST_TYPES:
        raise HTTPException(
            400, f"types: {len(types)} reward types do not fit side by side; choose at most {MOST_TYPES}"
        )
    task = text_of(query, "task")
    if task:
        known("task", task, snapshot.tasks)
    return Choice(text_of(query, "search").strip(), task, types, text_of(query, "conditioning"))


def annotator_of(request: Request) -> str:
    """Who judges steps, as a cookie has it."""
    return unquote(request.cookies.get(ANNOTATOR, UNNAMED))[:LONGEST_NAME]


def text_of(query: QueryParams, name: str) -> str:
    """A parameter that is a text, empty where it is not given.

    Raises:
        HTTPException: it is too long or holds characters that no text has.
    """
    text = query.get(name, "")
    if len(text) > LONGEST or not text.replace("\t", " ").isprintable():
        raise HTTPException(400, f"{name}: give at most {LONGEST} printable characters")
    return text


def number_of(query: QueryParams, name: str) -> int | None:
    """A parameter that is a number from 0, or nothing where it is not given.

    Raises:
        HTTPException: it is no such number.
    """
    text = query.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) < LARGEST):
        raise HTTPException(400, f"{name}: write a whole number, 0 or more")
    return int(text)


def known(name: str, value: str, values: Sequence[Name]) -> Name:
    """A value that is one of those there are.

    Raises:
        HTTPException: it is another; the message lists them.
    """
    for each in values:
        if each == value:
            return each
    raise HTTPException(400, f"{name}: there is no `{value[:LONGEST]}`; choose from {', '.join(values) or 'none'}")


def address(*place: str, **params: object) -> str:
    """The address of a page: parts of its path, and its parameters without those that are nothing."""
    given = {name: value for name, value in params.items() if value is not None and value != ""}
    path = "/" + "/".join(quote(part, safe="") for part in place)
    return f"{path}?{urlencode(given, doseq=True)}" if given else path
