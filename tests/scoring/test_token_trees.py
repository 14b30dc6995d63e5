"""The token tree holds every distinct prefix once, and its intervals are its ancestors."""

from dataclasses import replace
from itertools import chain

import numpy as np
import torch
from hypothesis import given, settings
from tree_examples import PROMPT, questions, tree_of

from cpmi_dagster.contracts.contexts import contexts_of
from cpmi_dagster.reading.row_reader import ancestor_mask
from cpmi_dagster.scoring.admission import TokenizedTrajectory
from cpmi_dagster.scoring.answer_trees import trees_of


def sequences(trajectory):
    """Key, context ids and target ids of everything to be scored, written out."""
    for context in trajectory.contexts:
        before = (
            *PROMPT,
            *chain.from_iterable(trajectory.steps[step] for step in context.steps(len(trajectory.steps))),
        )
        for rank, target in trajectory.targets.items():
            yield (trajectory.trajectory_id, *context, rank), before, target


@given(questions())
@settings(max_examples=60, deadline=None)
def test_every_distinct_prefix_is_one_node(trajectories):
    tree, _ = tree_of(trajectories)
    read = [before + target[:-1] for item in trajectories for _, before, target in sequences(item)]
    prefixes = {sequence[:length] for sequence in read for length in range(1, len(sequence) + 1)}
    assert len(tree) == len(prefixes)


@given(questions())
@settings(max_examples=60, deadline=None)
def test_every_target_is_predicted_along_its_own_branch(trajectories):
    tree, targets = tree_of(trajectories)
    mask = ancestor_mask(torch.from_numpy(tree.end)).numpy()
    written = {key: (before, target) for item in trajectories for key, before, target in sequences(item)}
    first = 0
    for *key, count in targets.drop("template").iter_rows():
        before, target = written.pop(tuple(key))
        assert tuple(tree.predicted[first : first + count]) == target
        for offset, node in enumerate(tree.places[first : first + count]):
            branch = np.flatnonzero(mask[node])
            assert tuple(tree.tokens[branch]) == before + target[:offset]
            assert tree.depth[node] == len(branch) - 1
        first += count
    assert not written


def test_a_worked_tree_reads_as_in_the_module_docstring():
    trajectory = TokenizedTrajectory("t", ((7,),), ((3,),), {0: (1, 2), 1: (1, 4)}, contexts_of(["marginal"], 1))
    ((tree, targets),) = trees_of([replace(trajectory, first_template=2)])
    assert tree.tokens.tolist() == [7, 1, 3, 1]
    assert tree.depth.tolist() == [0, 1, 1, 2]
    assert tree.end.tolist() == [4, 2, 4, 4]
    assert tree.places.tolist() == [0, 1, 0, 1, 2, 3, 2, 3]
    assert tree.predicted.tolist() == [1, 2, 1, 4, 1, 2, 1, 4]
    assert targets["template"].to_list() == [2] * 4
