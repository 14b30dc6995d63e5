r"""Name the fields of a file as ours: rename them, propose which are which, and explain a file of another kind.

    rename({"answer": 5, "a": 1}, {"gold_answer": "answer"})         {"a": 1, "gold_answer": 5}
    use_file_names({"steps": "parts"}, "`steps.1`: it is empty")     "`parts.1`: it is empty"

    {"instruction": "2 + 3?", "system": "You are …", "output": "I add.\n\nSo 5.", "meta": {"gold": 5}}
    -> propose_fields: {"question": "instruction", "solution": "output", "gold_answer": "meta.gold"}

A wrong proposal would be followed, so a field is proposed only if both its name and its values fit.
"""

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import isfinite
from types import MappingProxyType
from typing import Any, NamedTuple

from cpmi_dagster.answers.extraction import announced_answer
from cpmi_dagster.errors import SourceError
from cpmi_dagster.files.text import cut
from cpmi_dagster.trajectories.chats import ASSISTANT, USER, is_chat, unwrap_text
from cpmi_dagster.trajectories.fields import Row, read_cell
from cpmi_dagster.trajectories.forms import FIELD_NAMES, NEEDED, drop_nulls
from cpmi_dagster.trajectories.readers import GOLD_ANSWER, QUESTION, SOLUTION

NAMES_CHARACTERS = 200
FIELD_IN_REASON = re.compile(r"(?<=`)[^`.]+(?=[`.])")
LOADERS = {"json": (".json",), "csv": (".csv",), "parquet": (".parquet",), "arrow": (".arrow",)}
"""Builders of `datasets.load_dataset` and the suffixes of their files."""

DEEPEST, LEAST_CHARACTERS_OF_QUESTION = 3, 20
MOST_WORDS_OF_ANSWER, LEAST_WORDS_OF_SOLUTION, LEAST_WORDS_OF_WORKED_ANSWER = 12, 3, 8
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
ANY = ".+"
QUESTIONS = ("question", "problem", "prompt", "query", "instruction", "exercise", "input")
ALSO_OF_OTHERS = {*QUESTIONS} & {*FIELD_NAMES} - {*QUESTION.split("|")}
"""Field names of forms that other files give to questions: `input`."""
SOLUTIONS = ("solution", "response", "completion", "output", "generation", "generated", "reasoning", "cot", "rationale")
GOLD = ("gold", "truth", "answer", "expected", "target")
IDS = ("id", "uid", "uuid", "guid", "qid", "idx", "index")
STEPS = ("steps", "solutions", "solution", "process", "response", "completion", "reasoning")
REFERENCES = "gold|golden|reference|ref|truth|target|expected"
"""Words in the names of solutions that are no trajectory."""
NO_TEXT = (
    f"{'|'.join(IDS)}|system|role|type|kind|source|format|category|level|lang|language|url|path|file|name|title|date|"
    "time|hash|count|num|number|length|len|tokens|score|is|has|correct|wrong|negative|rejected|original|modified|template"
)
NO_GOLD = f"{NO_TEXT}|model|student|pred|predicted|prediction|extracted|generated|response|output"


def rename(row: Row, fields: Mapping[str, str]) -> Row:
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


def list_columns(row: Row, fields: Mapping[str, str] = MappingProxyType({})) -> str:
    """List the field names of a row as in its file, cut to `NAMES_CHARACTERS`."""
    return cut(", ".join(str(fields.get(name, name)) for name in row), NAMES_CHARACTERS)


def use_file_names(fields: Mapping[str, str], reason: str) -> str:
    """Replace our field names in a reason by the file's: `steps.1` becomes `responses.1`."""
    return FIELD_IN_REASON.sub(lambda name: fields.get(name[0], name[0]), reason)


class Field(NamedTuple):
    """Names and values that other files have for one of our fields.

    Attributes:
        ours: our name.
        words: patterns of words in their names, likely ones first.
        others: pattern of words that occur in names of other fields only.
        holds: whether a list of values fits the field.
    """

    ours: str
    words: Sequence[str]
    others: str
    holds: Callable[[Sequence[Any]], bool]


def _text(values: Sequence[Any], role: str) -> str:
    try:
        text = unwrap_text(values[0], role)
    except ValueError:
        return ""
    return text.strip() if isinstance(text, str) else ""


def _are_questions(values: Sequence[Any]) -> bool:
    text = _text(values, USER)
    return " " in text or text.endswith(("?", "？")) or len(text) >= LEAST_CHARACTERS_OF_QUESTION


def _are_solutions(values: Sequence[Any]) -> bool:
    return len(_text(values, ASSISTANT).split()) >= LEAST_WORDS_OF_SOLUTION


def _are_steps(values: Sequence[Any]) -> bool:
    try:
        listed = read_cell(values[0], "[")
    except ValueError:
        return False
    return isinstance(listed, list | tuple) and len(listed) > 1 and all(isinstance(step, str) for step in listed)


def _are_worked(values: Sequence[Any]) -> bool:
    text = _text(values, ASSISTANT)
    return "\n" in text or len(text.split()) >= LEAST_WORDS_OF_WORKED_ANSWER


def _are_answers(values: Sequence[Any]) -> bool:
    first = values[0]
    if isinstance(first, str):
        is_short = "\n" not in first.strip() and len(first.split()) <= MOST_WORDS_OF_ANSWER
        return bool(first.strip()) and (is_short or announced_answer(first) is not None)
    return isinstance(first, int | float) and not isinstance(first, bool) and isfinite(first)


def _are_ids(values: Sequence[Any]) -> bool:
    are_scalars = all(isinstance(value, int | str) and not isinstance(value, bool) for value in values)
    return are_scalars and len(set(map(str, values))) == len(values)


def _are_chats(values: Sequence[Any]) -> bool:
    try:
        return is_chat(read_cell(values[0], "["))
    except ValueError:
        return False


FIELDS = (
    Field("messages", (ANY,), "", _are_chats),
    Field("question", QUESTIONS, NO_TEXT, _are_questions),
    Field("steps", STEPS, f"{NO_TEXT}|{REFERENCES}", _are_steps),
    Field("solution", SOLUTIONS, f"{NO_TEXT}|{REFERENCES}", _are_solutions),
    Field("solution", ("answer",), NO_TEXT, _are_worked),
    Field("gold_answer", GOLD, NO_GOLD, _are_answers),
    Field("id", IDS, "|".join(GOLD), _are_ids),
)


def propose_fields(rows: Sequence[Row], wanted: Collection[str], followed: Collection[str] = ()) -> dict[str, str]:
    """Propose a field of the file (`a.b` if nested) for each wanted field of `FIELDS`.

    Args:
        rows: rows of the file.
        wanted: our names.
        followed: fields that are read already and not proposed.
    """
    columns: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in _leaves(row):
            columns.setdefault(name, []).append(value)
    proposed: dict[str, str] = {}
    for field in FIELDS:
        if field.ours in wanted and field.ours not in proposed:
            taken = {*followed, *proposed.values()}
            fitting = [name for name, values in columns.items() if name not in taken and field.holds(values)]
            if (name := _likeliest(field, fitting)) is not None:
                proposed[field.ours] = name
    return proposed


def _leaves(row: Row, outer: str = "", depth: int = 1) -> Iterator[tuple[str, Any]]:
    """Names and values of the fields of a row that are not null, nested ones included."""
    for name, value in row.items():
        if isinstance(value, Mapping) and depth < DEEPEST:
            yield from _leaves(value, f"{outer}{name}.", depth + 1)
        elif value is not None:
            yield f"{outer}{name}", value


def _likeliest(field: Field, names: Sequence[str]) -> str | None:
    words = {name: [word.lower() for word in WORD.findall(name.rpartition(".")[2])] for name in names}

    def has_word(name: str, pattern: str) -> bool:
        return any(re.fullmatch(pattern, word) for word in words[name])

    candidates = [name for name in names if not has_word(name, field.others)]
    return next((name for pattern in field.words for name in candidates if has_word(name, pattern)), None)


def refuse(row: Row, place: str, fields: Mapping[str, str]) -> SourceError:
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
    if not given & set(GOLD_ANSWER.split("|")):
        names |= propose_fields([others], ["gold_answer"], list(proposed.values()))
    maps = " ".join(f"--map {shlex.quote(f'{ours}={field}')}" for ours, field in ({**fields, **names}).items())
    alone = "where it has questions alone, `--sample 4` samples their solutions; " if is_asked else ""
    error = (
        f"the trajectory source has columns {list_columns(row, fields)}; name its fields, such as {maps}; "
        f"{alone}it needs {NEEDED}"
    )
    if set(proposed) != {"question", "solution"} or "." in "".join(names.values()):
        return SourceError(error)
    kind = next((kind for kind, ends in LOADERS.items() if any(end in place.lower() for end in ends)), None)
    columns = ", ".join(f'"{ours}": row["{field}"]' for ours, field in names.items())
    loaded = f'"{place}"' if kind is None else f'"{kind}", data_files="{place}"'
    return SourceError(
        f"{error}; or convert it:\n"
        "    from datasets import load_dataset\n"
        f'    rows = load_dataset({loaded}, split="train")\n'
        f'    rows.map(lambda row: {{{columns}}}, remove_columns=rows.column_names).to_json("converted.jsonl")'
    )
