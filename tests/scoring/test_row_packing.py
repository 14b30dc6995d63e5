"""Rows hold every tree once, keep to their size, and keep trees apart."""

import numpy as np
import polars as pl
import torch
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.scoring.attention import ancestor_mask
from cpmi_dagster.scoring.packing import lay_out, pack
from cpmi_dagster.scoring.trees import TokenTree


@given(st.lists(st.integers(1, 200), max_size=40), st.integers(1, 150))
def test_every_tree_stands_in_one_row_and_rows_keep_to_their_size(sizes, row_tokens):
    rows = pack(sizes, row_tokens)
    assert sorted(item for row in rows for item in row) == list(range(len(sizes)))
    for row in rows:
        assert sum(sizes[item] for item in row) <= row_tokens or len(row) == 1


@given(st.lists(st.integers(1, 100), min_size=1, max_size=40))
def test_rows_are_at_least_half_full_but_one(sizes):
    filled = sorted(sum(sizes[item] for item in row) for row in pack(sizes, 100))
    assert all(size > 50 for size in filled[1:])


def chain_tree(length):
    """A tree without branches that predicts one token at its end."""
    ones = np.ones(1, np.int64)
    return TokenTree(
        tokens=np.arange(length),
        depth=np.arange(length),
        end=np.full(length, length),
        targets=pl.DataFrame({"token_count": [1]}),
        predictors=ones * (length - 1),
        predicted=ones,
    )


def test_trees_in_a_row_cannot_see_each_other():
    row = lay_out([chain_tree(2), chain_tree(3)])
    assert row.depth.tolist() == [0, 1, 0, 1, 2]
    assert row.predictors.tolist() == [1, 4]
    expected = torch.block_diag(torch.ones(2, 2).tril(), torch.ones(3, 3).tril()).bool()
    assert torch.equal(ancestor_mask(torch.from_numpy(row.end)), expected)
