"""The attention of a loaded model: what each layer sees, and how to replace it.

with attention_implementation(model, "cpmi_blocked"):
    model(input_ids, attention_mask=shown_mask(...), tree_blocks=...)      further arguments reach every layer
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cpmi_dagster.errors import ModelError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

WINDOW_SETTINGS = {
    "sliding_attention": "sliding_window",
    "chunked_attention": "attention_chunk_size",
    "local": "window_size",
}
FULL_ATTENTION = {"full_attention", "global"}
CAUSAL_TOLERANCE = 1e-4
"""Largest rounding difference of a state, relative to its largest number."""
UNKNOWN_TERMS = ("softcap", "position_bias", "s_aux")


def layer_windows(model: "PreTrainedModel") -> dict[str, int | None]:
    """Layer types other than full attention and their windows in tokens; None if a mask cannot describe them."""
    config: Any = model.config.get_text_config()
    types = set(getattr(config, "layer_types", None) or getattr(config, "attention_layers", None) or ())
    windows: dict[str, int | None] = {
        layer_type: getattr(config, WINDOW_SETTINGS.get(layer_type, ""), None) for layer_type in types - FULL_ATTENTION
    }
    window = getattr(config, "sliding_window", None)
    if not types and window is not None and getattr(config, "use_sliding_window", True):
        windows["sliding_attention"] = window
    rope: Any = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":
        windows["longrope"] = rope.get("original_max_position_embeddings")
    # private in transformers 5.23: whether layers keep a recurrent state
    if getattr(model, "_is_stateful", False) and None not in windows.values():
        windows["recurrent"] = None
    return windows


def check_causal(decoder: "PreTrainedModel", identity: str) -> None:
    """Refuse a decoder that is not causal: the state of a step would depend on later steps.

    Raises:
        ModelError: the decoder is not causal, or its states are not finite.
    """
    import torch

    tokens = torch.arange(1, 5, device=decoder.device)[None] % decoder.config.get_text_config().vocab_size
    changed = torch.cat([tokens[:, :-1], tokens[:, :1]], dim=1)
    with torch.inference_mode():
        states = [decoder(input_ids=ids, use_cache=False).last_hidden_state[0].float() for ids in (tokens, changed)]
    if not torch.stack(states).isfinite().all():
        raise ModelError(
            f"{identity} gives values that are not finite (NaN or infinite), as after a training that diverged; choose "
            "another model, or read it in float32 if that was half precision"
        )
    before, after = (state[0] for state in states)
    if not (before - after).abs().max() <= CAUSAL_TOLERANCE * before.abs().max():
        raise ModelError(f"{identity} reads later tokens at earlier ones; choose a causal language model")


@contextmanager
def attention_implementation(model: Any, implementation: str | None) -> Iterator[None]:
    """Use another attention implementation within the block."""
    # private in transformers 5.23: `set_attn_implementation` would check it against the model and change sub-models
    config = model.config.get_text_config()
    before = config._attn_implementation
    try:
        config._attn_implementation = implementation or before
        yield
    finally:
        config._attn_implementation = before


def check_terms(module: Any, structure: Any, terms: dict[str, Any], unknown: tuple[str, ...]) -> None:
    """Refuse a layer whose attention has terms that our function does not compute.

    Args:
        structure: our extra argument; None if the model did not pass it to its layers.
        terms: further arguments of the layer's call.
        unknown: names of terms that our function does not compute.

    Raises:
        ModelError: the structure is missing, or one of the unknown terms is given.
    """
    given = [name for name in unknown if terms.get(name) is not None]
    if structure is None or given:
        reason = f"it adds {', '.join(given)}" if given else "it does not pass further arguments to its layers"
        raise ModelError(f"{type(module).__name__} cannot be read this way: {reason}; use `scorer: reference`")


def shown_mask(size: int, device: "torch.device") -> "torch.Tensor":
    """A dummy 4-D mask, so that transformers makes no causal mask."""
    import torch

    return torch.ones((1, 1, 1, size), dtype=torch.bool, device=device)
