"""Names of fields: the file's and ours, and what a file of another kind is told.

rename({"answer": 5, "a": 1}, {"gold_answer": "answer"})      {"a": 1, "gold_answer": 5}
in_words_of({"steps": "parts"}, "`steps.1`: it is empty")     "`parts.1`: it is empty"
"""

import re
import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from cpmi_dagster.errors import SourceError
from cpmi_dagster.files.text import cut
from cpmi_dagster.trajectories.fields import read_cell
from cpmi_dagster.trajectories.form_readers import QUESTION, SOLUTION
from cpmi_dagster.trajectories.forms import FIELD_NAMES, NEEDED, drop_nulls
from cpmi_dagster.trajectories.proposals import proposed_fields

NAMES_CHARACTERS = 200
FIELD_IN_REASON = re.compile(r"(?<=`)[^`.]+(?=[`.])")
ALSO_OF_OTHERS = ("input",)
"""Names of forms that others give to questions."""


def refuse(row: Mapping[str, Any], place: str, fields: Mapping[str, str]) -> SourceError:
    """The error of a source whose first row is in none of the forms, with what reads it and what converts it.

    Args:
        row: the first one, by our names.
        place: file or hub id, for the lines that convert it.
        fields: as for `rename`.
    """
    given = set(drop_nulls(row))
    is_asked, is_solved = bool(given & set(QUESTION.split("|"))), bool(given & {*SOLUTION.split("|"), "steps"})
    wanted = [name for name, is_there in {"question": is_asked, "solution": is_solved}.items() if not is_there]
    others = {name: value for name, value in row.items() if name in ALSO_OF_OTHERS or name not in FIELD_NAMES}
    found = proposed_fields([others], ["messages"]) or proposed_fields([others], wanted)
    names = found if "messages" in found else dict.fromkeys(wanted, "FIELD") | found
    maps = " ".join(f"--map {shlex.quote(f'{ours}={field}')}" for ours, field in ({**fields, **names}).items())
    alone = "where it has questions alone, `--sample 4` samples their solutions; " if is_asked else ""
    error = (
        f"the trajectory source has columns {columns_of(row, fields)}; it needs {NEEDED}; {alone}name its fields, "
        f"such as {maps}"
    )
    if set(found) != {"question", "solution"} or "." in "".join(found.values()):
        return SourceError(error)
    kind = next((kind for kind, ends in LOADERS.items() if any(end in place.lower() for end in ends)), None)
    loaded = f'"{place}"' if kind is None else f'"{kind}", data_files="{place}"'
    return SourceError(
        f"{error}, or convert it:\n"
        "    from datasets import load_dataset\n"
        f'    rows = load_dataset({loaded}, split="train")\n'
        f'    rows.map(lambda row: {{"question": row["{found["question"]}"], "solution": row["{found["solution"]}"]}}, '
        'remove_columns=rows.column_names).to_json("converted.jsonl")'
    )


LOADERS = {"json": (".json",), "csv": (".csv",), "parquet": (".parquet",), "arrow": (".arrow",)}
"""What `datasets.load_dataset` calls the kinds of local files, and how their names end."""


def rename(row: Mapping[str, Any], fields: Mapping[str, str]) -> Mapping[str, Any]:
    """A row with other names of its fields.

    Args:
        fields: by our name, the file's; `{"gold_answer": "answer"}`, or `a.b` for one within another.

    Raises:
        SourceError: the row has no such field.
    """
    named = {}
    for name, field in fields.items():
        try:
            named[name] = _within(row, field)
        except KeyError as error:
            raise SourceError(
                f"it has no field `{cut(field, NAMES_CHARACTERS)}` to read as `{name}`; {error.args[0]}"
            ) from error
    return {name: value for name, value in row.items() if name not in fields.values()} | named


def _within(value: Any, path: str, outer: str = "") -> Any:
    """The field at a path; of a name with dots before one within another. A null has every field, as null.

    Raises:
        KeyError: there is none, with what there is.
    """
    value = read_cell(value, "{") if outer else value
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise KeyError(f"`{outer}` is {type(value).__name__}, which has no fields")
    if path in value:
        return value[path]
    dots = [place for place, sign in enumerate(path) if sign == "."]
    for dot in reversed(dots):
        if path[:dot] in value:
            return _within(value[path[:dot]], path[dot + 1 :], f"{outer}.{path[:dot]}".lstrip("."))
    raise KeyError(f"{f'`{outer}`' if outer else 'it'} has {columns_of(value)}")


def columns_of(row: Mapping[str, Any], fields: Mapping[str, str] = MappingProxyType({})) -> str:
    """The names of a row's fields, as its file has them, cut where they are many."""
    return cut(", ".join(str(fields.get(name, name)) for name in row), NAMES_CHARACTERS)


def in_words_of(fields: Mapping[str, str], reason: str) -> str:
    """A reason with the fields called as their file calls them: `steps.1` is `responses.1`."""
    return FIELD_IN_REASON.sub(lambda found: fields.get(found[0], found[0]), reason)
