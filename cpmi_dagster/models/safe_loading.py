"""A model is data: its code is never run, no pickle is read, its files lie in its folder, its weights are complete."""

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cpmi_dagster.errors import CpmiError, ModelError, described

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
def quiet_transformers() -> Iterator[None]:
    """Within the block `transformers` writes nothing to the terminal but errors: no progress bars, no warnings."""
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
        # huggingface_hub says in its last line what is wrong, and before it where
        reason = str(error).rpartition(":\n")[2].strip().partition("\n")[0].removesuffix(".")
        if OWN_CODE in str(error):
            reason = "it brings code of its own, which is never run; give a model whose class is in transformers"
        elif " " not in reason:
            reason = described(error)
        raise ModelError(f"{what} cannot be loaded: {reason}{advice and f'; {advice}'}") from error


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
