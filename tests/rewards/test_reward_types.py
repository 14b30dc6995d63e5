"""What reward types read, what they are called, and that nobody is billed for controls."""

import pytest

from cpmi_dagster.contracts.contexts import CONDITIONINGS, PAPERS
from cpmi_dagster.rewards.registry import REWARD_TYPES, demand_of
from cpmi_dagster.rewards.reward_type import ALL, Demand
from cpmi_dagster.rewards.settings import Rewards


@pytest.mark.parametrize(
    ("types", "demand"),
    [
        (["position", "step_length", "uniform"], Demand()),
        (["final_answer", "truth", "math_shepherd"], Demand(inputs=("final_answer", "truth", "corpus_labels"))),
        (["step_surprisal"], Demand(inputs=("step_texts",))),
        (["cpmi_logsumexp", "cpmi_max", "cpmi_m1"], Demand(("marginal",), 4)),
        (["gold_only"], Demand(("marginal",))),
        (["cpmi_leave_one_out", "cpmi"], Demand(("marginal", "leave_one_out"), 4)),
        (["cpmi_merge3", "pav_merge2"], Demand(("marginal",), 4, policy_steps=3, prover_steps=2)),
        (["rand_merge"], Demand(policy_steps=1)),
        (["pav", "cpmi_merge1"], Demand(("marginal",), 4, policy_steps=ALL, prover_steps=ALL)),
    ],
)
def test_types_ask_for_what_they_read_and_nothing_else(types, demand):
    assert demand_of(types, "marginal", 4) == demand


def test_methods_are_billed_and_controls_are_not():
    billed = set(Rewards(types=tuple(REWARD_TYPES)).methods)
    assert {"mc", "cpmi", "cpmi_logsumexp", "cpmi_merge1", "rand_merge"} <= billed
    assert not {"position", "step_surprisal", "uniform", "truth", "math_shepherd"} & billed


def test_every_type_has_a_label_of_its_own_and_every_conditioning_a_type():
    assert len({entry.label for entry in REWARD_TYPES.values()}) == len(REWARD_TYPES)
    assert {name for name in CONDITIONINGS if f"cpmi_{name}" in REWARD_TYPES} == set(CONDITIONINGS) - {PAPERS}
