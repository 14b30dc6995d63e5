"""Rows hold every tree once, keep to their size, and lose no target token when a tree is cut."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_examples import random_trees

from cpmi_dagster.reading.packing import cut, pack, rows_of, whole
from cpmi_dagster.reading.row_reader import ancestor_mask
from cpmi_dagster.reading.trees import TokenTree


@given(st.lists(st.integers(1, 200), max_size=40), st.integers(1, 150))
def test_every_tree_stands_in_one_row_and_rows_keep_to_their_size(sizes, row_tokens):
    rows = pack(sizes, row_tokens)
    filled = [sum(sizes[item] for item in row) for row in rows]
    assert sorted(item for row in rows for item in row) == list(range(len(sizes)))
    assert all(size <= row_tokens or len(row) == 1 for size, row in zip(filled, rows, strict=True))
    assert sum(size <= row_tokens / 2 for size in filled) <= 1


@given(random_trees(), random_trees(), st.integers(100, 200))
@settings(max_examples=30, deadline=None)
def test_trees_in_a_row_cannot_see_each_other(left, right, row_tokens):
    for row in rows_of(whole(left, right), row_tokens):
        assert len(row) <= row_tokens
        owner = np.repeat(np.arange(len(row.pieces)), [len(piece) for piece in row.pieces])
        mask = ancestor_mask(torch.from_numpy(row.end)).numpy()
        assert not mask[owner[:, None] != owner[None, :]].any()
        assert np.array_equal(row.depth, mask.sum(axis=1) - 1)


@given(random_trees(), st.integers(1, 80))
@settings(max_examples=60, deadline=None)
def test_a_cut_tree_predicts_every_target_token_once_behind_the_same_tokens(tree, room):
    (piece,) = whole(tree)
    branches = [np.flatnonzero(line) for line in ancestor_mask(torch.from_numpy(tree.end)).numpy()]
    seen = []
    for part in cut(piece, room):
        mask = ancestor_mask(torch.from_numpy(part.end)).numpy()
        for target, node in zip(part.values, part.places, strict=True):
            assert part.nodes[mask[node]].tolist() == branches[tree.places[target]].tolist()
        seen += part.values.tolist()
    assert sorted(seen) == list(range(len(tree.predicted)))


@given(random_trees(), st.integers(1, 80), st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_pieces_can_be_cut_again(tree, room, smaller):
    twice = [part for piece in cut(*whole(tree), room) for part in cut(piece, smaller)]
    assert sorted(target for part in twice for target in part.values) == list(range(len(tree.predicted)))


def chain_tree(length):
    """A tree without branches, with a value at its end."""
    ones = np.ones(1, np.int64)
    return TokenTree(
        tokens=np.arange(length),
        depth=np.arange(length),
        end=np.full(length, length),
        places=ones * (length - 1),
        predicted=ones,
    )


def test_a_stretch_without_values_is_no_piece_of_its_own():
    (piece,) = cut(*whole(chain_tree(300)), 128)
    assert len(piece) > 128
    assert piece.nodes.tolist() == list(range(300))
