"""Settings of rewards and of their soft labels."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from cpmi_dagster.contracts.contexts import PAPERS, Conditioning
from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.rewards.hazard import Weights, read_weights, shipped_weights
from cpmi_dagster.rewards.registry import REWARD_TYPES, reward_type


def _check_reward_type(name: str) -> str:
    try:
        return reward_type(name).name
    except SettingsError as error:
        raise ValueError(str(error)) from error


RewardName = Annotated[str, AfterValidator(_check_reward_type)]


class Rewards(Frozen):
    """Which rewards are computed, and PAV's weight."""

    types: tuple[RewardName, ...] = Field(
        description="reward types to compute; each is listed in the column reward_type of labels.step_rewards"
    )
    default_conditioning: Conditioning = Field(
        default=PAPERS,
        description="what of the solution CPMI is conditioned on; reward types that name no other use it",
    )
    weights: Path | None = Field(
        default=None,
        description="file of `cpmi calibrate`, for `first_error` and `right_so_far`; null takes the one that ships",
    )
    alpha: float = Field(default=1.0, ge=0, description="weight of the prover's advantage in PAV (Eq. 2)")

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        try:
            if self.weights is not None:
                read_weights(self.weights)
        except SettingsError as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def fitted(self) -> Weights:
        """The weights of the hazard of the first error."""
        return shipped_weights() if self.weights is None else read_weights(self.weights)

    @property
    def weights_hash(self) -> str | None:
        """Hash of the weights; None if no type reads them."""
        reads = any(REWARD_TYPES[name].reads_labels for name in self.types)
        return self.fitted.digest if reads else None

    @property
    def alpha_read(self) -> float | None:
        """The weight in PAV; None if no type reads the prover's rollouts."""
        return self.alpha if any(REWARD_TYPES[name].demand.prover_steps != 0 for name in self.types) else None

    @property
    def methods(self) -> tuple[str, ...]:
        """The types that have labeling costs: those that a model is asked for."""
        return tuple(name for name in self.types if REWARD_TYPES[name].is_billed)


class SoftLabels(Frozen):
    """Robust z-score of Eq. 7; the released code's MAD factor and clip are options."""

    epsilon: float = Field(
        default=1e-8, gt=0, description="added to the spread in Eq. 7, so that no division is by zero"
    )
    mad_factor: float = Field(
        default=1.0, gt=0, description="factor of the median absolute deviation; 1.4826 in the released code"
    )
    clip: float | None = Field(
        default=None, gt=0, description="largest robust z-score; 6 in the released code, null for none"
    )
