"""What controls and comparisons ask of the labeling assets, and that nobody is billed for them."""

import pytest

from cpmi_dagster.rewards.demand import Demand, demand_of
from cpmi_dagster.rewards.registry import REWARD_TYPES
from cpmi_dagster.rewards.settings import Rewards


@pytest.mark.parametrize(
    ("types", "demand"),
    [
        (["position", "final_answer", "step_length", "uniform", "truth"], Demand()),
        (["step_surprisal"], Demand(controls=("step_surprisal",))),
        (["cpmi_logsumexp", "cpmi_max"], Demand(("marginal",), 4)),
    ],
)
def test_a_type_asks_for_what_it_takes_and_nothing_else(types, demand):
    assert demand_of(types, "marginal", 4) == demand


def test_methods_are_billed_and_controls_are_not():
    billed = set(Rewards(types=tuple(REWARD_TYPES)).methods)
    assert {"mc", "cpmi", "cpmi_logsumexp", "cpmi_merge1", "rand_merge"} <= billed
    controls = {"position", "step_surprisal", "uniform", "truth"}
    assert not (controls | {"math_shepherd"}) & billed
