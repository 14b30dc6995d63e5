"""JSON Lines of one form, plain or gzipped, read with an error that names the line.

    {"id": "a", "steps": "b"}  ->  rows.jsonl, line 3: `steps`: it must be a list; correct or remove the line

The form is a pydantic model; blank lines are skipped, and so are byte order marks.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from cpmi_dagster.errors import RepeatedField, SourceError, first_complaint
from cpmi_dagster.files.bounded_reading import LINE_CHARACTERS, bounded_lines, open_text
from cpmi_dagster.files.text import NOT_UTF8, cut, encodable

Form = TypeVar("Form", bound=BaseModel)
NAME_CHARACTERS = 60


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise RepeatedField(f"the field `{cut(encodable(name), NAME_CHARACTERS)}` occurs twice")
    return fields


# made once: `json.loads` would make one for every line
DECODER = json.JSONDecoder(object_pairs_hook=_fields)
"""Reads JSON; raises RepeatedField where an object has a field twice."""


def read_json_lines(path: Path, form: type[Form], holds: str) -> Iterator[tuple[str, Form]]:
    """The lines of a file, each with its place as errors name it: `rows.jsonl, line 3`.

    Args:
        path: The file, plain or gzipped.
        form: What every line must be.
        holds: A description of the file's content, for the error where there is no such file.

    Raises:
        SourceError: there is no such file, it is Parquet, damaged or holds too much, or a line is not of that form.
    """
    if not path.is_file():
        raise SourceError(f"there is no file {path}; give JSON Lines with {holds}")
    if ".parquet" in path.suffixes:
        raise SourceError(f"{path} is Parquet; give JSON Lines with {holds}")
    with open_text(path) as stream:
        for number, (text, is_whole) in enumerate(bounded_lines(stream), start=1):
            place = f"{path}, line {number}"
            if not is_whole:
                longest = LINE_CHARACTERS
                raise SourceError(f"{place} is longer than {longest:,} characters; correct or remove the line")
            if text.strip():
                yield place, parse_line(text, form, place)


def parse_line(text: str, form: type[Form], place: str) -> Form:
    """A line as its form.

    Args:
        place: of the line, for errors.

    Raises:
        SourceError: it is not of that form.
    """
    if NOT_UTF8.search(text):
        raise SourceError(f"{place} is not UTF-8; save the file as UTF-8, or correct or remove the line")
    try:
        row: Any = DECODER.decode(text)
        if not isinstance(row, dict):
            raise SourceError(f"{place} is not a JSON object of fields and values; correct or remove the line")
        return form.model_validate(row)
    except RepeatedField as error:
        raise SourceError(f"{place}: {error}; correct or remove the line") from error
    except RecursionError as error:
        raise SourceError(f"{place} is nested too deeply; correct or remove the line") from error
    except json.JSONDecodeError as error:
        raise SourceError(
            f"{place} is not JSON ({error.msg}, column {error.colno}); correct or remove the line"
        ) from error
    except ValidationError as error:
        raise SourceError(f"{place}: {first_complaint(error)}; correct or remove the line") from error
    except ValueError as error:
        raise SourceError(f"{place} has a number of too many digits; correct or remove the line") from error
