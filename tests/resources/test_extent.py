"""How much a file has: what covers what, and extents of files that name none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.resources.extent import covers, earlier_extent, is_nothing, recorded_setting, widened

COUNTS = st.none() | st.integers(0, 5)
NAMES = st.lists(st.sampled_from("abcd"), unique=True)
EXTENTS = st.fixed_dictionaries({"steps": COUNTS, "names": NAMES})


@given(EXTENTS, EXTENTS)
def test_the_widened_extent_covers_both_and_no_more(one, other):
    wide = widened(one, other)
    assert covers(wide, one) and covers(wide, other)
    assert covers(one, other) == covers(one, wide)
    assert covers(other, one) == covers(other, wide)


@given(EXTENTS)
def test_an_extent_covers_itself_and_what_is_less(extent):
    assert covers(extent, extent)
    assert covers(extent, {"steps": 0, "names": []})


@pytest.mark.parametrize(
    ("asked", "nothing"),
    [({}, False), ({"steps": None}, False), ({"steps": 0, "count": 8}, True), ({"names": [], "templates": 4}, True)],
)
def test_an_axis_without_anything_asks_for_nothing(asked, nothing):
    assert is_nothing(asked) == nothing


def test_files_of_earlier_versions_have_the_extent_of_their_settings():
    settings = {"seed": 0, "negatives": {"count": 4, "samples": 8}, "rollouts.policy_count": 2}
    assert recorded_setting(settings, "negatives.samples") == 8
    assert earlier_extent(settings, {"demand.negatives": 6}) == {"demand.negatives": 4}
    asked = {"demand.policy_steps": 1, "rollouts.policy_count": 8}
    assert earlier_extent(settings, asked) == {"demand.policy_steps": None, "rollouts.policy_count": 2}
