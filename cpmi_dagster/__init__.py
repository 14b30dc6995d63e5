"""CPMI: step-level reward labels from log-probabilities of answers, without Monte-Carlo rollouts.

>>> from cpmi_dagster import score_trajectories

`CpmiLabels` is the component for Dagster projects, `type: cpmi_dagster.CpmiLabels`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cpmi_dagster.component import CpmiLabels
    from cpmi_dagster.scoring.trajectories import score_trajectories

__all__ = ["CpmiLabels", "score_trajectories"]
PLACES = {"CpmiLabels": "component", "score_trajectories": "scoring.trajectories"}


def __getattr__(name: str) -> Any:
    """What users import from here is loaded at its first use, so that importing the package stays cheap."""
    if name in PLACES:
        return getattr(import_module(f"{__name__}.{PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """`dg` looks here for components."""
    return sorted({*globals(), *__all__})
