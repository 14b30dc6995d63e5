"""Process reward models: inputs, training, scoring and predictions.

Importing this package is cheap: torch and transformers are imported on first use of a name.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cpmi_dagster.prm.model import load_reward_model
    from cpmi_dagster.prm.scoring import score_steps
    from cpmi_dagster.prm.training import train_reward_model

__all__ = ["load_reward_model", "score_steps", "train_reward_model"]

_MODULES = {"load_reward_model": "model", "score_steps": "scoring", "train_reward_model": "training"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
