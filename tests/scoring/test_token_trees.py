"""The token tree holds every distinct prefix once, and its intervals are its ancestors."""

from itertools import chain

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.scoring.admission import TokenizedTrajectory
from cpmi_dagster.scoring.attention import ancestor_mask
from cpmi_dagster.scoring.contexts import contexts_of
from cpmi_dagster.scoring.trees import grow_branches

PROMPT = (9, 8)
ALL = ("marginal", "incremental", "prefix", "leave_one_out")

# two letters make repeated steps, shared beginnings and answers inside answers the rule
ids = st.lists(st.integers(0, 1), max_size=3).map(tuple)
targets = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=4).map(tuple), min_size=1, max_size=4)


@st.composite
def questions(draw):
    """One to three trajectories of one question."""
    drawn = draw(st.lists(st.tuples(st.lists(ids, min_size=1, max_size=4), targets), min_size=1, max_size=3))
    return [
        TokenizedTrajectory(
            f"t{number}", (PROMPT,), tuple(steps), dict(enumerate(answers)), contexts_of(ALL, len(steps))
        )
        for number, (steps, answers) in enumerate(drawn)
    ]


def sequences(trajectory):
    """Key, context ids and target ids of everything to be scored, written out."""
    for context in trajectory.contexts:
        before = (
            *PROMPT,
            *chain.from_iterable(trajectory.steps[step] for step in context.steps(len(trajectory.steps))),
        )
        for rank, target in trajectory.targets.items():
            yield (trajectory.trajectory_id, *context, rank), before, target


def grow(trajectories, room=10_000):
    return [branches.under(PROMPT, template=0) for branches in grow_branches(trajectories, room)]


@given(questions())
@settings(max_examples=60, deadline=None)
def test_every_distinct_prefix_is_one_node(trajectories):
    (tree,) = grow(trajectories)
    read = [before + target[:-1] for item in trajectories for _, before, target in sequences(item)]
    prefixes = {sequence[:length] for sequence in read for length in range(1, len(sequence) + 1)}
    assert len(tree) == len(prefixes)


@given(questions())
@settings(max_examples=60, deadline=None)
def test_every_target_is_predicted_along_its_own_branch(trajectories):
    (tree,) = grow(trajectories)
    mask = ancestor_mask(torch.from_numpy(tree.end)).numpy()
    written = {key: (before, target) for item in trajectories for key, before, target in sequences(item)}
    first = 0
    for *key, count in tree.targets.drop("template").iter_rows():
        before, target = written.pop(tuple(key))
        assert tuple(tree.predicted[first : first + count]) == target
        for offset, node in enumerate(tree.predictors[first : first + count]):
            branch = np.flatnonzero(mask[node])
            assert tuple(tree.tokens[branch]) == before + target[:offset]
            assert tree.depth[node] == len(branch) - 1
        first += count
    assert not written


@given(questions(), st.integers(0, 60))
@settings(max_examples=40, deadline=None)
def test_splitting_a_question_over_trees_loses_no_target(trajectories, room):
    trees = grow(trajectories, room)
    (whole,) = grow(trajectories)
    keys = ["trajectory_id", "context", "step_index", "answer_rank", "token_count"]
    assert [row for tree in trees for row in tree.targets[keys].iter_rows()] == whole.targets[keys].rows()
    for tree in trees:
        assert len(tree) <= room + len(PROMPT) or tree.targets["trajectory_id"].n_unique() == 1


def test_a_worked_tree_reads_as_in_the_module_docstring():
    trajectory = TokenizedTrajectory("t", ((7,),), ((3,),), {0: (1, 2), 1: (1, 4)}, contexts_of(["marginal"], 1))
    (branches,) = grow_branches([trajectory], room=100)
    tree = branches.under((7,), template=2)
    assert tree.tokens.tolist() == [7, 1, 3, 1]
    assert tree.depth.tolist() == [0, 1, 1, 2]
    assert tree.end.tolist() == [4, 2, 4, 4]
    assert tree.predictors.tolist() == [0, 1, 0, 1, 2, 3, 2, 3]
    assert tree.predicted.tolist() == [1, 2, 1, 4, 1, 2, 1, 4]
    assert tree.targets["template"].to_list() == [2] * 4
