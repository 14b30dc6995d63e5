"""Source rows of every form are read, numbered and dealt to shards; what cannot be read is kept with its defect."""

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.errors import SourceError
from cpmi_dagster.trajectories.forms import ROW_FORMS, form_of, list_unread_fields
from cpmi_dagster.trajectories.question_key import question_id
from cpmi_dagster.trajectories.readers import Trajectory
from cpmi_dagster.trajectories.rows import (
    Defect,
    Row,
    RowFormat,
    Unreadable,
    number_rows,
    read_row,
    separate_defects,
    shard_key,
)
from cpmi_dagster.trajectories.steps import clean

ROW = {"input": "1 + 1? Step 1: 2 ки", "label": "1 + 1? Step 1: 2 +", "task": "GSM8K"}
TRL = {"prompt": "1 + 1?", "completions": ["It is 2.", "Step 2: So 3."], "labels": [True, False]}
QUESTION = {"question": " 1 + 1? ", "steps": [" It is 2.\n", "Step 2: The answer is: 2"]}
CHAT = {"messages": [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "I add.\n\nSo 2."}]}
PROCESSBENCH = {"id": "gsm8k-7", "problem": " 1 + 1? ", "steps": ["It is 2.", "So 3."], "label": 1}


def read(row: Row, reading: RowFormat = RowFormat()) -> Trajectory:
    found = read_row(row, reading)
    assert isinstance(found, Trajectory), found
    return found


def defect_of(row: Row, reading: RowFormat = RowFormat()) -> str:
    found = read_row(row, reading)
    assert isinstance(found, Defect), found
    return found.reason


def prm800k_step(*completions: tuple[str, int | None], chosen: int | None = None, written: str | None = None) -> dict:
    return {
        "completions": [{"text": text, "rating": rating} for text, rating in completions],
        "chosen_completion": chosen,
        "human_completion": written and {"text": written, "rating": None, "source": "human"},
    }


def prm800k(*steps: dict) -> dict:
    return {"question": {"problem": "1 + 1?", "ground_truth_answer": "2"}, "label": {"steps": list(steps)}}


EXAMPLES = {
    "Math-Shepherd": ROW,
    "TRL": TRL,
    "PRM800K": prm800k(prm800k_step(("It is 2.", 1), chosen=0)),
    "ProcessBench": PROCESSBENCH,
    "PRMBench": {"modified_question": "1 + 1?", "modified_process": ["It is 3."], "error_steps": [1]},
    "question and steps": QUESTION,
    "chat": CHAT,
    "question and solution": {"problem": "1 + 1?", "solution": "I add.\n\nSo 2."},
}


def test_every_form_reads_its_example_and_its_id_and_the_page_lists_it():
    page = (Path(__file__).parents[2] / "docs" / "own_trajectories.md").read_text(encoding="utf-8")
    for form in ROW_FORMS:
        assert form_of(EXAMPLES[form.name]) is form
        assert read({**EXAMPLES[form.name], "id": "a7"}).source_id == "a7"
        assert list_unread_fields(EXAMPLES[form.name]) == []
        fields = ", ".join(" or ".join(f"`{name}`" for name in field.split("|")) for field in form.fields)
        assert f"| {form.name} | {fields} |" in page


SOLUTION, STEPS = "I add.\n\nSo 2.", ("I add.", "So 2.")
ASKED = {"role": "user", "content": "1 + 1?"}


def turns(*said: tuple[str, object]) -> list[dict]:
    return [{"role": name, "content": text} for name, text in said]


@pytest.mark.parametrize(
    "messages",
    [
        turns(("user", "1 + 1?"), ("assistant", SOLUTION)),
        turns(("developer", "Be good."), ("user", "1 + 1?"), ("model", [{"type": "text", "text": SOLUTION}])),
        [{"from": "Human", "value": "1 + 1?"}, {"from": "ChatGPT", "value": SOLUTION}],
        [ASKED, {"role": "assistant", "reasoning_content": "I add.", "content": "So 2."}],
        [ASKED, {"role": "assistant", "reasoning": SOLUTION, "content": None}],
        [ASKED, {"role": "assistant", "content": f"<think>{SOLUTION}", "reasoning_content": SOLUTION}],
    ],
)
def test_a_chat_is_read_in_every_shape(messages):
    chat = read({"messages": messages})
    assert (chat.question, tuple(step.removeprefix("<think>") for step in chat.steps)) == ("1 + 1?", STEPS)
    for written in (messages, repr(messages), json.dumps(messages)):
        assert read({"conversations": written}) == chat


def test_a_question_or_solution_may_be_messages_of_one_turn_or_a_list_of_one_text():
    asked, said = turns(("system", "Be good."), ("user", "1 + 1?")), turns(("assistant", SOLUTION))
    for row in (
        {"prompt": asked, "completion": said},
        {"prompt": repr(asked), "response": SOLUTION},
        {"question": ["1 + 1?"], "solution": [SOLUTION]},
        {"question": repr(["1 + 1?"]), "steps": STEPS},
    ):
        assert (read(row).question, read(row).steps) == ("1 + 1?", STEPS)
    alone = read_row({"prompt": asked}, RowFormat(of_questions=True))
    assert isinstance(alone, Trajectory) and alone.question == "1 + 1?"
    assert read({"question": "[1, 2] has which sum?", "steps": STEPS}).question == "[1, 2] has which sum?"


def test_a_solution_that_is_one_text_is_split_into_steps():
    for row in (
        CHAT,
        EXAMPLES["question and solution"],
        {"question": "1 + 1?", "steps": None, "response": "I add.\n\nSo 2."},
    ):
        assert (read(row).question, read(row).steps) == ("1 + 1?", ("I add.", "So 2."))
    assert read({"problem": "1 + 1?", "solution": "I add.\n\n2.\nSo 2."}, RowFormat(steps="line")).steps[1] == "2."


@given(st.lists(st.text(min_size=1).filter(clean), min_size=1, max_size=3), st.sampled_from([json.dumps, repr]))
def test_a_list_that_a_cell_holds_as_text_is_the_list(steps, written):
    row = {"question": "1 + 1?", "labels": [True] * len(steps)}
    cells = {"question": "1 + 1?", "labels": written(row["labels"]), "steps": written(steps)}
    assert read(cells) == read({**row, "steps": steps})


def test_fields_have_the_names_and_paths_that_the_profile_gives_them():
    swapped = RowFormat({"question": "prompt", "prompt": "question"}).named({"prompt": 1, "question": 2, "a": 4})
    assert swapped == {"a": 4, "question": 1, "prompt": 2}
    nested = {"a": {"b": {"c": "1 + 1?"}, "b.d": "So 2."}, "a.e": "x", "m": '{"gold": 2}', "n": None}
    fields = {"question": "a.b.c", "solution": "a.b.d", "id": "a.e", "gold_answer": "m.gold", "task": "n.task"}
    row = read(RowFormat(fields).named(nested))
    found = (row.question, row.steps, row.source_id, row.gold_answer, row.task)
    assert found == ("1 + 1?", ("So 2.",), "x", "2", "")
    lacking = RowFormat({"question": "a.b.x"}).named(nested)
    assert isinstance(lacking, Unreadable)
    assert "it has no field `a.b.x` to read as `question`; `a.b` has c" in lacking.reason


TWO_STEPS = {"input": "1 + 1? Step 1: 2 ки Step 2: 3 ки"}


@pytest.mark.parametrize("value", [["+", "-"], [True, False], [1, 0], "[1, 0]"])
def test_labels_are_signs_truths_or_whole_numbers(value):
    assert read({**TWO_STEPS, "value": value}).shepherd_labels == (True, False)
    assert read({"prompt": "1 + 1?", "completions": TRL["completions"], "label": value}) == read(TRL)


@pytest.mark.parametrize("value", [[1.0, 1.0], [0.75, 0.125], [1, -1], [1, None], [1, float("nan")], [1, 2]])
def test_what_is_no_label_is_never_read_as_one(value):
    for row in ({**TWO_STEPS, "value": value}, {**TRL, "labels": [*value[:-1], 0.5]}):
        assert "a label is true, false, 1, 0, `+` or `-`; give soft ones as `sources.step_labels`" in defect_of(row)


@pytest.mark.parametrize(("label", "truth"), [("1.0", (True, False)), (-1.0, (True, True))])
def test_a_first_error_is_a_whole_number_however_a_table_writes_it(label, truth):
    found = read({**PROCESSBENCH, "label": label})
    assert (found.truth, found.task, found.shepherd_labels, found.gold_answer) == (truth, "GSM8K", None, None)


@pytest.mark.parametrize("kind", [int, str, float])
def test_prm800k_rows_follow_the_labelers_path_to_the_first_error(kind):
    row = prm800k(
        prm800k_step(("bad", -1), ("good", 1), chosen=kind(1)),
        prm800k_step(("bad", -1), ("neutral", 0), written="by hand"),
        prm800k_step(("neutral", 0), ("bad", kind(-1)), chosen=kind(1)),
        prm800k_step(("fine", 1), ("wrong", kind(-1))),
        prm800k_step(("unrated", None)),
    )
    trajectory = read(row)
    assert (trajectory.question, trajectory.steps) == ("1 + 1?", ("good", "by hand", "bad", "wrong"))
    # what people say of the steps is a truth, and no label of the source
    assert (trajectory.gold_answer, trajectory.shepherd_labels) == ("2", None)
    assert trajectory.truth == (True, True, False, False)


@pytest.mark.parametrize(
    ("row", "defect"),
    [
        ({"input": "x"}, "the row has columns input; it needs input, label or value (Math-Shepherd)"),
        ({}, "the row has no columns; it needs input, label or value (Math-Shepherd)"),
        ({**TRL, "labels": [True]}, "2 `completions` but 1 `labels`"),
        (prm800k(prm800k_step(("unrated", None))), "no step of it was chosen, written or rated -1"),
        (Unreadable("{", "not JSON", "rows.jsonl, line 2"), "not JSON"),
        ({"messages": turns(("human", "a"), ("gpt", "b"), ("tool", "c"))}, "(or gpt), and has human, gpt, tool; give"),
        ({"messages": [ASKED, {"role": "assistant", "content": ""}]}, "the message of the assistant is empty"),
        ({**QUESTION, "question": "\u200b "}, "`question`: it is empty"),
        ({**QUESTION, "steps": "['It is 2.' 'So 2.']"}, "`steps`: a list without commas, as numpy writes it"),
        ({**QUESTION, "steps": ["It is 2.", " "]}, "`steps.1`: it is empty"),
        *(({**PROCESSBENCH, "label": label}, "`label`") for label in (2, True, -2.0, 1.5, "a")),
    ],
)
def test_a_row_that_cannot_be_read_is_rejected_with_its_defect(row, defect):
    rows, rejected = separate_defects(number_rows([ROW, row], first=0, shards=1))
    assert rows["row_number"].to_list() == [0]
    assert rejected.select("row_number", "stage").rows() == [(1, "read")]
    assert defect in rejected["reason"][0]


def test_a_file_of_another_kind_gets_the_maps_that_its_fields_are_fit_for():
    row = {
        "meta": {"question": "How many are 3 and 4?"},
        "gen": {"output": "We add the two.\nThe answer is 7"},
        "target": "7",
    }
    maps = r"such as --map question=meta\.question --map solution=gen\.output --map gold_answer=target;"
    with pytest.raises(SourceError, match=maps):
        number_rows([row], first=0, shards=1)


def test_rows_of_question_and_steps_are_taken_as_they_are():
    row = {**QUESTION, "id": 7, "gold_answer": 2, "labels": [1, "-"], "task": "SUMS", "split": "dev"}
    rows = number_rows([row, {**QUESTION, "gold_answer": " "}], first=0, shards=1)
    columns = ["question", "steps", "final_answer", "task", "labels", "source_id", "gold_answer", "split"]
    read_as = ("1 + 1?", ["It is 2.", "Step 2: The answer is: 2"], "2")
    assert rows.select(columns).rows() == [
        (*read_as, "SUMS", [True, False], "7", "2", "dev"),
        (*read_as, "", None, None, None, None),
    ]


def test_an_id_that_an_earlier_row_has_is_rejected_also_in_another_batch_and_shard():
    batches = [
        [{**QUESTION, "id": "a", "steps": []}, {**QUESTION, "id": "a"}],
        [{**QUESTION, "question": f"{n} + 1?", "id": name} for n, name in enumerate(["b", "a", 7, "7", None, None])],
    ]
    ids: dict[str, int] = {}
    rows = pl.concat([number_rows(batch, first, 4, ids) for batch, first in zip(batches, (0, 2), strict=True)])
    reasons = {number: defect for number, defect in rows.select("row_number", "defect").iter_rows() if defect}
    assert list(reasons) == [0, 3, 5]
    assert reasons[3] == 'row 2 has the id "a" already; give every row its own'
    assert reasons[5] == 'row 5 has the id "7" already; give every row its own'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = {name: JSON for example in EXAMPLES.values() for name in (*example, "value", "gold_answer", "split")}


@given(st.lists(JSON | st.fixed_dictionaries({}, optional=FIELDS), max_size=5), st.integers(1, 9))
def test_whatever_a_row_holds_it_is_parsed_or_rejected_in_the_shard_of_its_question(values, shards):
    rows = [ROW, *(value if isinstance(value, dict) else Unreadable(repr(value), "no object", "") for value in values)]
    numbered = number_rows(rows, first=0, shards=shards)
    assert set(numbered["shard"]) <= {f"{shard:03d}" for shard in range(shards)}
    sound, rejected = separate_defects(numbered)
    assert sorted([*sound["row_number"], *rejected["row_number"]]) == list(range(len(rows)))
    assert [shard_key(question_id(text), shards) for text in sound["question"]] == sound["shard"].to_list()


@pytest.mark.parametrize(
    ("steps", "read_as", "labels"),
    [
        (["5 * 8 is asked.<extra_0>", "So 40. ки"], ("5 * 8 is asked.", "So 40."), None),
        (["яблоки", "x = 3 -"], ("яблоки", "x = 3 -"), None),
        (["2 + 2 = 4. +", "So 5. -"], ("2 + 2 = 4.", "So 5."), (True, False)),
        (["2 + 2 = 4. ки +", "So 5. ки -"], ("2 + 2 = 4.", "So 5."), (True, False)),
    ],
)
def test_marks_of_other_tools_end_steps_or_are_labels_and_are_no_text_of_a_step(steps, read_as, labels):
    found = read({"question": "?", "steps": steps})
    assert (found.steps, found.shepherd_labels) == (read_as, labels)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"steps": ["a <extra_0> b"]}, "step 0 (from 0) holds `<extra_0>`, which ends a step"),
        ({"steps": ["a +", "b -", "c"]}, "all steps but step 2 (from 0) end in `+` or `-`"),
        (
            {"steps": ["a +", "b -"], "labels": [True, True]},
            "the verdicts behind the steps and the labels of the row differ",
        ),
        (
            {"steps": ["a"], "choices": ["x", "y"], "answer": 2},
            "the gold answer 2 is not the number of a choice, 0 to 1",
        ),
        ({"steps": ["a"], "choices": ["2", "1"], "answer": "1"}, None),
        (
            {"steps": ["a"], "choices": ["1", "7"], "answer": "1"},
            "the gold answer `1` may be a choice or the number of one",
        ),
    ],
)
def test_marks_and_choices_that_may_mean_two_things_are_refused(row, words):
    if words:
        assert words in defect_of({"question": "?", **row})
    else:
        assert read({"question": "?", **row}).gold_answer == "1"


@pytest.mark.parametrize(
    ("fields", "final", "gold"),
    [
        ({"choices": ["2", "3", "8"], "answer": 2}, "The answer is: C", "C"),
        ({"options": ["2", "3", "8"], "answer": "1.0"}, "The answer is (C).", "B"),
        ({"A": "2", "B": "3", "C": "8", "answer": 3}, "The answer is: C", "C"),
        ({"choices": ["2", "3", "8"], "answer": 2}, "So it is 8. The answer is: 8", "8"),
        ({"choices": ["2", "3", "8"], "answer": "B"}, "The answer is: C", "B"),
        ({"choices": ["9", "12", "8"], "answer": 12}, "The answer is: 12", "12"),
    ],
)
def test_a_gold_answer_that_is_the_number_of_a_choice_is_its_letter_or_what_the_solution_states(fields, final, gold):
    assert read({"question": "How many?", "steps": ["I add.", final], **fields}).gold_answer == gold


def test_the_solution_and_not_the_reference_is_proposed():
    row = {
        "instruction": "How many are left of them?",
        "golden_solution": ["So 19.", "It is."],
        "solutions": ["a b", "c"],
    }
    with pytest.raises(SourceError, match=r"such as --map question=instruction --map steps=solutions;"):
        number_rows([row], 0, 1)
