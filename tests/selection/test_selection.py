"""The choice of trajectories: exact ratios, spread over questions, independent of row order."""

from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.selection import CELLS, Selection, cell_quotas, dataset_statistics, select_trajectories
from cpmi_dagster.trajectories.question_key import question_id

LABELS = {"mixed": [True, False], "good": [True, True], "bad": [False, False], "none": None}
ALL = Selection(trajectories=None, gsm8k_share=None, mixed_share=None)


def corpus(*kinds: tuple[str, str, int, int]) -> pl.DataFrame:
    """Trajectories of `(task, label kind, questions, trajectories per question)`; same task, same questions."""
    rows = [
        (question_id(f"{task} {question}"), task, ["one", "two"], LABELS[kind])
        for task, kind, questions, each in kinds
        for question in range(questions)
        for _ in range(each)
    ]
    types = {"question_id": pl.String, "task": pl.String, "steps": pl.List(pl.String),
             "shepherd_labels": pl.List(pl.Boolean)}  # fmt: skip
    number = pl.int_range(pl.len()).cast(pl.String).str.zfill(9)
    return pl.DataFrame(rows, schema=types, orient="row").with_columns(trajectory_id=pl.format("t{}", number))


def select(rows: pl.DataFrame, selection: Selection, seed: int = 0) -> tuple[pl.DataFrame, list[str]]:
    result = select_trajectories(rows, selection, seed, shards=4)
    return result.selected, result.shortfalls


def test_without_a_number_the_largest_set_of_these_shares_is_taken():
    few = corpus(("GSM8K", "mixed", 30, 4), ("GSM8K", "good", 30, 4), ("MATH", "mixed", 7, 2), ("MATH", "good", 30, 4))
    chosen, shortfalls = select(few, Selection(trajectories=None))
    assert Counter(chosen["task"]) == {"GSM8K": 21, "MATH": 21}
    assert Counter(chosen["composition"]) == {"mixed": 29, "pure": 13}
    assert shortfalls == []


def test_problems_that_nobody_starts_well_are_left_out_unless_a_trajectory_has_no_labels():
    rows = corpus(("GSM8K", "bad", 3, 2), ("GSM8K", "mixed", 1, 1), ("MATH", "bad", 1, 1), ("MATH", "none", 1, 1))
    chosen, _ = select(rows, ALL)
    assert Counter(chosen["question_id"]) == {question_id("GSM8K 0"): 3, question_id("MATH 0"): 2}
    assert Counter(chosen["composition"]) == {"pure": 3, "mixed": 1, "unlabelled": 1}
    assert select(rows, ALL.model_copy(update={"leave_out_too_hard": False}))[0].height == rows.height


def test_what_the_trajectories_do_not_tell_is_not_asked_of_them_and_the_notes_say_so():
    rows = corpus(("OWN", "none", 7, 1), ("SUMS", "none", 3, 1))
    chosen, notes = select(rows, Selection(trajectories=10))
    assert chosen.height == 10 and set(chosen["composition"]) == {"unlabelled"}
    assert notes == [
        "the share of mixed trajectories is not kept: 10 of 10 trajectories have no labels",
        "no question of a trajectory without labels is left out as too hard: 10 of 10 trajectories have no labels",
        "the share of GSM8K is not kept: no trajectory is of GSM8K or MATH",
    ]


def test_every_question_gives_its_first_before_any_gives_its_second():
    rows = corpus(("GSM8K", "mixed", 12, 1), ("GSM8K", "mixed", 4, 9))
    chosen, _ = select(rows, ALL.model_copy(update={"trajectories": 20}), seed=5)
    assert Counter(Counter(chosen["question_id"]).values()) == {1: 8, 3: 4}


def test_ratios_are_exact_where_supply_allows_and_the_statistics_show_them():
    plenty = corpus(*[(task, kind, 20, 4) for task in ("GSM8K", "MATH") for kind in ("mixed", "good")])
    selection = Selection(trajectories=100)
    chosen, shortfalls = select(plenty, selection)
    assert shortfalls == []
    assert set(chosen["shard"]) <= {"000", "001", "002", "003"}
    table = {name: figures for name, *figures in dataset_statistics(chosen, plenty, selection).iter_rows()}
    assert (table["trajectories"], table["gsm8k_share"], table["steps"]) == ([100, 100], [0.5, 0.5], [None, 200])
    assert table["mixed_share"] == [0.7, pytest.approx(0.7)]
    assert not any(select(plenty, selection, seed)[0].equals(chosen) for seed in (1, 2))


@settings(max_examples=25, deadline=None)
@given(
    supply=st.tuples(*[st.integers(0, 12)] * 4), total=st.integers(1, 40), seed=st.integers(0, 9),
    order=st.randoms(use_true_random=False),
)  # fmt: skip
def test_the_choice_keeps_its_ratios_takes_all_of_a_short_cell_and_ignores_row_order(supply, total, seed, order):
    kinds = [(task, kind) for task in ("GSM8K", "MATH") for kind in ("mixed", "good")]
    rows = corpus(*[(task, kind, count, 2) for (task, kind), count in zip(kinds, supply, strict=True)])
    selection = Selection(trajectories=total)
    chosen, shortfalls = select(rows, selection, seed)
    assert chosen["trajectory_id"].is_unique().all()
    quotas = cell_quotas(selection, total)
    assert sum(quotas.values()) == total
    assert abs(quotas[CELLS[0]] + quotas[CELLS[2]] - 0.7 * total) <= 0.5
    taken = Counter(f"{task} {mix}" for task, mix in chosen.select("task", "composition").iter_rows())
    there = {cell: 2 * count for cell, count in zip(CELLS, supply, strict=True)}
    assert all(taken[cell] == min(there[cell], quotas[cell]) for cell in CELLS)
    assert shortfalls == [
        f"short of {cell} trajectories: {quotas[cell]} wanted, {there[cell]} there; all of them are taken"
        for cell in CELLS
        if there[cell] < quotas[cell]
    ]
    shuffled = rows[order.sample(range(rows.height), rows.height)] if rows.height else rows
    assert select(shuffled, selection, seed)[0].equals(chosen)
