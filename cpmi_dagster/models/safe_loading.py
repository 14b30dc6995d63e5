"""A model is data: its own code is never run, no pickle is read, and its files lie in its folder."""

import json
from pathlib import Path
from typing import Any

from cpmi_dagster.errors import ModelError, first_line

INDEX = "model.safetensors.index.json"
OWN_CODE = "trust_remote_code"
# of every `from_pretrained`; without, transformers asks on the terminal whether to run the code of a model
DATA_ONLY: dict[str, Any] = {"trust_remote_code": False}
# of every `from_pretrained` of weights; others are pickles
SAFE_WEIGHTS: dict[str, Any] = {"use_safetensors": True}


def loading_failure(error: Exception) -> str:
    """Why transformers cannot load a model, in one line."""
    if OWN_CODE in str(error):
        return "it brings code of its own, which is never run; give a model whose class is in transformers"
    return first_line(error)


def check_weights_index(folder: Path) -> set[str]:
    """Refuse an index of weights that names a file outside of the model's folder.

    Returns:
        The files that it names; none where there is no index.

    Raises:
        ModelError: it does, or it is not such an index.
    """
    index = folder / INDEX
    if not index.is_file():
        return set()
    try:
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"{index} is not an index of weights; save the model again with `save_pretrained`") from error
    for name in names:
        if not isinstance(name, str) or Path(name).name != name or not name.endswith(".safetensors"):
            raise ModelError(f"{index} names the file {name!r}; weights are *.safetensors files in the model's folder")
    return names
