"""A solution that is one text is split into steps: no word of it is lost, and what belongs together stays together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.trajectories.steps import AUTO, BEGINS, clean, split_steps

PARTS = st.sampled_from(
    [
        "Step 1:", "Step 2: b", "step 3.", "## A", "**B**", "---", "<think>", "</think>", "```", "$$", "\\[", "\\]",
        "x", ".", "\n", "\n\n", "\r\n", " \n \n", " ", "\t", "\u200b",
    ]
)  # fmt: skip
TEXTS = st.lists(PARTS).map("".join) | st.text()


@given(TEXTS, st.sampled_from([AUTO, *BEGINS]))
def test_steps_join_back_to_the_text_but_for_white_space(text, how):
    steps = split_steps(text, how)
    assert all(clean(step) == step for step in steps)
    place = 0
    for step in steps:
        found = text.index(step, place)
        assert clean(text[place:found]) == ""
        place = found + len(step)
    assert clean(text[place:]) == ""


LINES = st.lists(st.sampled_from(["x = 5", "", "Step 1: a", "# Step 2: b", "## C", "    y", "$$", "`", "~", "``` no"]))


@given(LINES, st.sampled_from("`~"), st.integers(3, 5), st.booleans(), st.sampled_from([AUTO, *BEGINS]), st.data())
def test_code_between_fences_stays_in_one_step_and_so_does_a_fence_that_is_not_closed(
    lines, mark, length, is_closed, how, data
):
    fence, before = mark * length, data.draw(st.sampled_from(["", "By a program.\n\n", "- ", "2. ", "> "]))
    opening = data.draw(st.sampled_from(["", "python", " py", "c++"]))
    code = "\n".join([fence + opening, *lines, "z = 7", *([data.draw(st.sampled_from(["", "z"])) + fence] * is_closed)])
    after = data.draw(st.sampled_from(["", " \t", "\r"])) + "\n\nIt is 7.\n\nStep 1: so."
    steps = split_steps(before + code + after, how)
    assert [code in step for step in steps].count(True) == 1
    assert steps[-1].endswith("Step 1: so.") and (code not in steps[-1]) == (is_closed and len(steps) > 1)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("I add.\n\nThen two.\n\n**Final Answer**\n\n5", ["I add.", "Then two.", "**Final Answer**\n\n5"]),
        ("One.\n\nTwo.\nStep 1: a\n\nb\nStep 2: c", ["One.\n\nTwo.", "Step 1: a\n\nb", "Step 2: c"]),
        ("Step 1: a. Step 2: b, by step 1: a. Step 3: c", ["Step 1: a.", "Step 2: b, by step 1: a.", "Step 3: c"]),
        ("## Setup\na\n\nb\n## Result\nc", ["## Setup\na\n\nb", "## Result\nc"]),
        ("# Solution\n\na\n\nb", ["# Solution\n\na", "b"]),
        ("<think>\n\nHm.\n\nSo.\n\n</think>\n\n5", ["<think>\n\nHm.", "So.", "</think>\n\n5"]),
        ("a\n\n---\n\nb\n\n---", ["a", "---\n\nb\n\n---"]),
        ("So\n\n```\na\n\nb\n```\n\n$$x\n\ny$$\n\nend", ["So", "```\na\n\nb\n```", "$$x\n\ny$$", "end"]),
        ("So\n\n~~~\na\n\n```\n\nb\n~~~\n\nend", ["So", "~~~\na\n\n```\n\nb\n~~~", "end"]),
        ("a\n\n```python\nb\n\nc\n```output\nd\n```\n\ne", ["a", "```python\nb\n\nc\n```output\nd\n```", "e"]),
        ("a\n\n```x\n\nb\n\nThe answer is: 5", ["a", "```x\n\nb\n\nThe answer is: 5"]),
        ("So ```py\na\n\nb```\n\nend", ["So ```py\na\n\nb```", "end"]),
        ("A mark is ``` there.\n\nNext ~~~\n\nend", ["A mark is ``` there.", "Next ~~~", "end"]),
        ("From step 2: nothing.", ["From step 2: nothing."]),
        (" \n ", []),
    ],
)
def test_steps_begin_at_markers_else_at_blank_lines_else_at_lines(text, steps):
    assert split_steps(text) == steps
