"""Training objectives: step logits and soft labels -> one loss (Eq. 5 and the objectives table).

    logits   [[ 2.0, -1.0,  0.0]]      one row per trajectory, padded
    labels   [[ 0.9,  0.2,  0.0]]      soft labels in [0, 1]
    mask     [[ yes,  yes,   no]]      which entries are steps
    bce = mean of 0.327 and 0.513 = 0.420

`objective("pqm", margin=4.0)(logits, labels, mask)` is a scalar tensor.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from cpmi_dagster.prm.settings import Objective

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
CORRECT_FROM = 0.5


def objective(name: Objective, margin: float = 4.0) -> Loss:
    """A loss by name; `margin` is zeta of PQM."""
    pqm = partial(process_q_ranking, margin=margin)
    losses: dict[Objective, Loss] = {"bce": binary_cross_entropy, "mse": squared_error, "pqm": pqm}
    return losses[name]


def loss_units(name: Objective, mask: Tensor) -> Tensor:
    """The units that a loss is the mean over, in each trajectory: its steps, or of PQM itself, if it has any."""
    return mask.any(dim=1) if name == "pqm" else mask.sum(dim=1)


def binary_cross_entropy(logits: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """Cross-entropy with soft labels, mean over the N steps of the batch (Eq. 5).

    Args:
        logits: (trajectories, steps).
        labels: (trajectories, steps), soft labels in [0, 1].
        mask: (trajectories, steps), boolean: which entries are steps.
    """
    return _mean_over_steps(binary_cross_entropy_with_logits(logits, labels, reduction="none"), mask)


def squared_error(logits: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """Squared difference between probability and soft label, mean over the steps of the batch; arguments as above."""
    return _mean_over_steps((logits.sigmoid() - labels).square(), mask)


def process_q_ranking(logits: Tensor, labels: Tensor, mask: Tensor, margin: float = 4.0) -> Tensor:
    """PQM: every correct step outranks the correct ones before it and, by a margin, all wrong ones.

    `L = (1/|I|) sum_{t in I} -log(e^{Q_t} / (sum_{q<=t, q in {0} u C} e^{Q_q} + sum_{w in W} e^{Q_w + margin}))`

    C are the steps of soft label >= 0.5, W the others, Q_0 = 0, and I = C, joined by 0 when W is not empty. Averaged
    per trajectory, then over the trajectories that have steps. Arguments as above.
    """
    start = torch.zeros_like(logits[:, :1])
    values = torch.cat([start, logits], dim=1)
    correct = torch.cat([torch.ones_like(mask[:, :1]), mask & (labels >= CORRECT_FROM)], dim=1)
    wrong = torch.cat([torch.zeros_like(mask[:, :1]), mask & (labels < CORRECT_FROM)], dim=1)

    anchors = correct.clone()
    anchors[:, 0] = wrong.any(dim=1)
    # the denominator of every t: correct steps up to it, and all wrong ones raised by the margin
    positions = torch.arange(values.shape[1], device=values.device)
    competes = (correct.unsqueeze(1) & (positions <= positions.unsqueeze(1))) | wrong.unsqueeze(1)
    raised = torch.where(wrong, values + margin, values).unsqueeze(1)
    losses = torch.where(competes, raised, torch.finfo(values.dtype).min).logsumexp(dim=2) - values
    counts = anchors.sum(dim=1)
    per_trajectory = torch.where(anchors, losses, 0).sum(dim=1) / counts.clamp(min=1)
    return per_trajectory.sum() / (counts > 0).sum().clamp(min=1)


def _mean_over_steps(losses: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, losses, 0).sum() / mask.sum().clamp(min=1)
