"""Adding chunks up to a plan: methods, merges, shares, prices, samples."""

from io import StringIO

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_examples import CARD
from rich.console import Console

from cpmi_dagster.cli.views import show_plan
from cpmi_dagster.contracts.cost import Cost, in_proportion
from cpmi_dagster.planning import notes
from cpmi_dagster.planning.labeling import ChunkCosts
from cpmi_dagster.planning.plan import EVERYTHING, Plan, make_plan, method_groups
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.rewards.costs import TARGET_TOKENS, CostBasis
from cpmi_dagster.rewards.demand import demand_of

TYPES = ("mc", "mc_hard", "pav", "cpmi", "gold_only", "cpmi_merge1", "cpmi_merge2", "pav_merge1", "rand_merge")
MODELS = {"labeler": "big", "rollouts": "middle", "prover": "small"}
DEMAND = demand_of(TYPES, "marginal", 2)
BASIS = CostBasis("marginal", 2, {"rollouts": 8, "prover": 4})
# one trajectory of one step: tokens of its gold answer and of two negatives
TARGETS = pl.DataFrame([("t", "question", -1, 1, 2), ("t", "step", 0, 1, 2)], schema=TARGET_TOKENS, orient="row")
GUESSES = frozenset({("policy_rollouts", "generated")})


def chunk(shard: str = "000", factor: int = 1, size: int = 2, guesses=GUESSES) -> ChunkCosts:
    """Policy rollouts: 50 tokens for prefixes of one step, 40 of two, 10 of three."""
    lengths = {"rollouts": [1, 2, 3], "prover": [0, 1, 2]}
    generated = {"rollouts": [50, 40, 10], "prover": [80, 60, 60]}
    return ChunkCosts(
        shard,
        size,
        {
            "hard_negatives": Cost(2.0 * factor, 9_000 * factor, 600 * factor),
            "answer_logprobs": Cost(6.0 * factor, 81_000 * factor, 0),
            "policy_rollouts": Cost(40.0 * factor, 1_000 * factor, 100 * factor),
            "prover_rollouts": Cost(20.0 * factor, 500 * factor, 200 * factor),
        },
        {
            role: pl.DataFrame(
                {
                    "trajectory_id": ["t"] * 3,
                    "prefix_length": lengths[role],
                    "generated_tokens": [tokens * factor for tokens in generated[role]],
                }
            )
            for role in lengths
        },
        TARGETS,
        guesses,
    )


def plan_of(chunks, trajectories: int, gpus: int = 1, portions: int | None = None) -> Plan:
    return make_plan(chunks, trajectories, TYPES, DEMAND, BASIS, MODELS, CARD, gpus, portions or gpus)


def figures(plan: Plan, method: str) -> tuple[int, int]:
    row = plan.row(method)
    return row["forward_tokens"], row["generated_tokens"]


def test_methods_of_one_price_share_a_row_and_controls_have_none():
    assert method_groups(TYPES) == {
        "mc": ["mc_hard"], "pav": [], "cpmi": [], "gold_only": [], "cpmi_merge1": [], "cpmi_merge2": [],
        "pav_merge1": [],
    }  # fmt: skip
    assert method_groups(["neg_only", "cpmi"]) == {"mc": [], "neg_only": ["cpmi"]}


def test_each_method_pays_for_what_it_needs():
    plan = plan_of([chunk()], 2)
    assert figures(plan, "mc") == (1_000, 100)
    assert figures(plan, "pav") == (1_500, 300)
    assert figures(plan, "cpmi") == (90_000, 600)
    assert figures(plan, "gold_only") == (27_000, 0)
    assert figures(plan, EVERYTHING) == (91_500, 900)


def test_a_run_of_cpmi_alone_costs_what_cpmi_costs_however_much_is_planned_for_comparison():
    demand = demand_of(["cpmi"], "marginal", 2)
    plan = make_plan([chunk()], 2, ["cpmi"], demand, BASIS, MODELS, CARD, 1, 1)
    assert figures(plan, EVERYTHING) == figures(plan, "cpmi") == (90_000, 600)
    assert plan.row(EVERYTHING)["model"] == "big"


def test_a_merge_pays_for_the_rollouts_of_its_first_steps():
    plan = plan_of([chunk()], 2)
    assert figures(plan, "cpmi_merge1") == (90_500, 650)
    assert figures(plan, "cpmi_merge2") == (90_900, 690)
    assert figures(plan, "pav_merge1") == (90_000 + 500 + 350, 600 + 50 + 140)


def test_hours_shares_and_price_by_hand():
    plan = plan_of([chunk(factor=900)], 2, gpus=4)
    mc, cpmi = plan.row("mc"), plan.row("cpmi")
    assert (mc["gpu_hours"], mc["hours"], mc["usd"]) == pytest.approx((10.0, 2.5, 36.0))
    assert (cpmi["gpu_hours"], cpmi["time_share_of_mc"], cpmi["generated_share_of_mc"]) == pytest.approx(
        (2.0, 0.2, 6.0)
    )
    assert (
        notes.closing(plan)[0]
        == "CPMI: 30 min on 4 x test-card, $7.20; 600 % of MC's generated tokens, 20 % of its time"
    )


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9)), min_size=1, max_size=6))
def test_a_sample_of_everything_is_exact(sizes):
    chunks = [chunk(f"00{index % 3}", factor, size) for index, (factor, size) in enumerate(sizes)]
    plan = plan_of(chunks, sum(size for _, size in sizes))
    total = sum(factor for factor, _ in sizes)
    assert figures(plan, "cpmi") == (90_000 * total, 600 * total)
    assert plan.frame["sampling_error"].to_list() == [0.0] * plan.frame.height
    assert plan.row("cpmi")["forward_basis"] == "exact"
    assert plan.row("mc")["generated_basis"] == plan.row("cpmi_merge1")["forward_basis"] == "estimate"


def test_a_sample_is_scaled_by_its_trajectories_and_says_how_far_off_it_may_be():
    alike = plan_of([chunk(size=2), chunk(size=2)], 40)
    assert figures(alike, "cpmi") == (10 * 180_000, 10 * 1_200)
    assert alike.row("cpmi")["sampling_error"] == pytest.approx(0)
    assert {*alike.frame["forward_basis"], *alike.frame["generated_basis"]} == {"estimate"}
    # two clusters of 2 with totals 1 and 3: mean 2, variance 2, 36 of 40 left out; 12.7062 from a table of Student's t
    uneven = plan_of([chunk(), chunk(factor=3)], 40).row("mc")["sampling_error"]
    assert uneven == pytest.approx(12.7062 * (0.9 * 2 / 2) ** 0.5 / 2, rel=1e-4)
    assert plan_of([chunk()], 40).row("mc")["sampling_error"] is None


def test_a_part_of_a_total_is_whole_and_the_parts_add_up():
    assert in_proportion(100, [1] * 7) == [14, 14, 14, 15, 14, 14, 15]


@pytest.mark.parametrize("width", [100, 160])
def test_no_cell_is_cut_off_at_usual_widths(width):
    plan = plan_of([chunk(factor=1), chunk(factor=3)], 80_000, gpus=8)
    console = Console(width=width, record=True, file=StringIO())
    show_plan(console, plan, load_settings("paper"), quiet=True)
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    assert sum("≈ 3,6" in line or "≈ 7,2" in line for line in lines) > 1


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (notes.duration(2.14), "2.1 h"), (notes.duration(0.25), "15 min"), (notes.duration(0.001), "3.6 s"),
        (notes.dollars(0), ""), (notes.dollars(0.001), "< $0.01"), (notes.dollars(1234.5), "$1,234"),
        (notes.percent(0.0042), "0.4 %"), (notes.percent(0.5), "50 %"), (notes.percent(0), "0 %"),
        (notes.count(99_999_999, "exact", False), "99,999,999"),
        (notes.count(2_345_600_000, "estimate", True), "≈ 2,345.6 M"),
    ],
)  # fmt: skip
def test_figures_are_written_for_people(written, text):
    assert written == text


def test_the_card_with_most_chunks_is_waited_for():
    even, uneven = (plan_of([chunk()], 2, gpus=3, portions=portions).row("mc") for portions in (3, 4))
    assert even["hours"] == pytest.approx(even["gpu_hours"] / 3)
    assert uneven["hours"] == pytest.approx(uneven["gpu_hours"] / 2)
