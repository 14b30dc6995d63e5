"""Each labeling method costs what it uses, worked out by hand; RelEff is tested beside the paper's figures."""

import polars as pl
from pytest import approx

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.tables import AnswerLogprobs, LabelingCosts
from cpmi_dagster.rewards.costs import TARGET_TOKENS, Measured, labeling_costs, sampled_rollouts, target_tokens
from cpmi_dagster.rewards.settings import Rewards

COSTS = {
    "hard_negatives": Cost(2.0, 9_000, 600),
    "answer_logprobs": Cost(6.0, 81_000, 0),
    "control_logprobs": Cost(1.0, 9_000, 0),
    "policy_rollouts": Cost(40.0, 1000, 100),
    "prover_rollouts": Cost(20.0, 500, 200),
}
POLICY = pl.DataFrame({"prefix_length": [1, 1, 2, 3], "generated_tokens": [20, 30, 40, 10]})
PROVER = pl.DataFrame({"prefix_length": [0, 1, 2, 3], "generated_tokens": [80, 60, 40, 20]})
# a trajectory of two steps, scored alone and as prefixes; a gold answer of 1 token, two negatives of 2 together
TARGETS = pl.DataFrame(
    [
        ("t", kind, step, 1, 2)
        for kind, step in (("question", -1), ("step", 0), ("step", 1), ("prefix", 0), ("prefix", 1))
    ],
    schema=TARGET_TOKENS,
    orient="row",
)
MODELS = {"labeler": "big", "rollouts": "big", "prover": "small"}


def costs_of(*methods: str, completed: int | None = None, read: int | None = None) -> dict[str, dict]:
    measured = Measured(COSTS, {"rollouts": POLICY, "prover": PROVER}, TARGETS)
    frame = labeling_costs("000", 4, measured, Rewards(types=methods), 2, MODELS, completed, read)
    LabelingCosts.validate(frame)
    return {row["method"]: row for row in frame.iter_rows(named=True)}


def measured(row: dict) -> tuple[float, int, int]:
    return row["wall_seconds"], row["forward_tokens"], row["generated_tokens"]


def test_each_method_pays_for_what_it_uses():
    costs = costs_of("mc", "pav", "cpmi", "cpmi_incremental")
    assert measured(costs["mc"]) == (40.0, 1000, 100)
    assert measured(costs["pav"]) == (60.0, 1500, 300)
    # 9 of 15 tokens: the question and each step alone, or the question and the prefixes
    assert measured(costs["cpmi"]) == measured(costs["cpmi_incremental"]) == approx((2 + 6 * 9 / 15, 57_600, 600))
    assert [costs[method]["model"] for method in ("mc", "pav", "cpmi")] == ["big", "big + small", "big"]


def test_surprisal_pays_for_the_steps_that_the_labeler_reads_also_those_of_solutions_without_a_gold_answer():
    costs = costs_of("cpmi", "step_surprisal", "position", read=5)
    assert measured(costs["step_surprisal"]) == (1.0, 9_000, 0) and "position" not in costs
    assert (costs["step_surprisal"]["trajectories"], costs["cpmi"]["trajectories"]) == (5, 4)


def test_a_merge_pays_for_the_rollouts_of_its_first_steps():
    costs = costs_of("cpmi_merge1", "cpmi_merge2", "pav_merge1", "rand_merge")
    assert measured(costs["cpmi_merge1"]) == approx((5.6 + 20.0, 58_100, 650))
    assert measured(costs["cpmi_merge2"]) == approx((5.6 + 36.0, 58_500, 690))
    assert measured(costs["pav_merge1"]) == approx((5.6 + 20.0 + 14.0, 58_450, 790))
    assert measured(costs["rand_merge"]) == (20.0, 500, 50)


def test_completions_of_a_prefix_that_trajectories_share_are_paid_once_by_every_method():
    trajectories = pl.DataFrame(
        [(name, "q", ["s", last], "1") for name, last in (("a", "x"), ("b", "y"))],
        schema=["trajectory_id", "question", "steps", "gold_answer"],
        orient="row",
    )
    rows = [
        (name, length, number, tokens)
        for name, last in (("a", 8), ("b", 16))
        for length, tokens in ((0, 5), (1, 10), (2, last))
        for number in range(2)
    ]
    schema = ["trajectory_id", "prefix_length", "rollout", "generated_tokens"]
    sampled = sampled_rollouts(pl.DataFrame(rows, schema=schema, orient="row"), trajectories)
    assert sampled.group_by("prefix_length").agg(pl.col("generated_tokens").sum()).sort("prefix_length").rows() == [
        (0, 10), (1, 20), (2, 48),
    ]  # fmt: skip
    costs = {**COSTS, "policy_rollouts": Cost(34.0, 680, 68)}
    spent = Measured(costs, {"rollouts": sampled.filter(pl.col("prefix_length") > 0), "prover": PROVER}, TARGETS)
    frame = labeling_costs("000", 2, spent, Rewards(types=("mc", "mc_hard", "rand_merge")), 2, MODELS)
    assert frame["generated_tokens"].to_list() == [68, 68, 20]
    assert frame["wall_seconds"].to_list() == approx([34.0, 34.0, 10.0])


def test_answers_that_a_method_does_not_contrast_with_are_not_its_cost():
    costs = costs_of("gold_only", "cpmi_m1", "neg_only")
    # gold answers alone: 3 of 15 tokens, and no hard negatives
    assert measured(costs["gold_only"]) == approx((6 * 3 / 15, 16_200, 0))
    # all negatives given the question, which orders them; then half of them
    assert measured(costs["cpmi_m1"]) == approx((2 + 6 * 7 / 15, 9_000 + 37_800, 600))
    assert measured(costs["neg_only"]) == measured(costs_of("cpmi")["cpmi"])


def test_a_method_that_takes_rollouts_pays_for_the_scores_of_the_trajectories_that_have_some():
    costs = costs_of("mc", "cpmi", "cpmi_merge1", completed=1)
    assert {name: row["trajectories"] for name, row in costs.items()} == {"mc": 1, "cpmi": 4, "cpmi_merge1": 1}
    assert measured(costs["mc"]) == (40.0, 1000, 100)
    assert measured(costs["cpmi_merge1"]) == approx((5.6 / 4 + 20.0, 57_600 / 4 + 500, 150 + 50))


def test_tokens_of_answers_are_counted_by_context():
    rows = [("t", k, "question", -1, rank, -1.0, tokens) for k in (0, 1) for rank, tokens in ((0, 3), (1, 4), (2, 5))]
    logprobs = pl.DataFrame(rows, AnswerLogprobs.create_empty().schema, orient="row")
    assert target_tokens(logprobs).rows() == [("t", "question", -1, 6, 18)]
