"""Multiple choice: the wrong answers are the other options, in the form of the gold answer."""

import pytest

from cpmi_dagster.answers.verdicts import is_equivalent
from cpmi_dagster.negatives.hard_negatives import choose_negatives, heuristic_negatives
from cpmi_dagster.negatives.settings import Negatives
from cpmi_dagster.trajectories.choices import letter_of, read_options, render_choices
from cpmi_dagster.trajectories.given_rows import read_table

PENS = "How many pens are in the box?"
BOTH = ["True, True", "False, False", "True, False", "False, True"]
CHOICES = ["50", "8", "11/4", "15"]


@pytest.mark.parametrize(
    ("listed", "texts"),
    [
        ("\n(A) 50\n(B) 8\n(C) 11/4", ["50", "8", "11/4"]),
        ("\nA. 50\nB. 8\nC. 11/4\n", ["50", "8", "11/4"]),
        ("\nA) 50\nB) 8\nC) 11/4\nAnswer with a letter.", ["50", "8", "11/4"]),
        (r" $\textbf{(A)}\ 50 \qquad \textbf{(B)}\ 8 \qquad \textbf{(C)}\ 11/4$", ["50", "8", "11/4"]),
        (" Take point (A) and point (C).", []),
        (" A. Smith has some.", []),
    ],
)
def test_options_are_read_from_a_question(listed, texts):
    assert list(read_options(PENS + listed).values()) == texts
    assert read_options(render_choices(PENS, CHOICES)) == dict(zip("ABCD", CHOICES, strict=True))


def test_letters_of_answers():
    options = dict.fromkeys("ABCD", "")
    assert [letter_of(each, options) for each in ("B", "(b)", r"\text{(B)}", "option B", "B.")] == ["B"] * 5
    assert [letter_of(each, options) for each in ("E", "50", "AB", "")] == [None] * 4


def negatives(gold: str, question: str, *samples: str) -> list[tuple[str, str]]:
    return [(each.answer, each.source) for each in choose_negatives(gold, samples, Negatives(count=4), 0, question)]


def test_a_gold_letter_has_the_other_letters_and_never_its_own_value():
    question = render_choices(PENS, CHOICES)
    chosen = negatives("A", question, "50", "586.47", "11/4", "C", "47.5")
    assert chosen[0] == ("C", "model") and sorted(chosen[1:]) == [("B", "option"), ("D", "option")]
    assert {answer for answer, _ in negatives(r"\text{(A)}", question)} == {rf"\text{{({each})}}" for each in "BCD"}
    assert {each.answer for each in heuristic_negatives("A", 4, 0, question)} == {"B", "C", "D"}


def test_a_gold_value_has_the_other_values_and_an_option_of_equal_value_is_none():
    question = render_choices(PENS, ["50", "8", "50.0", "16/2"])
    assert negatives("50", question, "9", "8") == [("8", "model")]
    assert {answer for answer, _ in negatives("A", question)} == {"B", "D"}


def test_options_that_are_one_list_in_another_order_are_two():
    question = render_choices("Are they?", BOTH)
    texts = {answer for answer, _ in negatives("True, False", question, "True, False")}
    assert texts == {"True, True", "False, False", "False, True"}
    assert ("False, True", "model") in negatives("True, False", question, "False, True")


def test_a_gold_letter_without_known_options_is_beside_letters_alone():
    assert all(len(answer) == 1 and answer.isupper() for answer, _ in negatives("A", PENS, "50", "B", "8"))
    assert ("50", "model") in negatives("7", PENS, "50")


def test_a_question_without_its_options_gets_those_of_its_row():
    row = {"question": PENS, "choices": CHOICES, "answer": 0, "steps": ["So A. The answer is: A"]}
    assert read_table([row]).trajectories["question"].item() == render_choices(PENS, CHOICES)
    listed = render_choices(PENS, CHOICES)
    assert read_table([{**row, "question": listed}]).trajectories["question"].item() == listed


@pytest.mark.parametrize(
    ("gold", "solution", "is_right"),
    [
        ("c", "C", True),
        ("C", "(c)", True),
        ("C", "11/4", True),
        ("11/4", "C", True),
        ("C", "B", False),
        ("11/4", "B", False),
    ],
)
def test_a_gold_answer_and_a_final_answer_are_compared_as_options(gold, solution, is_right):
    row = {"question": render_choices(PENS, CHOICES), "gold_answer": gold, "steps": [f"The answer is: {solution}"]}
    read = read_table([row]).trajectories.row(0, named=True)
    assert is_equivalent(read["gold_answer"], read["final_answer"]) is is_right


@pytest.mark.parametrize("gold", [2, "C", "(C)", "11/4"])
def test_how_a_solution_writes_its_letter_does_not_show_in_the_gold_answer(gold):
    """A form that only right solutions had would tell them apart before any step."""
    row = {"question": PENS, "choices": CHOICES, "gold_answer": gold}
    forms = ["C", "(c)", r"\text{(C)}", "C (11/4)", "C. 11/4", "option C", "A", "(a)", "A (50)", "A. 50"]
    read = read_table([{**row, "steps": [f"The answer is: {form}"]} for form in forms]).trajectories
    assert read["gold_answer"].n_unique() == 1
    assert read["final_answer"].to_list() == ["C"] * 6 + ["A"] * 4


@pytest.mark.parametrize(
    ("question", "choices", "gold", "final", "is_right"),
    [
        ("What is 15 - 10?", ["5", "1"], "A", "5", True),
        ("Which is larger: 12 or 15?", ["12", "15"], "B", "15", True),
        ("Which is larger: 12 or 15?", ["12", "15"], "15", "B", True),
        ("Which is larger: 12 or 15?", ["12", "15"], "B", "A", False),
        ("Yes or No: is 4 prime?", ["Yes", "No"], "B", "No", True),
        (PENS, CHOICES, "B", "B (8)", True),
        (PENS, CHOICES, "B", "A (50)", False),
        (PENS, ["8", "50", "50"], "B", "(C)", True),
        ("Are they?", BOTH, "C", "True, False", True),
        ("Are they?", BOTH, "C", "False, True", False),
        ("Are they?", BOTH, "false, true", "False, True.", True),
        ("Are they?", BOTH, 3, "True, False", False),
    ],
)
def test_a_gold_letter_is_a_choice_of_its_row_whether_or_not_the_question_lists_them(
    question, choices, gold, final, is_right
):
    row = {"question": question, "choices": choices, "gold_answer": gold, "steps": [f"The answer is: {final}"]}
    read = read_table([row]).trajectories.row(0, named=True)
    assert is_equivalent(read["gold_answer"], read["final_answer"]) is is_right


def test_choices_that_stand_in_a_question_only_as_parts_of_its_numbers_are_listed_under_it():
    row = {"question": "What is 34 - 12?", "choices": ["1", "2", "3", "22"], "gold_answer": "D", "steps": ["I look."]}
    read = read_table([row, {**row, "question": "Is it 1, 2, 3 or 22?"}]).trajectories
    assert [read_options(question).get("D") for question in read["question"]] == ["22", None]
    assert read["gold_answer"].to_list() == ["D", "22"], "a letter says nothing beside a question without a list"


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        (CHOICES, "the gold answer F is not the letter of a choice, A to D"),
        (["3"], "the gold answer F is a letter, and `choices` is no list of 2 to 26 texts"),
        ("3, 4", "the gold answer F is a letter, and `choices` is no list of 2 to 26 texts"),
        ([str(number) for number in range(27)], "`choices` is no list of 2 to 26 texts"),
    ],
)
def test_a_gold_letter_that_is_no_choice_is_a_reason_of_its_row(choices, words):
    row = {"question": PENS, "choices": choices, "gold_answer": "F", "steps": ["The answer is: 8"]}
    assert words in read_table([row]).rejected["reason"].item()
    assert read_table([{**row, "gold_answer": "8"}]).rejected.is_empty()


@pytest.mark.parametrize(
    ("question", "letters"),
    [
        ("If P(A)=0.3 and P(B)=0.7, what is P(A and B)?\nA. 1\nB. 3/7\nC. 2\nD. 5", "ABCD"),
        ("Which?\n(A) 4\n(B) 7\n(C) 9\n(D) both (A) and (B)", "ABCD"),
        ("Which is it, (A), (B), (C) or (D)?", ""),
        ("If P(A)=0.3 and P(B)=0.4 are independent, find P(A and B).", ""),
    ],
)
def test_letters_in_prose_are_no_options(question, letters):
    assert "".join(read_options(question)) == letters
