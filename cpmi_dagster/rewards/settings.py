"""Settings of rewards and of the soft labels made of them."""

from pydantic import Field

from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.rewards.registry import RewardType
from cpmi_dagster.scoring.settings import Conditioning


class Rewards(Frozen):
    """Which rewards are computed, and PAV's weight."""

    types: tuple[RewardType, ...]
    default_conditioning: Conditioning = "marginal"
    alpha: float = Field(default=1.0, ge=0, description="weight of the prover's advantage in PAV (Eq. 2)")

    @property
    def methods(self) -> tuple[RewardType, ...]:
        """The types whose labels cost something; Math-Shepherd's own come with the corpus."""
        return tuple(name for name in self.types if name != "math_shepherd")


class SoftLabels(Frozen):
    """Robust z-score of Eq. 7; the released code's MAD factor and clip are options."""

    epsilon: float = Field(default=1e-8, gt=0)
    mad_factor: float = Field(default=1.0, gt=0, description="1.4826 in the released code")
    clip: float | None = Field(default=None, gt=0, description="6 in the released code")
