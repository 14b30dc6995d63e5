"""The review of an alignment."""

import polars as pl
import pytest

from cpmi_dagster.alignment.align import AMBIGUOUS, NO_MATCH
from cpmi_dagster.alignment.review import general_reason, render_review, review_alignment

REFERENCES = pl.DataFrame(
    {
        "source": ["math", "math"],
        "split": ["train", "train"],
        "problem_id": ["a/1", "a/2"],
        "question": ["Find the value of $|x|$.", "How many hats?"],
        "answer": ["1", "2"],
    }
)
TRAJECTORIES = pl.DataFrame(
    {
        "question_id": ["q1", "q1", "q2", "q3"],
        "question": ["How many hats?", "How many hats?", "Find a value of $|x|$.", "Find value of $|x|$."],
        "match_source": ["math/train/a/2", "math/train/a/2", "math/train/a/1", "math/train/a/1"],
        "match_kind": ["exact", "exact", "fuzzy", "fuzzy"],
        "match_score": [1.0, 1.0, 0.95, 0.88],
    }
)
REJECTED = pl.DataFrame(
    {
        "row_number": [4, 5, 6, 7, 8, 9],
        "stage": ["align", "align", "align", "parse", "parse", "align"],
        "reason": [NO_MATCH, NO_MATCH, NO_MATCH, "step 1 of 3 is empty", "step 2 of 5 is empty", AMBIGUOUS],
        "excerpt": ["Who?", "How many cats?", "How many cats?", "…", "…", "What is shown?"],
    }
)


KINDS, REJECTIONS, MISSES, CONFLICTS, FUZZY = review_alignment(TRAJECTORIES, REJECTED, REFERENCES).values()


def test_every_row_is_counted_once_in_kinds_and_rejections():
    assert KINDS.rows() == [("exact", 2, 1, 0.2), ("fuzzy", 2, 2, 0.2)]
    assert REJECTIONS.drop("share").rows() == [
        ("align", NO_MATCH, 3, 2, NO_MATCH),
        ("parse", "step … of … is empty", 2, 1, "step 1 of 3 is empty"),
        ("align", AMBIGUOUS, 1, 1, AMBIGUOUS),
    ]
    assert KINDS["share"].sum() + REJECTIONS["share"].sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("reason", "general"),
    [
        ("step 3 of 5 is empty", "step … of … is empty"),
        ("`value` contains '?', which is neither `+` nor `-`", "`value` contains …, which is neither `+` nor `-`"),
        ("no `Step 1:` header and no question mark", "no `Step 1:` header and no question mark"),
        ("the reference problem math/train/number_theory/7115 has an empty gold answer",
         "the reference problem … has an empty gold answer"),
        ("text after the last `ки` marker: \"it's 4\"", "text after the last `ки` marker: …"),
        (NO_MATCH, NO_MATCH),
    ],
)  # fmt: skip
def test_reasons_are_the_same_but_for_what_belongs_to_a_row(reason: str, general: str):
    assert general_reason(reason) == general


def test_misses_show_the_nearest_reference_and_what_cost_most_rows_first():
    assert MISSES.select("question", "rows", "nearest_source").row(0) == ("How many cats?", 2, "math/train/a/2")
    assert CONFLICTS["question"].to_list() == ["What is shown?"]


def test_fuzzy_matches_show_both_wordings_lowest_score_first():
    assert FUZZY["match_score"].to_list() == [0.88, 0.95]
    assert FUZZY["reference"].to_list() == ["Find the value of $|x|$."] * 2


def test_no_table_of_examples_is_longer_than_asked_for():
    _, _, *examples = review_alignment(TRAJECTORIES, REJECTED, REFERENCES, examples=1).values()
    assert [frame.height for frame in examples] == [1, 1, 1]


def test_markdown_keeps_one_line_per_row_whatever_the_questions_hold():
    text = render_review(review_alignment(TRAJECTORIES, REJECTED, REFERENCES))
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    assert [len(table) - 2 for table in tables] == [2, 3, 2, 1, 2]
    assert "| Find a value of $&#124;x&#124;$. |" in text
    assert render_review(review_alignment(TRAJECTORIES.clear(), REJECTED.clear(), REFERENCES.clear())) == ""
