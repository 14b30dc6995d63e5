"""The choice of trajectories: exact ratios, spread over questions, independent of row order."""

from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.selection import CELLS, Selection, cell_quotas, dataset_statistics, select_trajectories
from cpmi_dagster.trajectories.question_key import question_id

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


def test_all_of_a_cell_that_is_short_are_taken_and_it_is_named():
    few = corpus(("GSM8K", "mixed", 30, 4), ("GSM8K", "good", 30, 4), ("MATH", "mixed", 5, 2), ("MATH", "bad", 5, 2))
    result = select_trajectories(few, Selection(trajectories=100), seed=0, shards=4)
    assert Counter(result.selected["task"]) == {"GSM8K": 50, "MATH": 20}
    assert Counter(result.selected["composition"]) == {"mixed": 45, "pure": 25}
    assert result.shortfalls == [
        "short of MATH mixed trajectories: 35 wanted, 10 there; all of them are taken",
        "short of MATH pure trajectories: 15 wanted, 10 there; all of them are taken",
    ]


def test_without_a_number_the_largest_set_of_these_shares_is_taken():
    few = corpus(("GSM8K", "mixed", 30, 4), ("GSM8K", "good", 30, 4), ("MATH", "mixed", 7, 2), ("MATH", "good", 30, 4))
    result = select_trajectories(few, Selection(trajectories=None), seed=0, shards=4)
    assert Counter(result.selected["task"]) == {"GSM8K": 21, "MATH": 21}
    assert Counter(result.selected["composition"]) == {"mixed": 29, "pure": 13}
    assert result.shortfalls == []


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
    assert chosen["trajectory_id"].is_unique().all()
    quotas = cell_quotas(selection, total)
    assert sum(quotas.values()) == total
    assert abs(quotas[CELLS[0]] + quotas[CELLS[2]] - 0.7 * total) <= 0.5
    taken = Counter(zip(chosen["task"], chosen["composition"], strict=True))
    names = (("GSM8K", "mixed"), ("GSM8K", "pure"), ("MATH", "mixed"), ("MATH", "pure"))
    for name, there, wanted in zip(names, supply, quotas.values(), strict=True):
        assert taken[name] == min(2 * there, wanted)
    assert bool(result.shortfalls) == (chosen.height < total)
    shuffled = rows[order.sample(range(rows.height), rows.height)] if rows.height else rows
    assert select_trajectories(shuffled, selection, seed, shards=4).selected.equals(chosen)
