"""Settings of the choice of trajectories to label."""

from pydantic import Field

from cpmi_dagster.contracts.frozen import Frozen


class Selection(Frozen):
    """Which trajectories are labelled (appendix B); null lifts a constraint."""

    trajectories: int | None = Field(default=80_000, ge=1)
    gsm8k_share: float | None = Field(default=0.5, ge=0, le=1)
    mixed_share: float | None = Field(default=0.7, ge=0, le=1)
    leave_out_too_hard: bool = True
