"""A model is data: its code is never run, no pickle is read, its files lie in its folder, its weights are complete."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cpmi_dagster.errors import CpmiError, ModelError, described
from cpmi_dagster.models.quiet import quiet_transformers

INDEX = "model.safetensors.index.json"
OWN_CODE = "trust_remote_code"
# of every `from_pretrained`; without, transformers asks on the terminal whether to run the code of a model
DATA_ONLY: dict[str, Any] = {"trust_remote_code": False}
# of every `from_pretrained` of weights, for `check_loaded`; shapes that differ are in the report, and not in a log
REPORTED: dict[str, Any] = {"output_loading_info": True, "ignore_mismatched_sizes": True}
# of those of folders and the hub; others are pickles
SAFE_WEIGHTS: dict[str, Any] = {"use_safetensors": True, **REPORTED}
# that earlier versions of transformers saved with GPT-2, GPT-Neo and their kin, and today's classes make themselves
MASKS = re.compile(r"\.(attn|attention)\.(bias|masked_bias|causal_mask)$")


@contextmanager
def reading_model(what: str, advice: str = "") -> Iterator[None]:
    """Within the block transformers is quiet, and whatever it raises over a model's files is one sentence.

    Args:
        what: cannot be loaded, as the sentence names it.
        advice: what to do.

    Raises:
        ModelError: the files cannot be read.
    """
    try:
        with quiet_transformers():
            yield
    except CpmiError:
        raise
    except Exception as error:  # a damaged file makes configs, tokenizers and readers of weights raise anything
        raise ModelError(f"{what} cannot be loaded: {_reason(error)}{advice and f'; {advice}'}") from error


def check_loaded(what: str, report: Mapping[str, Any]) -> None:
    """Refuse weights that are not those of the model's class: absent ones would be random numbers.

    Args:
        report: `output_loading_info` of transformers; tied weights are not in it.

    Raises:
        ModelError: some are absent, of another shape, or foreign; the first is named.
    """
    shapes = [f"{name} ({list(there)}, not {list(wanted)})" for name, there, wanted in report["mismatched_keys"]]
    found = {
        "lacks weights": report["missing_keys"],
        "has weights of another shape": shapes,
        "has weights that its class does not use": [key for key in report["unexpected_keys"] if not MASKS.search(key)],
    }
    for what_is_wrong, names in found.items():
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise ModelError(
                f"{what} {what_is_wrong}: {min(names)}{more}; download it again, or save it with `save_pretrained`"
            )


def _reason(error: Exception) -> str:
    if OWN_CODE in str(error):
        return "it brings code of its own, which is never run; give a model whose class is in transformers"
    # huggingface_hub says in its last line what is wrong, and before it where
    reason = str(error).rpartition(":\n")[2].strip().partition("\n")[0].removesuffix(".")
    return reason if " " in reason else described(error)


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
