"""A token tree holds every distinct prefix once, and neither cutting nor packing nor masks lose or add a value."""

from itertools import chain

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.contracts.contexts import CONDITIONINGS, contexts_of
from cpmi_dagster.scoring.answer_trees import AnswerTree, trees_of
from cpmi_dagster.scoring.tokenization import TokenizedTrajectory
from cpmi_dagster.tree_forward.flex import BLOCK, block_kinds, block_mask, padded_length
from cpmi_dagster.tree_forward.row_readers import ancestor_mask, blocks_of
from cpmi_dagster.tree_forward.trees import lay_out, whole

PROMPT = (9, 8)
CPU = torch.device("cpu")
steps = st.lists(st.lists(st.integers(0, 1), max_size=3).map(tuple), min_size=1, max_size=4)
targets = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=4).map(tuple), min_size=1, max_size=4)


@st.composite
def questions(draw):
    """One to three trajectories of a question; repeated steps and answers inside answers are the rule."""
    return [
        TokenizedTrajectory(
            f"t{number}",
            (PROMPT,),
            tuple(texts),
            dict(enumerate(answers)),
            contexts_of(list(CONDITIONINGS), len(texts)),
        )
        for number, (texts, answers) in enumerate(draw(st.lists(st.tuples(steps, targets), min_size=1, max_size=3)))
    ]


def answer_tree(trajectories) -> AnswerTree:
    (answers,) = trees_of(trajectories)
    return answers


random_trees = questions().map(lambda trajectories: answer_tree(trajectories).tree)


def sees(end) -> np.ndarray:
    """Which node sees which, (nodes, nodes)."""
    return ancestor_mask(torch.from_numpy(end)).numpy()


@given(questions())
@settings(max_examples=60, deadline=None)
def test_every_distinct_prefix_is_one_node_and_every_target_is_predicted_along_its_branch(trajectories):
    tree, rows = answer_tree(trajectories)
    written = {
        (item.trajectory_id, *context, rank): (
            (*PROMPT, *chain.from_iterable(item.steps[step] for step in context.steps(len(item.steps)))),
            target,
        )
        for item in trajectories
        for context in item.contexts
        for rank, target in item.targets.items()
    }
    read = [before + target[:-1] for before, target in written.values()]
    assert len(tree) == len({sequence[:length] for sequence in read for length in range(1, len(sequence) + 1)})
    mask, first = sees(tree.end), 0
    for *key, count in rows.drop("template").iter_rows():
        before, target = written.pop(tuple(key))
        assert tuple(tree.predicted[first : first + count]) == target
        for offset, node in enumerate(tree.places[first : first + count]):
            branch = np.flatnonzero(mask[node])
            assert tuple(tree.tokens[branch]) == before + target[:offset]
            assert tree.depth[node] == len(branch) - 1
        first += count
    assert not written


@given(random_trees, st.integers(1, 300), st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_blocks_of_every_reader_show_each_node_exactly_its_ancestors(tree, prompt, copies):
    row = lay_out(whole(*[tree.under(range(prompt))] * copies))
    expected, nodes, size = sees(row.end), len(row), padded_length(len(row))
    blocked = np.zeros((nodes, nodes), bool)
    for start, stop, keys, added in blocks_of(row.end, CPU, torch.float32):
        blocked[start:stop, keys] = added == 0
    assert np.array_equal(blocked, expected)
    allowed = block_mask(row.end, size, CPU).mask_mod(
        None, None, *torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    )
    assert np.array_equal(allowed[:nodes, :nodes], expected) and not allowed[:nodes, nodes:].any()
    pairs = allowed.reshape(size // BLOCK, BLOCK, size // BLOCK, BLOCK).transpose(1, 2).flatten(2)
    some, full = block_kinds(np.concatenate([row.end, np.arange(nodes, size) + 1]))
    assert np.array_equal(full, pairs.all(2))
    assert np.array_equal(some | full, pairs.any(2))
