"""A solution that is one text is split into steps: no word of it is lost, and what belongs together stays together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.trajectories.math_shepherd import clean
from cpmi_dagster.trajectories.solution_text import AUTO, BEGINS, split_steps

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
        ("From step 2: nothing.", ["From step 2: nothing."]),
        (" \n ", []),
    ],
)
def test_steps_begin_at_markers_else_at_blank_lines_else_at_lines(text, steps):
    assert split_steps(text) == steps
