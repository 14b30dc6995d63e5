"""CPMI: step-level reward labels from log-probabilities of answers, without Monte-Carlo rollouts.

>>> from cpmi_dagster import score_trajectories
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cpmi_dagster.scoring.trajectories import score_trajectories

__all__ = ["score_trajectories"]


def __getattr__(name: str) -> Any:
    """What users import from here is loaded at its first use, so that importing the package stays cheap."""
    if name == "score_trajectories":
        from cpmi_dagster.scoring.trajectories import score_trajectories

        return score_trajectories
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
