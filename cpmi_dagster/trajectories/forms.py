"""The table of forms that rows of a trajectory source may have.

    form_of({"prompt": "2 + 3?", "completion": "2 + 3 = 5."}).name      "question and solution"
    form_of({"a": 1})                                                   None

A new form is an entry of `ROW_FORMS` and a reader.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from cpmi_dagster.answers.gold import is_missing
from cpmi_dagster.files.text import did_you_mean
from cpmi_dagster.trajectories.choices import LISTED
from cpmi_dagster.trajectories.fields import Row, name_in
from cpmi_dagster.trajectories.readers import (
    CHAT,
    GOLD_ANSWER,
    QUESTION,
    SOLUTION,
    Trajectory,
    find_gold_answer,
    read_chat_row,
    read_math_shepherd,
    read_prm800k,
    read_prmbench,
    read_processbench,
    read_solution,
    read_steps,
    read_trl,
)
from cpmi_dagster.trajectories.steps import Splitting

SHARED = ("id", "gold_answer", "task", "split")
"""Fields that rows of every form may have."""
UNIQUE_IDS = ("uid", "qid")
"""Fields that `init` and `label` read as the `id` that no row has, if every row has its own."""
JUDGEMENTS = ("first_error", "correct")
"""Fields of a row that judges a solution; see `step_truth`."""


class Form(NamedTuple):
    """A form of rows.

    Attributes:
        name: shown in counts and on pages.
        fields: required fields; `a|b` means either name, `a.b` a nested field.
        read: reads a row, given how to split a solution that is one text.
        others: optional fields, besides `SHARED`.
        is_judged: people have judged its steps.
    """

    name: str
    fields: tuple[str, ...]
    read: Callable[[Row, Splitting], Trajectory]
    others: tuple[str, ...] = ()
    is_judged: bool = False

    @property
    def words(self) -> str:
        """The fields and the name for error messages."""
        return f"{', '.join(self.fields).replace('|', ' or ')} ({self.name})"

    @property
    def names(self) -> list[str]:
        """All names of the required fields."""
        return [name.partition(".")[0] for field in self.fields for name in field.split("|")]

    def is_of(self, row: Row) -> bool:
        """Whether a row has the required fields."""
        return all(_has(row, field) for field in self.fields)


ROW_FORMS = (
    Form("Math-Shepherd", ("input", "label|value"), read_math_shepherd, others=("label", "value")),
    Form("TRL", ("prompt", "completions", "labels|label"), read_trl),
    Form("PRM800K", ("question.problem", "label"), read_prm800k, is_judged=True),
    Form("ProcessBench", ("problem", "steps", "label"), read_processbench, is_judged=True),
    Form("PRMBench", ("modified_question", "modified_process"), read_prmbench, ("error_steps",), is_judged=True),
    Form("question and steps", (QUESTION, "steps"), read_steps, others=("labels",)),
    Form("chat", (CHAT,), read_chat_row, others=("labels",)),
    Form("question and solution", (QUESTION, SOLUTION), read_solution, others=("labels",)),
)
"""Every form; a row is of the first form whose fields it has."""

NEEDED = "; ".join(form.words for form in ROW_FORMS)
"""The fields of every form, for error messages."""

FIELD_NAMES = tuple(dict.fromkeys(name for form in ROW_FORMS for name in (*form.names, *form.others, *SHARED)))
"""Our names that `fields` may map to a field of a file."""


def check_name(name: str) -> None:
    """Check that a field of a file may be mapped to a name of ours; a ValueError lists the names that there are."""
    names = (*FIELD_NAMES, *JUDGEMENTS)
    if name not in names:
        near = did_you_mean(name, names)
        raise ValueError(f"`{name}` is no field of trajectories{near}; choose from {', '.join(names)}")


def form_of(row: Row) -> Form | None:
    """The form of a row by its fields; None if it has no form.

    Every row of a table has all columns, so nulls count as fields only if no form fits without them.
    """
    return next((form for given in (drop_nulls(row), row) for form in ROW_FORMS if form.is_of(given)), None)


def drop_nulls(row: Row) -> dict[str, Any]:
    """The fields of a row that have a value."""
    return {name: value for name, value in row.items() if not is_missing(value)}


def list_unread_fields(row: Row) -> list[str]:
    """List the fields that the form of a row does not read, such as a second name of the same field."""
    form = form_of(row)
    if form is None:
        return list(row)
    read = {
        *SHARED,
        *LISTED,
        find_gold_answer(row)[0],
        *form.others,
        *(name_in(row, field).partition(".")[0] for field in form.fields),
    }
    return [name for name in row if name not in read]


def without_answers(row: Row) -> dict[str, Any]:
    """A row without given answers and, if its form can be without them, labels; one of no form as it is."""
    form = form_of(row)
    unread = {*GOLD_ANSWER.split("|"), "negative_answers", *({"labels"} & {*form.others})} if form else set()
    return {name: value for name, value in row.items() if name not in unread}


def _has(row: Row, field: str) -> bool:
    outer, _, inner = field.partition(".")
    if inner:
        value = row.get(outer)
        return isinstance(value, Mapping) and inner in value
    return any(name in row for name in field.split("|"))
