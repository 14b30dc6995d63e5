"""Reads JSON Lines, plain or gzipped, into a pydantic model; errors name the line. Blank lines are skipped.

{"id": "a", "steps": "b"}  ->  rows.jsonl, line 3: `steps`: it must be a list; correct or remove the line
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from cpmi_dagster.errors import RepeatedFieldError, SourceError, first_complaint
from cpmi_dagster.files.bounded_reading import LINE_CHARACTERS, bounded_lines, open_text
from cpmi_dagster.files.text import NOT_UTF8, cut, encodable

Form = TypeVar("Form", bound=BaseModel)
NAME_CHARACTERS = 60


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise RepeatedFieldError(f"the field `{cut(encodable(name), NAME_CHARACTERS)}` occurs twice")
    return fields


# `json.loads` would construct a decoder for every line
DECODER = json.JSONDecoder(object_pairs_hook=_fields)
"""Decodes JSON; raises RepeatedFieldError if an object has a field twice."""


def read_json_lines(path: Path, form: type[Form], holds: str) -> Iterator[tuple[str, Form]]:
    """Yield each line of a file with its place as errors name it, `rows.jsonl, line 3`.

    Args:
        path: the file, plain or gzipped.
        form: the model of a line.
        holds: what the file holds, for the error if there is none.

    Raises:
        SourceError: there is no such file, it is Parquet or damaged, or a line is too long or not of that form.
    """
    if not path.is_file():
        raise SourceError(f"there is no file {path}; give JSON Lines with {holds}")
    if ".parquet" in path.suffixes:
        raise SourceError(f"{path} is Parquet; give JSON Lines with {holds}")
    with open_text(path) as stream:
        for number, (text, is_whole) in enumerate(bounded_lines(stream), start=1):
            place = f"{path}, line {number}"
            if not is_whole:
                most = f"{LINE_CHARACTERS:,}"
                raise SourceError(f"{place} is longer than {most} characters; correct or remove the line")
            if text.strip():
                yield place, parse_line(text, form, place)


def parse_line(text: str, form: type[Form], place: str) -> Form:
    """Parse a line into its form; `place` names it in errors.

    Raises:
        SourceError: the line is not of that form.
    """
    if NOT_UTF8.search(text):
        raise SourceError(f"{place} is not UTF-8; save the file as UTF-8, or correct or remove the line")
    try:
        row: Any = DECODER.decode(text)
        if not isinstance(row, dict):
            raise SourceError(f"{place} is not a JSON object of fields and values; correct or remove the line")
        return form.model_validate(row)
    except RepeatedFieldError as error:
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
