"""Step rewards by hand from METHOD's table, Eq. 1 and Eq. 2, and by their laws."""

from itertools import product

import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from cpmi_dagster.contracts.tables import AnswerLogprobs, ControlLogprobs, StepRewards
from cpmi_dagster.errors import ScoringError, SourceError
from cpmi_dagster.rewards.registry import REWARD_TYPES
from cpmi_dagster.rewards.reward_type import LabelInputs
from cpmi_dagster.rewards.settings import Rewards
from cpmi_dagster.rewards.step_rewards import step_rewards

# log-probabilities of the gold answer and two negatives, by context, under template 0
MEANS = {
    ("question", -1): (-2.0, -1.0, -3.0),
    ("step", 0): (-1.0, -2.0, -3.0),
    ("step", 1): (-3.0, -1.0, -1.0),
    ("prefix", 0): (-1.0, -2.0, -3.0),
    ("prefix", 1): (-0.5, -2.0, -2.0),
    ("all_but", 0): (-3.0, -1.0, -1.0),
    ("all_but", 1): (-1.0, -2.0, -3.0),
}
GOLD_UNDER_TEMPLATE_1 = {("step", 0): -0.0}
TOKENS = 4

CORRECT = {"t1": {1: "1110", 2: "1000"}, "t2": {1: "0000", 2: "1100"}}
PROVER_CORRECT = {"t1": {0: "10", 1: "11", 2: "00"}, "t2": {0: "10", 1: "10", 2: "11"}}

# worked out by hand from METHOD's table, Eq. 1 and Eq. 2; t2 could not be scored
BY_HAND = {
    "mc": {"t1": [0.75, 0.25], "t2": [0.0, 0.5]},
    "mc_hard": {"t1": [1.0, 1.0], "t2": [0.0, 1.0]},
    "pav": {"t1": [0.75 + 0.5, 0.25 - 1.0], "t2": [0.0, 0.5 + 0.5]},
    "cpmi": {"t1": [2.0, -2.0]},
    "cpmi_incremental": {"t1": [1.5, 0.0]},
    "cpmi_prefix": {"t1": [1.5, 1.5]},
    "cpmi_leave_one_out": {"t1": [3.5, 0.0]},
    "gold_only": {"t1": [1.5, -1.0]},
    "neg_only": {"t1": [0.5, -1.0]},
    "cpmi_m1": {"t1": [2.5, -1.0]},
    "cpmi_m2": {"t1": [2.0, -2.0]},
    "cpmi_merge1": {"t1": [0.75, -2.0]},
    "cpmi_merge2": {"t1": [0.75, 0.25]},
    "cpmi_merge3": {"t1": [0.75, 0.25]},
    "pav_merge1": {"t1": [1.25, -2.0]},
    "pav_merge2": {"t1": [1.25, -0.75]},
    "pav_merge3": {"t1": [1.25, -0.75]},
    "math_shepherd": {"t1": [1.0, 0.0], "t2": [0.0, 1.0]},
    "cpmi_max": {"t1": [2.5, -1.0]},
    "cpmi_logsumexp": {"t1": [2.3136663, -1.5662192]},
    "position": {"t1": [0.5, 0.0], "t2": [0.5, 0.0]},
    "final_answer": {"t1": [1.0, 1.0], "t2": [0.0, 0.0]},
    "final_answer_position": {"t1": [1.0, 1.0], "t2": [0.5, 0.0]},
    "step_length": {"t1": [-1.0, -1.0], "t2": [-1.0, -2.0]},
    "step_surprisal": {"t1": [-0.5, -3.0]},
    "truth": {"t1": [1.0, 0.0], "t2": [0.0, 0.0]},
}
# mean log-probabilities by control, context and answer rank, under one template
CONTROL_MEANS = {
    ("step_surprisal", "question", -1): (-0.5,),
    ("step_surprisal", "prefix", 0): (-3.0,),
}


def logprobs(table=AnswerLogprobs, means=MEANS, templates=2) -> pl.DataFrame:
    """A table of log-probabilities from mean ones; keys of `CONTROL_MEANS` begin with the control."""
    rows = []
    for template, ((*control, context, step), values) in product(range(templates), means.items()):
        for rank, mean in enumerate(values):
            if template == 1 and rank == 0:
                mean = GOLD_UNDER_TEMPLATE_1.get((context, step), mean)
            rows.append(("t1", template, context, step, rank, mean * TOKENS, TOKENS, *control))
    names = [*AnswerLogprobs.column_names(), *(["control"] if table is ControlLogprobs else [])]
    return table.cast(pl.DataFrame(rows, schema=names, orient="row"))


def rollouts(correct: dict[str, dict[int, str]]) -> pl.DataFrame:
    rows = [
        (trajectory, prefix, number, mark == "1")
        for trajectory, prefixes in correct.items()
        for prefix, marks in prefixes.items()
        for number, mark in enumerate(marks)
    ]
    return pl.DataFrame(rows, schema=["trajectory_id", "prefix_length", "rollout", "correct"], orient="row")


TRAJECTORIES = pl.DataFrame(
    {
        "trajectory_id": ["t1", "t2"],
        "row_number": [4, 7],
        "steps": [["a", "b"], ["c", "dd"]],
        "shepherd_labels": [[True, False], [False, True]],
        "gold_answer": ["1/2", "3"],
        "final_answer": ["0.5", "4"],
    }
)
TRUTH: list[tuple[int, list[bool | None]]] = [(7, [False, None]), (4, [True, False]), (5, [True])]
"""By row number; nobody has judged the step that follows the wrong one."""


def rewards_of(
    *types: str,
    logprobs_: pl.DataFrame | None = None,
    policy: dict = CORRECT,
    prover: dict = PROVER_CORRECT,
    truth: list[tuple[int, list[bool | None]]] = TRUTH,
    trajectories: pl.DataFrame = TRAJECTORIES,
    seed: int = 0,
    **options: object,
) -> dict[str, dict[str, list[float]]]:
    chosen = Rewards.model_validate({"types": types, **options})
    inputs = LabelInputs(
        logprobs=logprobs() if logprobs_ is None else logprobs_,
        policy_rollouts=rollouts(policy),
        prover_rollouts=rollouts(prover),
        trajectories=trajectories,
        conditioning=chosen.default_conditioning,
        alpha=chosen.alpha,
        seed=seed,
        step_logprobs=logprobs(ControlLogprobs, CONTROL_MEANS, 1),
        truth=pl.DataFrame(truth, schema=["row_number", "correct"], orient="row"),
    )
    frame = step_rewards(inputs, chosen.types)
    StepRewards.validate(frame)
    grouped = frame.group_by("reward_type", "trajectory_id", maintain_order=True).agg("reward")
    rewards: dict[str, dict[str, list[float]]] = {}
    for reward_type, trajectory, values in grouped.iter_rows():
        rewards.setdefault(reward_type, {})[trajectory] = values
    return rewards


@pytest.mark.parametrize("reward_type", BY_HAND)
def test_rewards_are_those_worked_out_by_hand(reward_type):
    rewards = rewards_of(reward_type)[reward_type]
    assert list(rewards) == list(BY_HAND[reward_type])
    for trajectory, values in BY_HAND[reward_type].items():
        assert rewards[trajectory] == pytest.approx(values)


def test_alpha_and_the_default_conditioning_are_settings():
    assert rewards_of("pav", alpha=0.5)["pav"]["t1"] == pytest.approx([0.75 + 0.25, 0.25 - 0.5])
    assert rewards_of("cpmi", default_conditioning="prefix")["cpmi"] == rewards_of("cpmi_prefix")["cpmi_prefix"]


def test_the_truth_labels_what_is_judged_up_to_the_first_wrong_step_and_nothing_else():
    assert rewards_of("mc", "truth", truth=[(4, [True, None]), (7, [True, True])])["truth"] == {"t2": [1.0, 1.0]}
    assert "truth" not in rewards_of("mc", "truth", truth=[(4, [None, False])])
    with pytest.raises(SourceError, match="trajectory t1 has 2 steps, but the truth of source row 4 has 3; correct"):
        rewards_of("truth", truth=[(4, [True, True, True])])


@pytest.mark.parametrize("reward_type", ["rand_merge", "uniform"])
def test_random_rewards_are_uniform_and_depend_on_the_seed_and_not_on_the_order_of_trajectories(reward_type):
    rewards = rewards_of(reward_type)
    assert rewards_of(reward_type, trajectories=TRAJECTORIES.reverse()) == rewards
    assert rewards_of(reward_type, seed=1) != rewards
    assert reward_type == "uniform" or [values[0] for values in rewards[reward_type].values()] == [0.75, 0.0]
    many = TRAJECTORIES.head(1).with_columns(steps=pl.lit("s").repeat_by(4000))
    values = pl.Series(rewards_of(reward_type, trajectories=many)[reward_type]["t1"][1:])
    assert (values.mean(), values.std()) == (pytest.approx(0.5, abs=0.02), pytest.approx(12**-0.5, abs=0.01))


def test_missing_rollouts_are_an_error_that_names_the_trajectory():
    prover = {**PROVER_CORRECT, "t1": {1: "11", 2: "00"}}
    with pytest.raises(ScoringError, match=r"`t1` lacks rollouts that `pav` of step_index 0 needs"):
        rewards_of("pav", prover=prover)


def test_a_merge_needs_the_rollouts_of_its_first_steps_alone_and_leaves_out_trajectories_without_any():
    only_first = {trajectory: {1: prefixes[1]} for trajectory, prefixes in CORRECT.items()}
    assert rewards_of("cpmi_merge1", policy=only_first) == rewards_of("cpmi_merge1")
    for reward_type in ("rand_merge", "mc"):
        assert set(rewards_of(reward_type, policy={"t1": CORRECT["t1"]})[reward_type]) == {"t1"}


def test_pav_in_a_merge_needs_no_prover_where_another_type_has_asked_the_policy_alone():
    prover = {trajectory: {0: prefixes[0], 1: prefixes[1]} for trajectory, prefixes in PROVER_CORRECT.items()}
    assert rewards_of("mc", "pav_merge1", prover=prover) == rewards_of("mc", "pav_merge1")


def test_without_scored_trajectories_only_rollouts_give_rewards():
    assert set(rewards_of("mc", "cpmi", "gold_only", "cpmi_merge1", logprobs_=logprobs().head(0))) == {"mc"}
    gold = logprobs().filter(pl.col("answer_rank") == 0)
    assert rewards_of("gold_only", logprobs_=gold) == rewards_of("gold_only")


@hypothesis_settings(max_examples=20, deadline=None)
@given(st.randoms(use_true_random=False))
def test_rewards_do_not_depend_on_the_order_of_templates_or_rows(random):
    rows = logprobs()
    order = random.sample(range(rows.height), rows.height)
    renamed = rows.with_columns(template=1 - pl.col("template"))[order]
    types: tuple[str, ...] = ("cpmi", "cpmi_incremental", "gold_only", "neg_only")
    shuffled, straight = rewards_of(*types, logprobs_=renamed), rewards_of(*types)
    for reward_type in types:
        assert shuffled[reward_type]["t1"] == pytest.approx(straight[reward_type]["t1"], abs=1e-12)


def test_what_a_model_is_asked_for_is_billed():
    billed = set(Rewards(types=tuple(REWARD_TYPES)).methods)
    assert {"mc", "cpmi", "cpmi_logsumexp", "cpmi_merge1", "rand_merge", "step_surprisal"} <= billed
    assert not {"position", "first_error", "uniform", "truth", "math_shepherd"} & billed
