"""Load models as data: no code is run, no pickle is read, weights must be complete."""

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from cpmi_dagster.errors import CpmiError, ModelError, described

if TYPE_CHECKING:
    from torch import nn

ModelT = TypeVar("ModelT", bound="nn.Module")
OWN_CODE = "trust_remote_code"
# for every `from_pretrained`; otherwise transformers asks on the terminal whether to run code
DATA_ONLY: dict[str, Any] = {"trust_remote_code": False}
# for every `from_pretrained` of weights: a report for `check_loaded` that includes mismatched shapes
REPORTED: dict[str, Any] = {"output_loading_info": True, "ignore_mismatched_sizes": True}
# for weights of folders and the hub; other formats are pickles
SAFE_WEIGHTS: dict[str, Any] = {"use_safetensors": True, **REPORTED}
# saved with GPT-2, GPT-Neo and similar by earlier versions of transformers; no longer weights
MASKS = re.compile(r"\.(attn|attention)\.(bias|masked_bias|causal_mask)$")


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Within the block `transformers` shows no progress bars and no warnings."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def reading_model(what: str, advice: str = "") -> Iterator[None]:
    """Within the block transformers is quiet, and its errors become a ModelError of one sentence.

    Args:
        what: name of the model in the error.
        advice: what to do.
    """
    try:
        with quiet_transformers():
            yield
    except CpmiError:
        raise
    except Exception as error:  # a damaged file makes configs, tokenizers and readers of weights raise anything
        # the last line of an error of huggingface_hub is the reason
        reason = str(error).rpartition(":\n")[2].strip().partition("\n")[0].removesuffix(".")
        if OWN_CODE in str(error):
            reason = "it brings code of its own, which is never run; give a model whose class is in transformers"
        elif " " not in reason:
            reason = described(error)
        raise ModelError(f"{what} cannot be loaded: {reason}{advice and f'; {advice}'}") from error


def copy_mapped(model: "ModelT") -> "ModelT":
    """Copy a model's weights on the CPU, which are mapped from their files, into memory, one after another.

    Otherwise a file that is overwritten in place would change the weights of a model at work, and one that is cut short
    would end the process by a bus error.
    """
    for weights in chain(model.parameters(), model.buffers()):
        if weights.device.type == "cpu":
            weights.data = weights.data.clone()
    return model


def check_loaded(what: str, report: Mapping[str, Any]) -> None:
    """Refuse weights that do not fit the model's class: missing ones would be random numbers.

    Args:
        report: `output_loading_info` of transformers; tied weights are not in it.

    Raises:
        ModelError: a weight is missing, has another shape, or is foreign.
    """
    shapes = [f"{name} ({list(there)}, not {list(wanted)})" for name, there, wanted in report["mismatched_keys"]]
    problems = {
        "lacks weights": report["missing_keys"],
        "has weights of another shape": shapes,
        "has weights that its class does not use": [key for key in report["unexpected_keys"] if not MASKS.search(key)],
    }
    for what_is_wrong, names in problems.items():
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise ModelError(
                f"{what} {what_is_wrong}: {min(names)}{more}; download it again, or save it with `save_pretrained`"
            )
