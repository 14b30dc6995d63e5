import polars as pl
import pytest

from cpmi_dagster.contracts.contexts import CONDITIONINGS, PAPERS
from cpmi_dagster.contracts.registries import by_name
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.rewards.registry import (
    REWARD_TYPES,
    comes_with_data,
    listing_place,
    reward_label,
    reward_type,
)


def test_an_unknown_reward_type_is_an_error_that_lists_the_known_ones():
    with pytest.raises(
        SettingsError, match=r"`cpmi_merge9` is not a reward type .*; choose from mc, mc_hard, pav, cpmi"
    ):
        reward_type("cpmi_merge9")


def test_entries_bear_the_name_they_are_found_by_and_labels_of_their_own():
    assert all(entry.name == name for name, entry in REWARD_TYPES.items())
    assert len({entry.label for entry in REWARD_TYPES.values()}) == len(REWARD_TYPES)
    assert all(entry.merge.first in REWARD_TYPES for entry in REWARD_TYPES.values() if entry.merge)
    assert {name for name in CONDITIONINGS if f"cpmi_{name}" in REWARD_TYPES} == set(CONDITIONINGS) - {PAPERS}


def test_labels_of_ones_own_keep_a_free_name_and_come_last():
    assert reward_label("my_judge") == "my_judge"
    places = pl.DataFrame({"name": ["my_judge", "cpmi", "mc"]}).select(listing_place("name")).to_series()
    assert places.to_list() == [len(REWARD_TYPES), 3, 0]
    assert [name for name in (*REWARD_TYPES, "my_judge") if comes_with_data(name)] == ["math_shepherd", "my_judge"]


def test_two_entries_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two entries of one registry are called `mc`; rename one of them"):
        by_name([REWARD_TYPES["mc"], REWARD_TYPES["pav"], REWARD_TYPES["mc"]])
