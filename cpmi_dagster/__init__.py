"""CPMI: step-level reward labels from log-probabilities of answers, without Monte-Carlo rollouts.

>>> from cpmi_dagster import label, plot_steps, score_trajectories

`CpmiLabels` is the component for Dagster projects, `type: cpmi_dagster.CpmiLabels`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cpmi_dagster.component import CpmiLabels
    from cpmi_dagster.prm.predict import judge
    from cpmi_dagster.prm.rl_rewards import reward_function
    from cpmi_dagster.reports.step_plots import plot_steps
    from cpmi_dagster.rewards.labeling import label
    from cpmi_dagster.rewards.labelled_rows import explode_steps
    from cpmi_dagster.scoring.trajectories import score_trajectories

__all__ = ["CpmiLabels", "explode_steps", "judge", "label", "plot_steps", "reward_function", "score_trajectories"]

_MODULES = {
    "CpmiLabels": "component",
    "explode_steps": "rewards.labelled_rows",
    "judge": "prm.predict",
    "label": "rewards.labeling",
    "plot_steps": "reports.step_plots",
    "reward_function": "prm.rl_rewards",
    "score_trajectories": "scoring.trajectories",
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that importing the package stays cheap."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    """Names by which `dg` finds the component."""
    return sorted({*globals(), *__all__})
