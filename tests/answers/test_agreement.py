"""What is said, before a model is asked, of a file whose solutions and gold answers do not fit."""

import pytest

from cpmi_dagster.answers.agreement import doubt_gold_answers


@pytest.mark.parametrize(
    ("golds", "finals", "words"),
    [
        ("2013", "CABC", "none of 4 solutions state their gold answer: the first states `C`, for `2`; check which"),
        (["7", "12"] * 50, ["7 ки", "12 ки"] * 50, "none of 100"),
        (
            ["5"] * 20,
            [*["5"] * 14, *"ABCDEF"],
            "all 6 wrong final answers are letters, where the gold answers are numbers; check",
        ),
        ("1234", "1235", None),  # one is wrong
        (["5"] * 20, [*["5"] * 14, *"123467"], None),  # wrong, of the same kind
        ("12", "34", None),  # too few
        (["1", None, "3"], ["2", "2", None], None),
    ],
)
def test_doubt_is_said_if_no_answer_fits_or_wrong_ones_are_of_another_kind(golds, finals, words):
    said = doubt_gold_answers(zip(golds, finals, strict=True))
    assert said is None if words is None else said is not None and said.startswith(words)
