"""How much a file has: what covers what, and extents of files that name none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.resources.lake.extent import covers, is_nothing, widened

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
