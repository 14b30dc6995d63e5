"""Map the field names of a file to ours, and explain how to read a file of another kind.

rename({"answer": 5, "a": 1}, {"gold_answer": "answer"})      {"a": 1, "gold_answer": 5}
use_file_names({"steps": "parts"}, "`steps.1`: it is empty")     "`parts.1`: it is empty"
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
from cpmi_dagster.trajectories.proposals import propose_fields

NAMES_CHARACTERS = 200
FIELD_IN_REASON = re.compile(r"(?<=`)[^`.]+(?=[`.])")
ALSO_OF_OTHERS = ("input",)
"""Field names of forms that other files give to questions."""


def refuse(row: Mapping[str, Any], place: str, fields: Mapping[str, str]) -> SourceError:
    """The error for a source whose first row has no form; it proposes `--map` options and a conversion.

    Args:
        row: the first row, by our names.
        place: file or hub id.
        fields: as for `rename`.
    """
    given = set(drop_nulls(row))
    is_asked, is_solved = bool(given & set(QUESTION.split("|"))), bool(given & {*SOLUTION.split("|"), "steps"})
    wanted = [name for name, is_there in {"question": is_asked, "solution": is_solved}.items() if not is_there]
    others = {name: value for name, value in row.items() if name in ALSO_OF_OTHERS or name not in FIELD_NAMES}
    proposed = propose_fields([others], ["messages"]) or propose_fields(
        [others], wanted if is_solved else ["steps", *wanted]
    )
    if "steps" in proposed:
        wanted = [name for name in wanted if name != "solution"]
        proposed.pop("solution", None)
    names = proposed if "messages" in proposed else dict.fromkeys(wanted, "FIELD") | proposed
    maps = " ".join(f"--map {shlex.quote(f'{ours}={field}')}" for ours, field in ({**fields, **names}).items())
    alone = "where it has questions alone, `--sample 4` samples their solutions; " if is_asked else ""
    error = (
        f"the trajectory source has columns {list_columns(row, fields)}; it needs {NEEDED}; {alone}name its fields, "
        f"such as {maps}"
    )
    if set(proposed) != {"question", "solution"} or "." in "".join(proposed.values()):
        return SourceError(error)
    kind = next((kind for kind, ends in LOADERS.items() if any(end in place.lower() for end in ends)), None)
    loaded = f'"{place}"' if kind is None else f'"{kind}", data_files="{place}"'
    return SourceError(
        f"{error}, or convert it:\n"
        "    from datasets import load_dataset\n"
        f'    rows = load_dataset({loaded}, split="train")\n'
        f'    rows.map(lambda row: {{"question": row["{proposed["question"]}"], '
        f'"solution": row["{proposed["solution"]}"]}}, remove_columns=rows.column_names).to_json("converted.jsonl")'
    )


LOADERS = {"json": (".json",), "csv": (".csv",), "parquet": (".parquet",), "arrow": (".arrow",)}
"""Builders of `datasets.load_dataset` and the suffixes of their files."""


def rename(row: Mapping[str, Any], fields: Mapping[str, str]) -> Mapping[str, Any]:
    """Rename the fields of a row.

    Args:
        fields: the file's name by our name, `{"gold_answer": "answer"}`; `a.b` is a nested field.

    Raises:
        SourceError: the row lacks a field.
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
    """The field at a path; a name with dots wins over a nested field. Fields of null are null.

    Raises:
        KeyError: there is no such field; the message lists those there are.
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
    raise KeyError(f"{f'`{outer}`' if outer else 'it'} has {list_columns(value)}")


def list_columns(row: Mapping[str, Any], fields: Mapping[str, str] = MappingProxyType({})) -> str:
    """List the field names of a row as in its file, cut to `NAMES_CHARACTERS`."""
    return cut(", ".join(str(fields.get(name, name)) for name in row), NAMES_CHARACTERS)


def use_file_names(fields: Mapping[str, str], reason: str) -> str:
    """Replace our field names in a reason by the file's: `steps.1` becomes `responses.1`."""
    return FIELD_IN_REASON.sub(lambda name: fields.get(name[0], name[0]), reason)
