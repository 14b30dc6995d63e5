import pytest

from cpmi_dagster.generation.engine import Generation
from cpmi_dagster.generation.stopping import cut_at_stop, states_answer


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("2 + 3 = 5\nThe answer is: 5\nProblem: next", "2 + 3 = 5\nThe answer is: 5\n"),
        ("2 + 3 = 5. The answer is: 5\n\nProblem", "2 + 3 = 5. The answer is: 5\n"),
        ("2 + 3 = 5\n#### 5\nmore", "2 + 3 = 5\n#### 5\n"),
        ("The answer is:\n5\nmore", "The answer is:\n5\nmore"),
        ("The answer is: 5", "The answer is: 5"),
    ],
)
def test_an_answer_stop_cuts_after_the_line_that_states_the_answer(text, kept):
    assert cut_at_stop(text, "answer", False, 9, 5) == Generation(kept, 9, False, 5)


def test_a_line_stop_cuts_after_the_first_line():
    assert cut_at_stop("24\n25\n", "line", True, 4, 5) == Generation("24\n", 4, False, 5)


def test_a_text_is_truncated_if_it_met_its_limit_without_a_stop():
    assert cut_at_stop("24", "line", True, 4, 5) == Generation("24", 4, True, 5)


@pytest.mark.parametrize(
    ("line", "states"),
    [("So 6. The answer is: 6", True), ("#### 7", True), ("The answer is near", False), ("The answer is:", False)],
)
def test_a_line_states_an_answer_or_not(line, states):
    assert states_answer(line) is states
