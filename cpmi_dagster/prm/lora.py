"""Low-rank adapters in the backbone while a reward model is trained, merged into its weights afterwards.

adapters = add_adapters(model, Lora(rank=16))      the backbone's weights are frozen, adapters and head are trained
...
adapters.merge_and_unload()                        a plain reward model again, as `load_reward_model` reads it
"""

from typing import Any

from cpmi_dagster.errors import TrainingError, first_line
from cpmi_dagster.prm.model import RewardModel
from cpmi_dagster.prm.settings import Lora


def add_adapters(model: RewardModel, lora: Lora) -> Any:
    """Put adapters on the backbone's linear layers, in place; the head stays as it is.

    Returns:
        peft's `LoraModel`; its `merge_and_unload` turns the backbone back into one without adapters.

    Raises:
        TrainingError: peft is not installed, or the backbone has no layer of those names.
    """
    try:
        from peft import LoraConfig
        from peft.tuners.lora import LoraModel
    except ImportError as error:
        raise TrainingError("training.lora needs peft; install it with `pip install cpmi-dagster[lora]`") from error
    modules = lora.target_modules if isinstance(lora.target_modules, str) else list(lora.target_modules)
    config = LoraConfig(r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=modules)  # pyright: ignore[reportArgumentType]
    try:
        adapters = LoraModel(model.backbone, config, "default")
    except ValueError as error:
        raise TrainingError(f"training.lora.target_modules: {first_line(error)}") from error
    for parameter in adapters.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()  # small updates would be lost in half precision
    return adapters
