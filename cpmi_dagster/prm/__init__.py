"""Process reward models: inputs, objectives, training and scoring.

Importing this package is cheap; torch and transformers are imported when one of its names is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cpmi_dagster.prm.model import LoadedRewardModel, RewardModel, load_reward_model
    from cpmi_dagster.prm.scoring import score_steps
    from cpmi_dagster.prm.training import TrainedModel, train_reward_model

__all__ = [
    "LoadedRewardModel",
    "RewardModel",
    "TrainedModel",
    "load_reward_model",
    "score_steps",
    "train_reward_model",
]

_MODULES = {"TrainedModel": "training", "train_reward_model": "training", "score_steps": "scoring"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'model')}"), name)
