"""The forms a row of a trajectory source may have: one table, which `cpmi init`, the reader and the pages follow.

    form_of({"prompt": "2 + 3?", "completion": "2 + 3 = 5."}).name      "question and solution"
    form_of({"a": 1})                                                   None

A new form is an entry of `FORMS` and, if no other form's will do, a model of its rows with a method `raw`. A model with
a method `truth` reads what people have judged.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from cpmi_dagster.errors import SourceError
from cpmi_dagster.files.text import cut
from cpmi_dagster.trajectories.judged_rows import Prm800kRow, ProcessBenchRow
from cpmi_dagster.trajectories.step_rows import QUESTION, MathShepherdRow, QuestionRow, TrlRow
from cpmi_dagster.trajectories.text_rows import ChatRow, SolutionRow

NAMES_CHARACTERS, SHOWN_NAME = 200, 40
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
        ("prompt", "completions", "labels"),
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
        ("messages",),
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
        (_QUESTION, "solution|response|completion"),
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


def form_of(row: Mapping[str, Any]) -> Form | None:
    """The form of a row, by its fields; None for none of them.

    Every row of a table has all its columns, so those without a value count only where no form has all of its own.
    """
    filled = {name: value for name, value in row.items() if value is not None}
    forms = (form for given in (filled, row) for form in FORMS if all(_has(given, field) for field in form.fields))
    return next(forms, None)


def _has(row: Mapping[str, Any], field: str) -> bool:
    outer, _, inner = field.partition(".")
    if inner:
        value = row.get(outer)
        return isinstance(value, Mapping) and inner in value
    return any(name in row for name in field.split("|"))


def unread(row: Mapping[str, Any]) -> list[str]:
    """The fields of a row that its form does not read."""
    form = form_of(row)
    read = form.names | set(form.model.model_fields) if form else set()
    return [name for name in row if name not in read]


def refused(row: Mapping[str, Any], place: str) -> SourceError:
    """The error of a source whose first row is in none of the forms, with what reads it and what converts it.

    Args:
        row: the first one.
        place: file or hub id, for the lines that convert it.
    """
    texts = [name for name, value in row.items() if isinstance(value, str) and len(name) <= SHOWN_NAME]
    question = texts[0] if texts else "QUESTION"
    solution = max(texts[1:], key=lambda name: len(row[name]), default="SOLUTION")
    kind = next((kind for kind, ends in LOADERS.items() if any(end in place.lower() for end in ends)), None)
    loaded = f'"{place}"' if kind is None else f'"{kind}", data_files="{place}"'
    names = {"question": question, "solution": solution}
    maps = " ".join(f"--map {name}={field}" for name, field in names.items() if field != name)
    alone = "where it has questions alone, `--sample 4` samples their solutions; " if set(QUESTION) & set(row) else ""
    return SourceError(
        f"the trajectory source has columns {columns_of(row)}; it needs {NEEDED}; {alone}name its fields, such as "
        f"{maps}, or convert it:\n"
        "    from datasets import load_dataset\n"
        f'    rows = load_dataset({loaded}, split="train")\n'
        f'    rows.map(lambda row: {{"question": row["{question}"], "solution": row["{solution}"]}}, '
        'remove_columns=rows.column_names).to_json("converted.jsonl")'
    )


LOADERS = {"json": (".json",), "csv": (".csv",), "parquet": (".parquet",), "arrow": (".arrow",)}
"""What `datasets.load_dataset` calls the kinds of local files, and how their names end."""


def renamed(row: Mapping[str, Any], fields: Mapping[str, str]) -> Mapping[str, Any]:
    """A row with other names of its fields.

    Args:
        fields: by our name, the file's; `{"gold_answer": "answer"}`.

    Raises:
        SourceError: the row has no such field.
    """
    for name, field in fields.items():
        if field not in row:
            wanted = cut(field, NAMES_CHARACTERS)
            raise SourceError(f"it has no field `{wanted}` to read as `{name}`; it has {columns_of(row)}")
    kept = {name: value for name, value in row.items() if name not in fields.values()}
    return {**kept, **{name: row[field] for name, field in fields.items()}}


def columns_of(row: Mapping[str, Any]) -> str:
    """The names of a row's fields, cut where they are many."""
    return cut(", ".join(map(str, row)), NAMES_CHARACTERS)
