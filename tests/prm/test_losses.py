"""The three objectives against hand-computed values, a direct float64 evaluation, and their laws."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cpmi_dagster.prm.trainer import binary_cross_entropy, objective, process_q_ranking, squared_error

OBJECTIVES = ["bce", "mse", "pqm"]
Trajectory = list[tuple[float, float]]
"""(logit, label) of each step."""
trajectories_of_steps = st.lists(
    st.lists(st.tuples(st.floats(-6, 6), st.floats(0, 1)), min_size=1, max_size=6), min_size=1, max_size=4
)


def padded(trajectories: list[Trajectory], width: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, labels and mask; what is padded is nonsense on purpose."""
    width = width or max(len(trajectory) for trajectory in trajectories)
    rows = [trajectory + [(17.0, 0.7)] * (width - len(trajectory)) for trajectory in trajectories]
    mask = torch.arange(width) < torch.tensor([[len(trajectory)] for trajectory in trajectories])
    return *torch.tensor(rows, dtype=torch.float32).unbind(dim=2), mask  # pyright: ignore[reportReturnType]


def pqm_by_the_formula(trajectory: Trajectory, margin: float) -> float:
    """PQM of one trajectory, term by term in float64, without logarithms of sums."""
    correct = {index: value for index, (value, label) in enumerate(trajectory, 1) if label >= 0.5}
    wrong = [value for value, label in trajectory if label < 0.5]
    anchors = {**({0: 0.0} if wrong else {}), **correct}
    penalty = sum(math.exp(value + margin) for value in wrong)
    terms = [
        -math.log(
            math.exp(anchor) / (sum(math.exp(v) for q, v in {0: 0.0, **correct}.items() if q <= position) + penalty)
        )
        for position, anchor in anchors.items()
    ]
    return sum(terms) / len(terms)


@pytest.mark.parametrize(
    ("loss", "trajectory", "expected"),
    [
        (binary_cross_entropy, [(2.0, 0.9), (-1.0, 0.2)], 0.4200948),
        # sigmoid(0) = 1/2, sigmoid(log 3) = 3/4
        (squared_error, [(0.0, 1.0), (math.log(3), 0.25)], 0.25),
        # one wrong step of Q = 0: only position 0 is an anchor, -log(1 / (1 + e^4))
        (process_q_ranking, [(0.0, 0.0)], math.log(1 + math.exp(4))),
    ],
)
def test_each_objective_by_hand(loss, trajectory, expected):
    assert loss(*padded([trajectory], width=4)).item() == pytest.approx(expected)


@settings(deadline=None, max_examples=40)
@given(trajectories_of_steps, st.sampled_from([0.0, 4.0]))
def test_pqm_is_the_mean_of_the_formula_over_trajectories(trajectories, margin):
    expected = sum(pqm_by_the_formula(trajectory, margin) for trajectory in trajectories) / len(trajectories)
    assert process_q_ranking(*padded(trajectories), margin=margin).item() == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", OBJECTIVES)
@settings(deadline=None, max_examples=40)
@given(trajectories_of_steps)
def test_padding_and_the_order_of_trajectories_do_not_matter(name, trajectories):
    tight = pytest.approx(objective(name)(*padded(trajectories)).item(), rel=1e-5, abs=1e-6)
    assert objective(name)(*padded(trajectories[::-1], width=9)).item() == tight


@pytest.mark.parametrize("name", OBJECTIVES)
def test_losses_and_gradients_stay_finite_for_extreme_logits_and_padding_has_none(name):
    logits = torch.tensor([[1e4, -1e4, 1e4, -1e4], [-1e4, 1e4, 0.0, 0.0], [0.0] * 4], requires_grad=True)
    labels = torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.3, 0.8, 0.0, 0.0], [0.0] * 4])
    mask = torch.tensor([[True] * 4, [True, True, False, False], [False] * 4])
    loss = objective(name)(logits, labels, mask)
    loss.backward()
    assert loss.isfinite() and logits.grad is not None and logits.grad.isfinite().all()
    assert (logits.grad[~mask] == 0).all()
