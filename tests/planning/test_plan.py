"""Adding counts up to a plan: methods, merges, shares, prices, samples, and text for people."""

from io import StringIO

import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from rich.console import Console

from cpmi_dagster.cli.views import show_plan
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.planning import notes
from cpmi_dagster.planning.plan import EVERYTHING, Plan, make_plan, method_groups
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.commands.labeling_plan import choose_units
from cpmi_dagster.rewards.costs import TARGET_TOKENS, Measured

TYPES = ("mc", "mc_hard", "pav", "cpmi", "gold_only", "cpmi_merge1", "cpmi_merge2", "pav_merge1", "rand_merge")
MODELS = {"labeler": "big", "rollouts": "middle", "prover": "small"}
# one trajectory of one step: tokens of its gold answer and of two negatives
TARGETS = pl.DataFrame([("t", "question", -1, 1, 2), ("t", "step", 0, 1, 2)], schema=TARGET_TOKENS, orient="row")


def profile(*types: str):
    own = load_settings("paper")
    rewards = own.rewards.model_copy(update={"types": types})
    negatives = own.negatives.model_copy(update={"count": 2})
    scoring = own.scoring.model_copy(update={"conditionings": ()})
    return own.model_copy(update={"rewards": rewards, "negatives": negatives, "scoring": scoring})


PROFILE = profile(*TYPES)


def counted(factor: int = 1, size: int = 2) -> tuple[int, Measured]:
    """Policy rollouts: 50 tokens for prefixes of one step, 40 of two, 10 of three."""
    lengths = {"rollouts": [1, 2, 3], "prover": [0, 1, 2]}
    generated = {"rollouts": [50, 40, 10], "prover": [80, 60, 60]}
    costs = {
        "hard_negatives": Cost(2.0 * factor, 9_000 * factor, 600 * factor),
        "answer_logprobs": Cost(6.0 * factor, 81_000 * factor, 0),
        "policy_rollouts": Cost(40.0 * factor, 1_000 * factor, 100 * factor),
        "prover_rollouts": Cost(20.0 * factor, 500 * factor, 200 * factor),
    }
    rollouts = {
        role: pl.DataFrame({"prefix_length": lengths[role], "generated_tokens": generated[role]}).with_columns(
            pl.col("generated_tokens") * factor, rollout=pl.lit(0)
        )
        for role in lengths
    }
    return size, Measured(costs, rollouts, TARGETS)


@pytest.fixture
def plan_of(card):
    def made(units, trajectories, settings=PROFILE, gpus=1, chunks=None, **options) -> Plan:
        return make_plan(units, trajectories, chunks or gpus, settings, MODELS, card, gpus, **options)

    return made


def row_of(plan: Plan, method: str) -> dict:
    return plan.frame.row(by_predicate=pl.col("method") == method, named=True)


def figures(plan: Plan, method: str) -> tuple[int, int]:
    row = row_of(plan, method)
    return row["forward_tokens"], row["generated_tokens"]


def test_methods_of_one_price_share_a_row_and_controls_have_none():
    assert method_groups(TYPES) == {
        "mc": ["mc_hard"], "pav": [], "cpmi": [], "gold_only": [], "cpmi_merge1": [], "cpmi_merge2": [],
        "pav_merge1": [],
    }  # fmt: skip
    assert method_groups(["neg_only", "cpmi"]) == {"mc": [], "neg_only": ["cpmi"]}


@pytest.mark.parametrize(
    ("method", "tokens"),
    [
        ("mc", (1_000, 100)),
        ("pav", (1_500, 300)),
        ("cpmi", (90_000, 600)),
        ("gold_only", (27_000, 0)),
        ("cpmi_merge1", (90_500, 650)),
        ("cpmi_merge2", (90_900, 690)),
        ("pav_merge1", (90_000 + 500 + 350, 600 + 50 + 140)),
        (EVERYTHING, (91_500, 900)),
    ],
)
def test_each_method_pays_for_what_it_needs(plan_of, method, tokens):
    assert figures(plan_of([counted()], 2), method) == tokens


def test_a_run_of_cpmi_alone_costs_what_cpmi_costs_however_much_is_planned_for_comparison(plan_of):
    plan = plan_of([counted()], 2, profile("cpmi"))
    assert figures(plan, EVERYTHING) == figures(plan, "cpmi") == (90_000, 600)
    assert row_of(plan, EVERYTHING)["model"] == "big"


def test_hours_shares_and_price_by_hand(plan_of):
    plan = plan_of([counted(factor=900)], 2, gpus=4)
    mc, cpmi = row_of(plan, "mc"), row_of(plan, "cpmi")
    assert (mc["gpu_hours"], mc["hours"], mc["usd"]) == pytest.approx((10.0, 2.5, 36.0))
    shares = cpmi["gpu_hours"], cpmi["time_share_of_mc"], cpmi["generated_share_of_mc"]
    assert shares == pytest.approx((2.0, 0.2, 6.0))


def test_the_card_with_most_chunks_is_waited_for_and_no_more_work_than_there_are(plan_of):
    even, uneven = (row_of(plan_of([counted()], 2, gpus=3, chunks=chunks), "mc") for chunks in (3, 4))
    assert even["hours"] == pytest.approx(even["gpu_hours"] / 3)
    assert uneven["hours"] == pytest.approx(uneven["gpu_hours"] / 2)
    assert plan_of([counted()], 2, gpus=8, chunks=2).gpus == 2


def test_seconds_that_a_home_took_count_in_the_place_of_the_cards(plan_of):
    # MC took 10 s a trajectory where 20 s are estimated; what was not measured is taken to be as fast
    labelled = pl.DataFrame(
        {"method": ["mc", "mc", "pav"], "wall_seconds": [10.0, 30.0, 0.0], "trajectories": [1, 3, 0]}
    )
    estimate, plan = (plan_of([counted()], 2, labelled=rows) for rows in (None, labelled))
    assert (estimate.labelled, plan.labelled) == (0, 4)
    for method, seconds in (("mc", 20.0), ("cpmi", 4.0), (EVERYTHING, 34.0)):
        assert row_of(plan, method)["gpu_hours"] * 3600 == pytest.approx(seconds)
        assert figures(plan, method) == figures(estimate, method)


@hypothesis_settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9)), min_size=1, max_size=6))
def test_a_sample_of_everything_is_exact(card, sizes):
    units = [counted(factor, size) for factor, size in sizes]
    everything = sum(size for _, size in sizes)
    plan = make_plan(units, everything, 1, PROFILE, MODELS, card, 1, {"policy_rollouts"})
    total = sum(factor for factor, _ in sizes)
    assert figures(plan, "cpmi") == (90_000 * total, 600 * total)
    assert plan.frame["sampling_error"].to_list() == [0.0] * plan.frame.height
    assert row_of(plan, "cpmi")["forward_basis"] == "exact"
    assert row_of(plan, "mc")["generated_basis"] == row_of(plan, "cpmi_merge1")["forward_basis"] == "estimate"


def test_a_sample_is_scaled_by_its_trajectories_and_says_how_far_off_it_may_be(plan_of):
    alike = plan_of([counted(), counted()], 40)
    assert figures(alike, "cpmi") == (10 * 180_000, 10 * 1_200)
    assert row_of(alike, "cpmi")["sampling_error"] == pytest.approx(0)
    assert {*alike.frame["forward_basis"], *alike.frame["generated_basis"]} == {"estimate"}
    # two clusters of 2 with totals 1 and 3: mean 2, variance 2, 36 of 40 left out; 12.7062 from a table of Student's t
    uneven = row_of(plan_of([counted(), counted(factor=3)], 40), "mc")["sampling_error"]
    assert uneven == pytest.approx(12.7062 * (0.9 * 2 / 2) ** 0.5 / 2, rel=1e-4)
    assert row_of(plan_of([counted()], 40), "mc")["sampling_error"] is None


def test_a_sample_is_made_of_whole_chunks_and_a_seed_repeats_it():
    shards = {"000": 5, "001": 3}
    drawn = choose_units(shards, 2, 3, seed=0)
    assert drawn == sorted(drawn) == choose_units(shards, 2, 3, seed=0)
    assert sum(unit.size for unit in drawn) >= 3
    assert all(unit.start % 2 == 0 and unit.size in (1, 2) for unit in drawn)
    assert len(choose_units(shards, 2, 1, seed=0)) == 2
    assert choose_units(shards, 2, 0, 0) == choose_units(shards, 2, 8, 0) == [("000", 0, 5), ("001", 0, 3)]


@pytest.mark.parametrize("width", [100, 160])
def test_no_cell_is_cut_off_at_usual_widths(plan_of, width):
    console = Console(width=width, record=True, file=StringIO())
    show_plan(console, plan_of([counted(), counted(factor=3)], 80_000, gpus=8), PROFILE, quiet=True)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert "≈ 7,2" in text


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
