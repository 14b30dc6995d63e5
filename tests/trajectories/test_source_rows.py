"""Source rows of every form are read, numbered and dealt to shards; what cannot be read is kept with its defect."""

import json
from itertools import cycle
from pathlib import Path
from textwrap import dedent

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.errors import SourceError
from cpmi_dagster.trajectories.chats import ASSISTANT, USER
from cpmi_dagster.trajectories.forms import FORMS, form_of, unread
from cpmi_dagster.trajectories.identifiers import shard_key
from cpmi_dagster.trajectories.math_shepherd import Trajectory
from cpmi_dagster.trajectories.question_key import question_id
from cpmi_dagster.trajectories.rows import Defect, Reading, Row, Unreadable, number_rows, read_row, separate_defects

ROW = {"input": "1 + 1? Step 1: 2 ки", "label": "1 + 1? Step 1: 2 +", "task": "GSM8K"}
TRL = {"prompt": "1 + 1?", "completions": ["It is 2.", "Step 2: So 3."], "labels": [True, False]}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
QUESTION = {"question": " 1 + 1? ", "steps": [" It is 2.\n", "Step 2: The answer is: 2"]}
CHAT = {"messages": [{"role": USER, "content": "1 + 1?"}, {"role": ASSISTANT, "content": "I add.\n\nSo 2."}]}
PROCESSBENCH = {"id": "gsm8k-7", "generator": "m", "problem": " 1 + 1? ", "steps": ["It is 2.", "So 3."], "label": 1}
FIELDS = (
    "input", "label", "task", "value", "prompt", "completions", "labels", "question", "steps", "id", "gold_answer",
    "split", "problem", "messages", "solution", "label",
)  # fmt: skip


def read(row: Row, reading: Reading = Reading()) -> Trajectory:
    found = read_row(row, reading)
    assert isinstance(found, Trajectory), found
    return found


def defect_of(row: Row, reading: Reading = Reading()) -> str:
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


def chat(*contents: object) -> dict:
    return {"messages": [{"role": role, "content": text} for role, text in zip(cycle((USER, ASSISTANT)), contents)]}


EXAMPLES = {
    "Math-Shepherd": ROW,
    "TRL": TRL,
    "PRM800K": prm800k(prm800k_step(("It is 2.", 1), chosen=0)),
    "ProcessBench": {name: value for name, value in PROCESSBENCH.items() if name != "generator"},
    "question and steps": QUESTION,
    "chat": CHAT,
    "question and solution": {"problem": "1 + 1?", "solution": "I add.\n\nSo 2."},
}


def test_every_form_reads_its_example_and_no_other_form_takes_it():
    for form in FORMS:
        assert form_of(EXAMPLES[form.name]) is form
        assert read(EXAMPLES[form.name]).steps
        assert unread(EXAMPLES[form.name]) == []


def test_the_page_lists_every_form():
    page = (Path(__file__).parents[2] / "docs" / "own_trajectories.md").read_text(encoding="utf-8")
    for form in FORMS:
        fields = ", ".join(" or ".join(f"`{name}`" for name in field.split("|")) for field in form.fields)
        assert f"| {form.name} | {fields} |" in page


def test_a_solution_that_is_one_text_is_split_into_steps():
    solution = "I add.\n\n1 + 1 = 2.\nSo 2."
    for row in (chat("1 + 1?", solution), {"problem": "1 + 1?", "response": solution}):
        assert (read(row).question, read(row).steps) == ("1 + 1?", ("I add.", "1 + 1 = 2.\nSo 2."))
        assert read(row, Reading(steps="line")).steps == ("I add.", "1 + 1 = 2.", "So 2.")
    with_system = [{"role": "system", "content": "Be brief."}, *chat("1 + 1?", solution)["messages"]]
    assert read({"messages": with_system}) == read(chat("1 + 1?", solution))


@given(st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=3), st.sampled_from([json.dumps, repr]))
def test_a_list_that_a_cell_holds_as_text_is_the_list(steps, written):
    row = {"question": "1 + 1?", "labels": [True] * len(steps)}
    cells = {"question": "1 + 1?", "labels": written(row["labels"]), "steps": written(steps)}
    assert read(cells) == read({**row, "steps": steps})


def test_of_the_columns_of_a_table_those_with_a_value_say_the_form():
    row = {"question": "1 + 1?", "steps": None, "messages": None, "response": "I add.\n\nSo 2."}
    assert read(row).steps == ("I add.", "So 2.")


def test_the_parts_of_a_message_are_its_text():
    parts = [{"type": "text", "text": "I add.\n\n"}, {"type": "text", "text": "So 2."}]
    assert read(chat("1 + 1?", parts)) == read(chat("1 + 1?", "I add.\n\nSo 2."))


def test_fields_have_the_names_that_the_profile_gives_them():
    reading = Reading({"question": "prompt", "prompt": "question", "gold_answer": "answer"})
    assert reading.named({"prompt": 1, "question": 2, "answer": 3, "a": 4}) == {
        "a": 4, "question": 1, "prompt": 2, "gold_answer": 3,
    }  # fmt: skip
    lacking = reading.named({"prompt": 1, "question": 2})
    assert isinstance(lacking, Unreadable)
    assert lacking.reason == "it has no field `answer` to read as `gold_answer`; it has prompt, question"


def test_a_field_within_another_is_named_by_its_path():
    row = {"a": {"b": {"c": "1 + 1?"}, "b.d": "So 2."}, "a.e": "x", "m": '{"gold": 2}', "n": None}
    fields = {"question": "a.b.c", "solution": "a.b.d", "id": "a.e", "gold_answer": "m.gold", "task": "n.task"}
    nested, row = row, read(Reading(fields).named(row))
    found = (row.question, row.steps, row.source_id, row.gold_answer, row.task)
    assert found == ("1 + 1?", ("So 2.",), "x", "2", "")
    for field, words in {
        "a.b.x": "`a.b` has c",
        "x.y": "it has a, a.e, m, n",
        "a.b.c.d": "`a.b.c` is str, which has no fields",
    }.items():
        lacking = Reading({"question": field}).named(nested)
        assert isinstance(lacking, Unreadable)
        assert f"it has no field `{field}` to read as `question`; {words}" in lacking.reason


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"src": ["a", "b"]}, "`src`: it is a list of 2; give one text"),
        ({"parts": ["a", 3]}, "`parts.1`: it must be text"),
        ({"marks": ["+"]}, "2 steps but 1 `marks`"),
        (
            {"marks": [0.5, 1.0]},
            "`marks.0`: a label is true, false, 1, 0, `+` or `-`; give soft",
        ),
        ({"a": True}, "`a`: an answer of the wrong kind"),
        ({"src": None}, "`src`: it must be text"),
    ],
)
def test_reasons_call_a_field_as_the_file_does(changed, reason):
    reading = Reading({"question": "src", "steps": "parts", "labels": "marks", "gold_answer": "a"})
    row = {"src": "1 + 1?", "parts": ["It is 2.", "So 2."], "marks": ["+", "-"], "a": 2} | changed
    assert reason in number_rows([reading.named(row)], 0, 1, reading=reading)["defect"][0]


@pytest.mark.parametrize("value", [["+", "-"], [True, False], [1, 0], "[1, 0]"])
def test_labels_of_math_shepherd_are_signs_truths_or_whole_numbers(value):
    row = {"input": "1 + 1? Step 1: 2 ки Step 2: 3 ки", "value": value}
    assert read(row).shepherd_labels == (True, False)


@pytest.mark.parametrize("value", [[1.0, 1.0], [0.75, 0.125], [1, -100], [1, -1], [1, None], [1, float("nan")], [1, 2]])
def test_what_is_no_label_is_never_read_as_one(value):
    for row in ({"input": "1 + 1? Step 1: 2 ки Step 2: 3 ки", "value": value}, {**TRL, "labels": [*value[:-1], 0.5]}):
        assert "a label is true, false, 1, 0, `+` or `-`; give soft ones as `sources.step_labels`" in defect_of(row)


def test_labels_of_trl_may_be_called_by_their_singular():
    singular = {("label" if name == "labels" else name): value for name, value in TRL.items()}
    assert read(singular) == read({**singular, "labels": None}) == read(TRL)
    assert unread({**TRL, "label": "good"}) == ["label"]


def test_a_row_of_every_form_has_its_id():
    for form in FORMS:
        assert read({**EXAMPLES[form.name], "id": "a7"}).source_id == "a7"


@pytest.mark.parametrize(("label", "truth"), [(1.0, 1), ("1", 1), ("1.0", 1), (-1.0, -1), ("-1", -1)])
def test_a_first_error_is_a_whole_number_however_a_table_writes_it(label, truth):
    assert read({**PROCESSBENCH, "label": label}).truth == read({**PROCESSBENCH, "label": truth}).truth


@pytest.mark.parametrize("label", [True, False, 2.0, "2.0", -2.0, 1.5, "a", float("nan"), [1]])
def test_what_is_no_step_is_no_first_error(label):
    assert defect_of({**PROCESSBENCH, "label": label}).startswith("`label`")


def test_the_lines_that_convert_a_file_of_another_kind_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    row = {"instruction": "1 + 1?", "level": 3, "input": "", "output": "I add.\n\nSo 2."}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    with pytest.raises(SourceError) as refusal:
        number_rows([row], first=0, shards=1, reading=Reading(place="rows.jsonl"))
    exec(dedent(str(refusal.value).partition("\n")[2]))
    converted = json.loads((tmp_path / "converted.jsonl").read_text(encoding="utf-8"))
    assert read(converted).steps == ("I add.", "So 2.")


def test_math_shepherd_rows_are_parsed_in_their_order():
    rows = number_rows([ROW, {**ROW, "input": "other"}], first=0, shards=1)
    assert rows.select("row_number", "question", "steps", "labels", "task", "final_answer", "defect").rows() == [
        (0, "1 + 1?", ["2"], [True], "GSM8K", None, None),
        (1, None, None, None, "", None, "no step: the text has no `ки` marker"),
    ]
    assert rows["excerpt"].to_list() == [None, "other"]
    assert read({"input": ROW["input"], "task": "GSM8K", "value": ["+"]}) == read(ROW)


def test_trl_rows_are_steps_without_their_headers():
    trajectory = read(TRL)
    found = (trajectory.question, trajectory.steps, trajectory.shepherd_labels)
    assert found == ("1 + 1?", ("It is 2.", "So 3."), (True, False))


def test_prm800k_rows_follow_the_labelers_path_to_the_first_error():
    row = prm800k(
        prm800k_step(("bad", -1), ("good", 1), chosen=1),
        prm800k_step(("bad", -1), ("neutral", 0), written="by hand"),
        prm800k_step(("neutral", 0), chosen=0),
        prm800k_step(("fine", 1), ("wrong", -1)),
        prm800k_step(("unrated", None)),
    )
    trajectory = read(row)
    assert (trajectory.question, trajectory.steps) == ("1 + 1?", ("good", "by hand", "neutral", "wrong"))
    # what people say of the steps is a truth, and no label of the source
    assert (trajectory.gold_answer, trajectory.shepherd_labels) == ("2", None)
    assert trajectory.truth == (True, True, True, False)


@pytest.mark.parametrize("kind", [str, float])
def test_whole_numbers_of_prm800k_may_be_texts_or_floats(kind):
    row = prm800k(prm800k_step(("a", 1), chosen=0), prm800k_step(("b", 1), ("c", 1), chosen=kind(1)))
    row["label"]["steps"].append({"completions": [{"text": "d", "rating": kind(-1)}], "chosen_completion": None})
    assert (read(row).steps, read(row).truth) == (("a", "c", "d"), (True, True, False))


@pytest.mark.parametrize(
    ("row", "defect"),
    [
        ({"input": None, "label": "x"}, "`input`: it must be text"),
        ({"input": "x"}, "the row has columns input; it needs input, label or value (Math-Shepherd)"),
        ({"input": "x", "label": None}, "neither `label` nor `value`"),
        ({**ROW, "value": ["+", 3]}, "`value.1`"),
        ({**TRL, "labels": [True]}, "2 `completions` but 1 `labels`"),
        ({**TRL, "completions": ["Step 1:", "b"]}, "step 1 of 2 is empty"),
        ({**TRL, "labels": [True, "perhaps"]}, "`labels.1`"),
        ({"question": {"problem": "1 + 1?"}, "label": {"steps": 3}}, "`label.steps`"),
        (prm800k(prm800k_step(("unrated", None))), "no step of it was chosen, written or rated -1"),
        (
            {"messages": "Hello"},
            "`messages`: it is str; it must be a list of messages, with role and content",
        ),
        (
            {"messages": [{"role": "user", "content": "1 + 1?"}]},
            "`messages`: it must be one message of the user (or human)",
        ),
        (chat("1 + 1?", "2", "2 + 2?", "4"), "(or gpt), and has user, assistant, user, assistant; give"),
        (chat("1 + 1?", " "), "`messages`: the message of the assistant is empty"),
        (chat(["1 + 1?"], "2"), "`messages`: a part of a message is str; it must be"),
        ({"prompt": "1 + 1?", "completion": ["2", "3"]}, "`completion`: it is a list of 2; give one text"),
        ({"prompt": "1 + 1?", "completion": None}, "`completion`: it must be text"),
        ({"problem": "1 + 1?", "solution": "a\n\nb", "labels": [1]}, "2 steps but 1 `labels`"),
        ({"a": 1}, "the row has columns a; it needs input, label or value"),
        (Unreadable("{", "not JSON", "rows.jsonl, line 2"), "not JSON"),
        ({**QUESTION, "question": "\u200b "}, "`question`: it is empty"),
        ({**QUESTION, "question": None}, "`question`"),
        ({**QUESTION, "steps": []}, "`steps`: it is empty"),
        ({**QUESTION, "steps": "It is 2."}, "`steps`: it must be a list"),
        ({**QUESTION, "steps": "['It is 2.' 'So 2.']"}, "`steps`: a list without commas, as numpy writes it"),
        ({**QUESTION, "steps": ["It is 2.", " "]}, "`steps.1`: it is empty"),
        ({**QUESTION, "labels": [True]}, "2 steps but 1 `labels`"),
        ({**QUESTION, "labels": [True, "perhaps"]}, "`labels.1`: a label is true, false, 1, 0, `+` or `-`"),
        ({**QUESTION, "gold_answer": True}, "`gold_answer`: an answer of the wrong kind, bool"),
        ({**QUESTION, "gold_answer": ["2"]}, "an answer of the wrong kind, list"),
        ({**QUESTION, "gold_answer": {}}, "an answer of the wrong kind, dict"),
        ({**QUESTION, "gold_answer": float("nan")}, "`NaN` is no answer, it stands for a missing value"),
        ({**QUESTION, "id": 1.5}, "`id`: it must be text or a whole number"),
        ({**PROCESSBENCH, "label": 2}, "`label` is step 2 (from 0) of 2 steps"),
        ({**PROCESSBENCH, "steps": []}, "`steps`: it is empty"),
    ],
)
def test_a_row_that_cannot_be_read_is_rejected_with_its_defect(row, defect):
    rows, rejected = separate_defects(number_rows([ROW, row], first=0, shards=1))
    assert rows["row_number"].to_list() == [0]
    assert rejected.select("row_number", "stage").rows() == [(1, "read")]
    assert defect in rejected["reason"][0]


def test_rows_of_question_and_steps_are_taken_as_they_are():
    row = {**QUESTION, "id": 7, "gold_answer": 2, "labels": [1, "-"], "task": "SUMS", "split": "dev"}
    rows = number_rows([row, QUESTION], first=0, shards=1)
    assert rows.row(0, named=True) == {
        "row_number": 0,
        "source_id": "7",
        "question": "1 + 1?",
        "steps": ["It is 2.", "Step 2: The answer is: 2"],
        "labels": [True, False],
        "task": "SUMS",
        "question_id": question_id("1 + 1?"),
        "final_answer": "2",
        "gold_answer": "2",
        "split": "dev",
        "defect": None,
        "excerpt": None,
        "shard": "000",
    }
    left_out = rows.select("task", "labels", "source_id", "gold_answer", "split")
    assert left_out.row(1) == ("", None, None, None, None)


def test_solutions_with_their_first_error_are_trajectories_without_labels():
    rows = number_rows([PROCESSBENCH, {**PROCESSBENCH, "id": 5}], first=0, shards=1)
    assert rows.select("question", "steps", "source_id", "task").rows() == [
        ("1 + 1?", ["It is 2.", "So 3."], "gsm8k-7", "GSM8K"),
        ("1 + 1?", ["It is 2.", "So 3."], "5", ""),
    ]
    assert rows["labels"].null_count() == rows["gold_answer"].null_count() == 2


@pytest.mark.parametrize(("given", "text"), [(0.5, "0.5"), (" 3 ", "3"), ("", None), (" ", None), (None, None)])
def test_a_gold_answer_is_a_text_or_a_number_and_a_blank_one_is_none(given, text):
    assert read({**QUESTION, "gold_answer": given}).gold_answer == text


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
    assert rows["source_id"].to_list() == ["a", "a", "b", "a", "7", "7", None, None]


@given(st.text().map(lambda text: f"{text}?"), st.integers(1, 9))
def test_a_question_of_any_text_stays_in_its_shard(question, shards):
    texts = [f"What is {n} + 1? Step 1: It is {n + 1}. ки" for n in range(3)]
    marked = [{"input": text, "label": text.replace("ки", "+")} for text in texts]
    rows = number_rows([{**QUESTION, "question": question}, *marked], first=0, shards=shards)
    sound, _ = separate_defects(rows)
    assert [shard_key(question_id(text), shards) for text in sound["question"]] == sound["shard"].to_list()


@pytest.mark.parametrize(
    ("row", "named"),
    [
        (
            {"problem": "1 + 1?", "answer": "2"},
            r"has columns problem, answer; it needs .*PRM800K.*, `--sample 4` samples their solutions; name its fields",
        ),
        ({f"c{number}": 1 for number in range(100_000)}, r"has columns c0, c1, .*…; it needs input, label"),
    ],
    ids=["another kind", "very many columns"],
)
def test_a_file_of_another_kind_is_refused_at_its_first_row_by_its_first_columns(row, named):
    with pytest.raises(SourceError, match=named) as refused:
        number_rows([row], first=0, shards=1)
    assert max(len(str(refused.value)), len(defect_of(row))) < 1_000


def test_lone_surrogates_are_replaced_and_pairs_are_not():
    text = json.loads(r'"\ud83d\ude00 \ud800 1 + 1? Step 1: 2 ки"')
    assert read({"input": text, "label": text.replace("ки", "+")}).question == "😀 \ufffd 1 + 1?"


@given(st.lists(JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, JSON)), max_size=5))
def test_whatever_a_row_holds_it_is_parsed_or_rejected(values):
    rows = [ROW, *(value if isinstance(value, dict) else Unreadable(repr(value), "no object", "") for value in values)]
    sound, rejected = separate_defects(number_rows(rows, first=0, shards=3))
    assert sorted([*sound["row_number"], *rejected["row_number"]]) == list(range(len(rows)))


@given(st.lists(st.text(min_size=1), min_size=2, max_size=20), st.integers(1, 9))
def test_every_row_has_one_of_the_shards_and_batches_count_on(texts, shards):
    batches = [[{**ROW, "input": text} for text in part] for part in (texts[:1], texts[1:])]
    rows = pl.concat([number_rows(batch, first, shards) for first, batch in enumerate(batches)])
    assert set(rows["shard"]) <= {f"{shard:03d}" for shard in range(shards)}
    assert rows["row_number"].to_list() == list(range(len(texts)))


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        ({"question": "2 + 3?", "answer": "2 + 3 = 5\n#### 5"}, "5"),
        ({"problem": "2 + 3?", "solution": r"So $\boxed{5}$."}, "5"),
        ({"question": None, "prompt": "2 + 3?", "gold_answer": 5, "answer": ["A"], "solution": 7}, "5"),
        ({"question": "2 + 3?"}, None),
    ],
)
def test_a_question_alone_has_its_gold_answer_or_that_of_its_solution(row, answer):
    asked = read(row, Reading(of_questions=True))
    assert (asked.question, asked.steps, asked.gold_answer) == ("2 + 3?", (), answer)


@pytest.mark.parametrize(
    ("row", "defect"),
    [
        ({"text": "2 + 3?"}, "the row has columns text; it needs a text in question or problem or prompt"),
        ({"question": " "}, "`question`: it is empty"),
        ({"question": "2 + 3?", "answer": ["5"]}, "`answer`: an answer of the wrong kind"),
        (Unreadable("{", "not JSON", "line 1"), "not JSON"),
    ],
)
def test_a_question_that_cannot_be_read_has_its_reason(row, defect):
    assert defect_of(row, Reading(of_questions=True)).startswith(defect)


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ({"input": "a ки"}, "value"),
        ({"prompt": "a", "labels": [True]}, "completions"),
        ({"prompt": "a", "completions": ["a"]}, "labels"),
        ({"question": "a"}, "steps"),
        ({"question": "a", "steps": ["a"]}, "labels"),
        ({"problem": "a", "label": -1}, "steps"),
    ],
)
def test_of_a_list_with_too_many_items_none_is_read(row, name):
    assert f"`{name}`: it must have at most 10,000 items" in defect_of({**row, name: [True] * 10_001})
