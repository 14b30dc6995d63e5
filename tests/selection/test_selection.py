"""The choice of trajectories: exact ratios, spread over questions, independent of row order."""

from collections import Counter
from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.alignment.align import question_id
from cpmi_dagster.selection.quotas import CELLS, Shares, choose_quotas, exact_share
from cpmi_dagster.selection.select import Selection, dataset_statistics, select_trajectories

LABELS = {"mixed": [True, False], "good": [True, True], "bad": [False, False], "none": None}


def corpus(*kinds: tuple[str, str, int, int]) -> pl.DataFrame:
    """Trajectories of `(task, label kind, questions, trajectories per question)`; same task, same questions."""
    rows = []
    for task, kind, questions, each in kinds:
        for question in range(questions):
            rows += [(task, f"{task} {question}", LABELS[kind])] * each
    return pl.DataFrame(
        {
            "trajectory_id": [f"t{number:09d}" for number in range(len(rows))],
            "question_id": [question_id(question) for _, question, _ in rows],
            "task": [task for task, _, _ in rows],
            "steps": [["one", "two"]] * len(rows),
            "shepherd_labels": [labels for _, _, labels in rows],
        },
        schema_overrides={"trajectory_id": pl.String, "question_id": pl.String, "task": pl.String,
                          "steps": pl.List(pl.String), "shepherd_labels": pl.List(pl.Boolean)},
    )  # fmt: skip


PLENTY = corpus(("GSM8K", "mixed", 20, 4), ("GSM8K", "good", 20, 4), ("MATH", "mixed", 20, 4), ("MATH", "bad", 20, 4))


def test_a_shortage_shrinks_the_set_and_is_named():
    few = corpus(("GSM8K", "mixed", 30, 4), ("GSM8K", "good", 30, 4), ("MATH", "mixed", 5, 2), ("MATH", "bad", 5, 2))
    result = select_trajectories(few, Selection(trajectories=100), seed=0, shards=4)
    assert Counter(result.selected["task"]) == {"GSM8K": 20, "MATH": 20}
    assert Counter(result.selected["composition"]) == {"mixed": 28, "pure": 12}
    assert result.shortfalls == [
        "short of MATH trajectories: 50 wanted, 20 there; the selection shrinks from 100 to 40"
    ]


def test_a_shortage_of_one_cell_moves_the_others():
    supply = dict(zip(CELLS, (30, 30, 9, 30), strict=True))
    quotas = choose_quotas(supply, 40, Shares(exact_share(0.5), exact_share(0.7)))
    assert list(quotas.values()) == [19, 1, 9, 11]


def test_problems_that_nobody_starts_well_are_left_out():
    rows = corpus(("GSM8K", "bad", 3, 2), ("GSM8K", "mixed", 1, 2))
    chosen = select_trajectories(rows, Selection(trajectories=None, gsm8k_share=None, mixed_share=None), 0, 4).selected
    assert set(chosen["question_id"]) == {question_id("GSM8K 0")}
    assert chosen.height == 4
    lifted = Selection(trajectories=None, gsm8k_share=None, mixed_share=None, leave_out_too_hard=False)
    assert select_trajectories(rows, lifted, 0, 4).selected.height == rows.height


def test_without_labels_the_mix_and_the_too_hard_rule_are_off_and_the_notes_say_so():
    result = select_trajectories(corpus(("GSM8K", "none", 5, 4), ("MATH", "none", 5, 4)), Selection(), 0, 4)
    assert result.selected.height == 40
    assert set(result.selected["composition"]) == {"unlabelled"}
    assert result.shortfalls[:2] == [
        "the share of mixed trajectories is not kept: 40 of 40 trajectories have no labels",
        "no question of a trajectory without labels is left out as too hard: 40 of 40 trajectories have no labels",
    ]


def test_a_question_with_an_unlabelled_trajectory_is_not_known_to_be_too_hard():
    rows = pl.concat([corpus(("GSM8K", "bad", 2, 2)), corpus(("GSM8K", "none", 1, 1))]).with_columns(
        trajectory_id=pl.format("t{}", pl.int_range(pl.len()))
    )
    lifted = Selection(trajectories=None, gsm8k_share=None)
    chosen = select_trajectories(rows, lifted, 0, 4).selected
    assert chosen.sort("trajectory_id")["composition"].to_list() == ["pure", "pure", "unlabelled"]
    assert set(chosen["question_id"]) == {question_id("GSM8K 0")}


def test_where_no_trajectory_is_of_gsm8k_or_math_their_ratio_is_lifted():
    rows = corpus(("OWN", "mixed", 7, 1), ("SUMS", "good", 3, 1))
    result = select_trajectories(rows, Selection(trajectories=10), 0, 4)
    assert result.selected.height == 10
    assert result.shortfalls == ["the share of GSM8K is not kept: no trajectory is of GSM8K or MATH"]
    statistics = dataset_statistics(result.selected, rows, Selection(trajectories=10))
    assert "gsm8k_share" not in statistics["statistic"]


def test_statistics_of_labels_are_those_of_labelled_trajectories():
    rows = pl.concat([corpus(("MATH", "mixed", 3, 1)), corpus(("MATH", "none", 2, 1))]).with_columns(
        trajectory_id=pl.format("t{}", pl.int_range(pl.len()))
    )
    everything = Selection(trajectories=None, gsm8k_share=None)
    chosen = select_trajectories(rows, everything, 0, 4).selected
    table = {row["statistic"]: row for row in dataset_statistics(chosen, rows, everything).iter_rows(named=True)}
    assert (table["mixed_share"]["target"], table["mixed_share"]["actual"]) == (None, 1)
    assert table["positive_step_share"]["actual"] == 0.5
    assert table["unlabelled_trajectories"]["actual"] == 2
    unlabelled = rows.filter(pl.col("shepherd_labels").is_null())
    chosen = select_trajectories(unlabelled, everything, 0, 4).selected
    absent = {"mixed_share", "positive_step_share"}
    assert not absent & set(dataset_statistics(chosen, unlabelled, everything)["statistic"])


def test_every_question_gives_its_first_before_any_gives_its_second():
    rows = pl.concat([corpus(("GSM8K", "mixed", 12, 1)), corpus(("GSM8K", "mixed", 4, 9))]).with_columns(
        trajectory_id=pl.format("t{}", pl.int_range(pl.len()).cast(pl.String).str.zfill(9))
    )
    chosen = select_trajectories(rows, Selection(trajectories=20, gsm8k_share=None, mixed_share=None), 5, 4).selected
    picks = Counter(Counter(chosen["question_id"]).values())
    assert picks == {1: 8, 3: 4}


def test_ratios_are_exact_where_supply_allows_and_the_statistics_show_them():
    selection = Selection(trajectories=100)
    result = select_trajectories(PLENTY, selection, seed=0, shards=4)
    assert result.shortfalls == []
    assert set(result.selected["shard"]) <= {"000", "001", "002", "003"}
    rows = dataset_statistics(result.selected, PLENTY, selection).rows()
    found = {name: (target, actual) for name, target, actual in rows}
    assert (found["trajectories"], found["gsm8k_share"]) == ((100, 100), (0.5, 0.5))
    assert found["mixed_share"] == (0.7, pytest.approx(0.7))
    assert (found["steps"], found["max_steps"]) == ((None, 200), (None, 2))
    others = [select_trajectories(PLENTY, selection, seed, 4).selected for seed in (1, 2)]
    assert not any(other.equals(result.selected) for other in others)


def test_nothing_to_choose_from_is_an_empty_choice():
    result = select_trajectories(PLENTY.clear(), Selection(trajectories=10), seed=0, shards=4)
    assert result.selected.is_empty() and result.shortfalls
    assert dataset_statistics(result.selected, PLENTY, Selection(trajectories=10))["actual"].sum() == 0


supplies = st.tuples(*[st.integers(0, 12)] * 4)


@settings(max_examples=25, deadline=None)
@given(supply=supplies, total=st.integers(1, 40), seed=st.integers(0, 9), order=st.randoms(use_true_random=False))
def test_the_choice_keeps_its_ratios_and_ignores_row_order(supply, total, seed, order):
    kinds = [("GSM8K", "mixed"), ("GSM8K", "good"), ("MATH", "mixed"), ("MATH", "good")]
    rows = corpus(*[(task, kind, count, 2) for (task, kind), count in zip(kinds, supply, strict=True)])
    selection = Selection(trajectories=total)
    result = select_trajectories(rows, selection, seed, shards=4)
    chosen = result.selected
    assert chosen["trajectory_id"].is_unique().all() and chosen.height <= total
    assert abs(chosen.filter(pl.col("task") == "GSM8K").height - chosen.height / 2) <= 0.5
    assert abs(chosen.filter(pl.col("composition") == "mixed").height - 0.7 * chosen.height) <= 0.5
    assert bool(result.shortfalls) == (chosen.height < total)
    shuffled = rows[order.sample(range(rows.height), rows.height)] if rows.height else rows
    assert select_trajectories(shuffled, selection, seed, shards=4).selected.equals(chosen)


@given(supply=supplies, total=st.integers(1, 60))
def test_quotas_never_exceed_supply_and_no_larger_exact_set_exists(supply, total):
    shares = Shares(Fraction(1, 2), Fraction(7, 10))
    there = dict(zip(CELLS, supply, strict=True))
    quotas = choose_quotas(there, total, shares)
    size = sum(quotas.values())
    assert all(0 <= quotas[cell] <= there[cell] for cell in CELLS)
    for larger in range(size // 10 * 10 + 10, total, 10):
        both = range(larger + 1)
        assert not any(_fits(there, larger, gsm8k_mixed) for gsm8k_mixed in both)


def _fits(there: dict, size: int, gsm8k_mixed: int) -> bool:
    gsm8k, mixed = size // 2, size * 7 // 10
    cells = (gsm8k_mixed, gsm8k - gsm8k_mixed, mixed - gsm8k_mixed, size - gsm8k - mixed + gsm8k_mixed)
    return all(0 <= count <= there[cell] for count, cell in zip(cells, CELLS, strict=True))
