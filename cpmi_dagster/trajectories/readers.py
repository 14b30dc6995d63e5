"""A reader for each form of rows: returns a `Trajectory`, or raises a `MalformedRow` that names the field.

    read_trl      {"prompt": "2 + 3?", "completions": ["2 + 3 = 5."], "labels": [true]}
    read_steps    {"question": "2 + 3?", "steps": ["2 + 3 = 5."], "id": "a7", "gold_answer": 5, "labels": ["+"]}
    -> Trajectory(question="2 + 3?", steps=("2 + 3 = 5.",), shepherd_labels=(True,), …)

    read_processbench   {"id": "gsm8k-7", "problem": "2 + 3?", "steps": ["2 + 3 = 5.", "So 6."], "label": 1}
    read_prm800k        {"question": {"problem": "2 + 3?", "ground_truth_answer": "5"}, "label": {"steps": [
                            {"completions": [{"text": "2 + 3 = 5.", "rating": 1}], "chosen_completion": 0},
                            {"completions": [{"text": "So 6.", "rating": -1}], "chosen_completion": null}]}}
    -> Trajectory(question="2 + 3?", steps=("2 + 3 = 5.", "So 6."), truth=(True, False), …)

People's judgements are the `truth` that labels are measured against, not labels. A row of any form may also have `id`,
`gold_answer`, `task` and `split`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cpmi_dagster.answers.extraction import final_answer, without_tags
from cpmi_dagster.answers.gold import read_gold_answer
from cpmi_dagster.errors import MalformedRow
from cpmi_dagster.files.text import encodable
from cpmi_dagster.trajectories.chats import ASSISTANT, USER, read_chat, unwrap_text
from cpmi_dagster.trajectories.choices import as_options, name_choice, with_options
from cpmi_dagster.trajectories.fields import (
    NO_ERROR,
    Row,
    given_answer,
    name_in,
    read_cell,
    read_field,
    read_filled_text,
    read_identifier,
    read_label,
    read_list,
    read_object,
    read_optional,
    read_sure_label,
    read_text,
    read_whole_number,
)
from cpmi_dagster.trajectories.steps import (
    Splitting,
    clean,
    read_marks,
    split_at_marks,
    split_marked_text,
    split_steps,
    strip_headers,
)

QUESTION, SOLUTION, CHAT = "question|problem|prompt", "solution|response|completion", "messages|conversations"
"""Names of the fields for the question, for a solution that is one text, and for messages."""
GOLD_ANSWER = "gold_answer|gold|ground_truth|reference_answer|answer"
"""Names of the gold-answer field; no form has its solution in `answer`."""
RATING_OF_ERROR = -1
SUBSET = re.compile(r"([a-z0-9]+)-\d+")


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A question and its steps, with the other fields of the row.

    Attributes:
        question: stripped.
        steps: stripped, without `Step i:` headers; empty for a question alone.
        shepherd_labels: the source's label of each step, True for `+`; None without labels.
        final_answer: stated by the last step, or None.
        source_id: id of the row.
        task: GSM8K, MATH or another; empty if unknown.
        gold_answer: given by the row.
        split: part of the source.
        truth: people's judgement of each step; None for a step, or all steps, that nobody has judged.
    """

    question: str
    steps: tuple[str, ...]
    shepherd_labels: tuple[bool, ...] | None
    final_answer: str | None
    source_id: str | None = None
    task: str = ""
    gold_answer: str | None = None
    split: str | None = None
    truth: tuple[bool | None, ...] | None = None


def read_math_shepherd(row: Row, _: Splitting) -> Trajectory:
    """Question and steps with `ки` after every step; labels in the same text, in a list, or in both."""
    text, labelled = read_field(row, "input", read_text), read_optional(row, "label", read_text)
    value = None if row.get("value") is None else read_list(row, "value", read_sure_label, least=0)
    if labelled is None and value is None:
        raise MalformedRow("the row has neither `label` nor `value`")
    marks = None if value is None else ["+" if label else "-" for label in value]
    return _trajectory(row, *split_marked_text(text, labelled or "", marks))


def read_trl(row: Row, _: Splitting) -> Trajectory:
    """TRL's stepwise supervision: one completion and one label per step."""
    question, steps = read_field(row, "prompt", _read_question), read_list(row, "completions", read_text)
    labels = read_list(row, "labels|label", read_label)
    if len(steps) != len(labels):
        raise MalformedRow(f"{len(steps)} `completions` but {len(labels)} `labels`")
    return _trajectory(row, question, strip_headers(steps), labels)


def read_prm800k(row: Row, _: Splitting) -> Trajectory:
    """The annotator's path through sampled steps, with the bad one where all are bad; neutral steps are right."""
    asked, judged = _with_paths(row, "question"), _with_paths(row, "label")
    path: list[tuple[str, bool]] = []
    for step in read_list(judged, "label.steps", read_object, least=0):
        if (taken := _take(step)) is None:
            break
        path.append(taken)
    if not path:
        raise MalformedRow("no step of it was chosen, written or rated -1")
    question, truth = read_field(asked, "question.problem", _read_step), [is_right for _, is_right in path]
    answer = read_optional(asked, "question.ground_truth_answer", read_gold_answer)
    given = read_optional(row, "gold_answer", read_gold_answer)
    return _trajectory({**row, "gold_answer": given or answer}, question, [text for text, _ in path], truth=truth)


def _take(step: Row) -> tuple[str, bool] | None:
    """Text and truth of the chosen or written completion, else of the first bad one; None without any."""
    sampled = [] if step.get("completions") is None else read_list(step, "completions", read_object, least=0)
    chosen = read_optional(step, "chosen_completion", read_whole_number)
    bad = [each for each in sampled if read_optional(each, "rating", read_whole_number) == RATING_OF_ERROR]
    if chosen is not None and 0 <= chosen < len(sampled):
        said, is_right = sampled[chosen], sampled[chosen] not in bad
    elif step.get("human_completion") is not None:
        said, is_right = read_field(step, "human_completion", read_object), True
    elif bad:
        said, is_right = bad[0], False
    else:
        return None
    return read_field(said, "text", _read_step), is_right


def read_processbench(row: Row, _: Splitting) -> Trajectory:
    """A solution with its first wrong step, from 0, or -1; later steps are not judged."""
    question, steps = read_field(row, "problem", _read_question), read_list(row, "steps", _read_published_step)
    first_error = read_field(row, "label", read_whole_number)
    if first_error >= len(steps):
        raise MalformedRow(f"`label` is step {first_error} (from 0) of {len(steps)} steps")
    truth = judge_up_to(first_error, len(steps))
    subset = SUBSET.fullmatch(str(row.get("id")))
    task = subset[1].upper() if subset else ""
    return _trajectory({"task": task, **row}, question, steps, truth=truth)


def judge_up_to(first_error: int, steps: int) -> list[bool | None]:
    """Whether each step is right by the first wrong one, from 0, or -1; those after it are not judged."""
    judged: list[bool | None] = [True] * steps
    return judged if first_error == NO_ERROR else [*judged[:first_error], False, *[None] * steps][:steps]


def first_wrong(judged: Sequence[bool | None]) -> int:
    """The first step that is judged wrong, from 0; -1 if none is."""
    return judged.index(False) if False in judged else NO_ERROR


def read_prmbench(row: Row, _: Splitting) -> Trajectory:
    """A changed solution and the steps that are wrong in it, from 1."""
    question = read_field(row, "modified_question", _read_question)
    steps = read_list(row, "modified_process", _read_published_step)
    wrong = None
    if row.get("error_steps") is not None:
        wrong = read_list(row, "error_steps", read_whole_number, least=0)
    truth = None if wrong is None else [step not in wrong for step in range(1, len(steps) + 1)]
    return _trajectory(row, question, steps, truth=truth)


def read_steps(row: Row, _: Splitting) -> Trajectory:
    """A question and its steps; other fields are optional."""
    question = read_field(row, QUESTION, _read_question)
    of_benchmark = row.get("benchmark") is not None  # `sources.benchmark_problems`
    return _with_labels(row, question, read_list(row, "steps", _read_published_step if of_benchmark else _read_step))


def read_solution(row: Row, splitting: Splitting) -> Trajectory:
    """A question and its solution, which is split into steps."""
    question, name = read_field(row, QUESTION, _read_question), name_in(row, SOLUTION)
    listed = _read_list_of_texts(row[name])
    if isinstance(listed, list | tuple) and len(listed) > 1 and all(isinstance(step, str) for step in listed):
        return _with_labels(row, question, read_list(row, name, _read_step))
    solution = read_field(row, SOLUTION, lambda value: read_text(unwrap_text(value, ASSISTANT)))
    return _with_labels(row, question, _split(solution, name, splitting))


def _read_list_of_texts(value: Any) -> Any:
    """A list, also as text in a CSV cell; a text that only begins like a list as it is."""
    try:
        return read_cell(value, "[")
    except ValueError:
        return value


def read_chat_row(row: Row, splitting: Splitting) -> Trajectory:
    """A chat of one question and one solution; system messages are left out."""
    question, solution = read_field(row, CHAT, _read_messages)
    return _with_labels(row, question, _split(solution, name_in(row, CHAT), splitting))


def read_question_row(row: Row, _: Splitting) -> Trajectory:
    """A question without steps; the gold answer is given, or read as in reference problems."""
    question = read_field(row, QUESTION, _read_text_of_user)
    if row.get("gold_answer") is None:
        row = {**row, "gold_answer": given_answer(row.get("solution"), row.get("answer"))}
    return _trajectory(row, question, ())


def _trajectory(
    row: Row,
    question: str,
    steps: Sequence[str],
    labels: Sequence[bool] | None = None,
    truth: Sequence[bool | None] | None = None,
) -> Trajectory:
    """A trajectory with the optional fields that rows of every form may have.

    Raises:
        MalformedRow: a field or mark cannot be read, or verdicts behind the steps are not the labels of the row.
    """
    texts, marked = read_marks(steps)
    if marked is not None and labels is not None and marked != tuple(labels):
        raise MalformedRow("the verdicts behind the steps and the labels of the row differ; remove one of them")
    labels = marked if labels is None else labels
    stated = final_answer(texts)
    question = with_options(row, question)
    field, gold = find_gold_answer(row)
    gold = name_choice(row, gold, row.get(field), stated)
    gold, stated = as_options(row, question, gold, stated)
    return Trajectory(
        question=question,
        steps=tuple(clean(without_tags(text)) or text for text in texts),
        shepherd_labels=None if labels is None else tuple(labels),
        final_answer=stated,
        source_id=read_optional(row, "id", read_identifier),
        task=read_optional(row, "task", read_identifier) or "",
        gold_answer=gold,
        split=read_optional(row, "split", read_identifier) or None,
        truth=None if truth is None else tuple(truth),
    )


def find_gold_answer(row: Row) -> tuple[str, str | None]:
    """The field of the first gold answer that can be read, and the answer; only the field `gold_answer` must be."""
    for name in GOLD_ANSWER.split("|"):
        try:
            if (gold := read_optional(row, name, read_gold_answer)) is not None:
                return name, gold
        except MalformedRow:
            if name == "gold_answer":
                raise
    return name_in(row, GOLD_ANSWER), None


def _with_labels(row: Row, question: str, steps: Sequence[str]) -> Trajectory:
    """A trajectory with the labels of its row, if any."""
    labels = None if row.get("labels") is None else read_list(row, "labels", read_label, least=0)
    if labels is not None and len(labels) != len(steps):
        raise MalformedRow(f"{len(steps)} steps but {len(labels)} `labels`")
    return _trajectory(row, question, steps, labels)


def _with_paths(row: Row, name: str) -> dict[str, Any]:
    """The fields of a nested object by their paths."""
    return {f"{name}.{inner}": value for inner, value in read_field(row, name, read_object).items()}


def _split(solution: str, name: str, splitting: Splitting) -> list[str]:
    return read_list({name: split_at_marks(solution) or split_steps(solution, splitting)}, name, read_filled_text)


def _read_step(value: Any) -> str:
    return clean(read_filled_text(value))


def _read_published_step(value: Any) -> str:
    """A step of a benchmark, which may be empty."""
    return clean(read_text(value))


def _read_text_of_user(value: Any) -> str:
    return read_filled_text(unwrap_text(value, USER))


def _read_question(value: Any) -> str:
    return clean(_read_text_of_user(value))


def _read_messages(value: Any) -> list[str]:
    """Question and solution."""
    texts = read_chat(read_cell(value, "["))
    for role, text in zip((USER, ASSISTANT), texts, strict=True):
        if not clean(text):
            raise ValueError(f"the message of the {role} is empty")
    return [clean(encodable(text)) for text in texts]
