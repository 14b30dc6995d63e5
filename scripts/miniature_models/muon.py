"""Muon: momentum with orthogonalised updates, for weight matrices (Jordan et al., 2024).

`torch.optim.Muon` does the same but orthogonalises in bfloat16, which is ten times slower than float32 on a CPU without
bfloat16 units, and this world's models are trained on such CPUs.
"""

from collections.abc import Iterable

import torch

MOMENTUM = 0.95
NEWTON_SCHULZ_STEPS = 5
NEWTON_SCHULZ_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
UPDATE_SIZE = 0.2


def orthogonalise(matrix: torch.Tensor) -> torch.Tensor:
    """An approximation of U·Vᵀ for the matrix U·S·Vᵀ, by five Newton-Schulz iterations in float32."""
    a, b, c = NEWTON_SCHULZ_COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    current = matrix.T if tall else matrix
    current = current / (current.norm() + 1e-7)
    for _iteration in range(NEWTON_SCHULZ_STEPS):
        gram = current @ current.T
        current = a * current + (b * gram + c * gram @ gram) @ current
    return current.T if tall else current


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised, scaled so that learning rates mean the same as in AdamW."""

    def __init__(self, matrices: Iterable[torch.Tensor], lr: float, weight_decay: float) -> None:
        """Optimise two-dimensional parameters.

        Args:
            matrices: The weights.
            lr: Learning rate.
            weight_decay: Decoupled weight decay.
        """
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Change every weight once."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                momentum = self.state[weight].setdefault("momentum", torch.zeros_like(weight))
                momentum.lerp_(weight.grad, 1 - MOMENTUM)
                update = orthogonalise(weight.grad.lerp(momentum, MOMENTUM))
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                weight.add_(update, alpha=-group["lr"] * UPDATE_SIZE * max(weight.shape) ** 0.5)
