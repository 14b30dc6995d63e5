import polars as pl
import pytest

from cpmi_dagster.contracts.contexts import CONDITIONINGS, PAPERS
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.registries import by_name
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.rewards.costs import TARGET_TOKENS, CostBasis, Measured, labeling_costs
from cpmi_dagster.rewards.registry import (
    REWARD_TYPES,
    comes_with_data,
    is_taken,
    listing_place,
    reward_label,
    reward_type,
)


def test_an_unknown_reward_type_is_an_error_that_lists_the_known_ones():
    with pytest.raises(SettingsError, match=r"`cpmi_merge9` is not a reward type; choose from mc, mc_hard, pav, cpmi"):
        reward_type("cpmi_merge9")


def test_an_unknown_method_costs_nothing_of_ours_but_an_error():
    costs = dict.fromkeys(("hard_negatives", "answer_logprobs", "policy_rollouts", "prover_rollouts"), Cost())
    measured = Measured(costs, {}, pl.DataFrame(schema=TARGET_TOKENS))
    with pytest.raises(SettingsError, match="`my_judge` is not a reward type"):
        labeling_costs("000", 0, measured, CostBasis("marginal", 4, {}), {}, ["my_judge"])


def test_entries_bear_the_name_they_are_found_by_and_labels_of_their_own():
    assert all(entry.name == name for name, entry in REWARD_TYPES.items())
    assert len({entry.label for entry in REWARD_TYPES.values()}) == len(REWARD_TYPES)


def test_every_conditioning_but_the_papers_is_a_reward_type():
    of_conditionings = {name for name in CONDITIONINGS if f"cpmi_{name}" in REWARD_TYPES}
    assert of_conditionings == set(CONDITIONINGS) - {PAPERS}


def test_what_a_merge_takes_first_is_a_reward_type():
    assert all(entry.merge.first in REWARD_TYPES for entry in REWARD_TYPES.values() if entry.merge)


def test_labels_of_ones_own_keep_their_name_and_come_last():
    assert reward_label("my_judge") == "my_judge"
    places = pl.DataFrame({"name": ["my_judge", "cpmi", "mc"]}).select(listing_place("name")).to_series()
    assert places.to_list() == [len(REWARD_TYPES), 3, 0]


def test_names_of_reward_types_and_of_merges_are_taken():
    assert is_taken("mc") and is_taken("cpmi_merge7") and is_taken("pav_merge")
    assert not is_taken("my_judge")


def test_the_corpuss_labels_and_the_users_own_come_with_the_data():
    assert [name for name in (*REWARD_TYPES, "my_judge") if comes_with_data(name)] == ["math_shepherd", "my_judge"]


def test_two_entries_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two entries of one registry are called `mc`; rename one of them"):
        by_name([REWARD_TYPES["mc"], REWARD_TYPES["pav"], REWARD_TYPES["mc"]])
