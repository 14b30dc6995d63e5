"""Reference problems: the fields of every set, and the gold answer of every real problem."""

import pytest

from cpmi_dagster.alignment import join_references, read_references
from cpmi_dagster.errors import SourceError

ASKED = {"question": "How many?"}


def test_problems_of_the_published_sets_have_their_answers_and_ids():
    rows = [{"question": "How many?", "answer": "800*2=<<800*2=1600>>1,600.\n#### 1,600"}]
    gsm8k = read_references(rows, "gsm8k", "train").row(0, named=True)
    assert (gsm8k["answer"], gsm8k["problem_id"], gsm8k["source"], gsm8k["level"]) == ("1600", "0", "gsm8k", None)
    solution = r"First $\boxed{1}$, no: $\boxed{\frac{1}{\sqrt{2}}}$."
    row = {"id": "train/algebra/1", "problem": "What?", "level": "Level 3", "type": "Algebra", "solution": solution}
    unnamed = {"problem": "What?", "solution": r"Nothing: $\boxed{}$."}
    math = read_references([row, unnamed], "math", "train", "algebra")
    assert math.select("problem_id", "answer", "level", "subject").rows() == [
        ("train/algebra/1", r"\frac{1}{\sqrt{2}}", "Level 3", "Algebra"),
        ("algebra/1", "", None, None),
    ]


@pytest.mark.parametrize(
    ("row", "solution", "answer"),
    [
        ({**ASKED, "solution": "Count. #### 7", "answer": "8 hats"}, "Count. #### 7", "8 hats"),
        ({"problem": "How many?", "solution": "Count.\nThe answer is: 7"}, "Count.\nThe answer is: 7", "7"),
        ({**ASKED, "answer": "Count.\nSeven."}, "Count.\nSeven.", ""),
        ({**ASKED, "answer": 7.0}, "7", "7"),
        ({**ASKED, "answer": "", "solution": "There are 7."}, "There are 7.", "7"),
        ({**ASKED, "answer": "\ud800"}, "\ufffd", "\ufffd"),
        ({**ASKED, "answer": None, "solution": "Just look."}, "Just look.", ""),
    ],
)
def test_the_answer_of_any_other_set_is_its_own_or_that_of_its_solution(row: dict, solution: str, answer: str):
    problem = read_references([row], "my_set", "test").row(0, named=True)
    assert (problem["question"], problem["solution"], problem["answer"]) == ("How many?", solution, answer)


@pytest.mark.parametrize(
    ("row", "source", "message"),
    [
        (ASKED, "gsm8k", "row 1 of gsm8k/train has no text in `answer`"),
        (ASKED, "my_set", "row 1 of my_set/train has no text in `answer` or `solution`"),
        ({**ASKED, "answer": ["7"], "solution": "So 7."}, "my_set", "row 1 .* an answer of the wrong kind"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(row: dict, source: str, message: str):
    with pytest.raises(SourceError, match=message):
        read_references([{"question": "a", "answer": "#### 7"}, row], source, "train")


def test_two_problems_with_one_id_are_refused():
    rows = [{"question": "a", "answer": "1"}, {"question": "b", "answer": "2"}]
    train, test = (read_references(rows, "my_set", split) for split in ("train", "test"))
    assert join_references([train, test]).height == 4
    with pytest.raises(SourceError, match="two problems of my_set/test have the id `0`; give the rows an `id`"):
        join_references([train, test, test])
