"""The forms a row of a trajectory source may have: one table, which `cpmi init`, the reader and the pages follow.

    form_of({"prompt": "2 + 3?", "completion": "2 + 3 = 5."}).name      "question and solution"
    form_of({"a": 1})                                                   None

A new form is an entry of `FORMS` and, if no other form's will do, a model of its rows with a method `raw`. A model with
a method `truth` reads what people have judged.
"""

import re
import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from cpmi_dagster.errors import SourceError
from cpmi_dagster.files.text import cut
from cpmi_dagster.trajectories.judged_rows import Prm800kRow, ProcessBenchRow
from cpmi_dagster.trajectories.proposals import proposed_fields
from cpmi_dagster.trajectories.row_fields import from_cell
from cpmi_dagster.trajectories.step_rows import QUESTION, MathShepherdRow, QuestionRow, TrlRow
from cpmi_dagster.trajectories.text_rows import CHAT, SOLUTION, ChatRow, SolutionRow

NAMES_CHARACTERS = 200
FIELD_IN_REASON = re.compile(r"(?<=`)[^`.]+(?=[`.])")
RowModel = type[MathShepherdRow | TrlRow | Prm800kRow | ProcessBenchRow | QuestionRow]


class Form(NamedTuple):
    """A form of rows.

    Attributes:
        name: as counts and pages call it.
        fields: a row that has all of them is of this form; `a|b` is either, `a.b` a field within a field.
        model: reads the row.
        example: a whole row.
    """

    name: str
    fields: tuple[str, ...]
    model: RowModel
    example: Mapping[str, Any]

    @property
    def words(self) -> str:
        """The fields and the name, as errors list them."""
        return f"{', '.join(self.fields).replace('|', ' or ')} ({self.name})"

    @property
    def names(self) -> set[str]:
        """The fields by which rows are of this form, under each name that they may have."""
        return {name.partition(".")[0] for field in self.fields for name in field.split("|")}

    def is_of(self, row: Mapping[str, Any]) -> bool:
        """Whether a row has its fields."""
        return all(_has(row, field) for field in self.fields)

    @property
    def is_judged(self) -> bool:
        """Whether people have judged its steps."""
        return issubclass(self.model, Prm800kRow | ProcessBenchRow)


_QUESTION = "|".join(QUESTION)
FORMS = (
    Form(
        "Math-Shepherd",
        ("input", "label|value"),
        MathShepherdRow,
        {"input": "2 + 3? Step 1: 2 + 3 = 5. ки", "label": "2 + 3? Step 1: 2 + 3 = 5. +", "task": "GSM8K"},
    ),
    Form(
        "TRL",
        ("prompt", "completions", "labels|label"),
        TrlRow,
        {"prompt": "2 + 3?", "completions": ["2 + 3 = 5.", "So 6."], "labels": [True, False]},
    ),
    Form(
        "PRM800K",
        ("question.problem", "label"),
        Prm800kRow,
        {
            "question": {"problem": "2 + 3?", "ground_truth_answer": "5"},
            "label": {"steps": [{"completions": [{"text": "2 + 3 = 5.", "rating": 1}], "chosen_completion": 0}]},
        },
    ),
    Form(
        "ProcessBench",
        ("problem", "steps", "label"),
        ProcessBenchRow,
        {"id": "gsm8k-7", "problem": "2 + 3?", "steps": ["2 + 3 = 5.", "So 6."], "label": 1},
    ),
    Form(
        "question and steps",
        (_QUESTION, "steps"),
        QuestionRow,
        {"id": "a7", "question": "2 + 3?", "steps": ["2 + 3 = 5."], "gold_answer": 5},
    ),
    Form(
        "chat",
        ("|".join(CHAT),),
        ChatRow,
        {
            "messages": [
                {"role": "user", "content": "2 + 3?"},
                {"role": "assistant", "content": "I add.\n\n2 + 3 = 5."},
            ],
            "gold_answer": 5,
        },
    ),
    Form(
        "question and solution",
        (_QUESTION, "|".join(SOLUTION)),
        SolutionRow,
        {"question": "2 + 3?", "solution": "I add.\n\n2 + 3 = 5.", "gold_answer": 5},
    ),
)
"""Every form; a row is of the first whose fields it has."""

NEEDED = "; ".join(form.words for form in FORMS)
"""What is said of a row in none of the forms."""

FIELD_NAMES = tuple(
    dict.fromkeys(
        name.partition(".")[0]
        for form in FORMS
        for field in (*form.fields, *form.model.model_fields)
        for name in field.split("|")
    )
)
"""What a field of a file may be called by `fields`."""

ALSO_OF_OTHERS = ("input",)
"""Names of forms that others give to questions."""


def form_of(row: Mapping[str, Any]) -> Form | None:
    """The form of a row, by its fields; None for none of them.

    Every row of a table has all its columns, so those without a value count only where no form has all of its own.
    """
    return next((form for given in (filled(row), row) for form in FORMS if form.is_of(given)), None)


def filled(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a row that have a value."""
    return {name: value for name, value in row.items() if value is not None}


def _has(row: Mapping[str, Any], field: str) -> bool:
    outer, _, inner = field.partition(".")
    if inner:
        value = row.get(outer)
        return isinstance(value, Mapping) and inner in value
    return any(name in row for name in field.split("|"))


def unread(row: Mapping[str, Any]) -> list[str]:
    """The fields of a row that its form does not read, such as the second of two names of one."""
    form, given = form_of(row), filled(row)
    if form is None:
        return list(row)
    read = set(form.model.model_fields)
    for field in form.fields:
        either = [name.partition(".")[0] for name in field.split("|")]
        read |= set(either) - set([name for name in either if name in given][1:])
    return [name for name in row if name not in read]


def refused(row: Mapping[str, Any], place: str, fields: Mapping[str, str]) -> SourceError:
    """The error of a source whose first row is in none of the forms, with what reads it and what converts it.

    Args:
        row: the first one, by our names.
        place: file or hub id, for the lines that convert it.
        fields: as for `renamed`.
    """
    given = set(filled(row))
    is_asked, is_solved = bool(given & set(QUESTION)), bool(given & {*SOLUTION, "steps"})
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


def renamed(row: Mapping[str, Any], fields: Mapping[str, str]) -> Mapping[str, Any]:
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
    value = from_cell(value, "{") if outer else value
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
