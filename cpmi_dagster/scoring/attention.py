"""Which models can read a token tree, and the mask that makes them do so.

    node   0 1 2 3          a node attends to itself and its ancestors: `j <= i < end[j]`
    end    4 2 4 4
           0  x . . .
           1  x x . .
           2  x . x .
           3  x . x x

The mask is always passed, as a 4-D tensor: without one, transformers takes restarted position ids for packed sequences
and cuts branches off their prefix. A model must take its order from position ids and its view from the mask alone:
recurrent states, windows shorter than a branch and ALiBi do neither.
"""

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cpmi_dagster.errors import ModelError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

ADVICE = "score it with `--scorer reference`"
WINDOW_SETTINGS = {
    "sliding_attention": "sliding_window",
    "chunked_attention": "attention_chunk_size",
    "local": "window_size",
}
FULL_ATTENTION = {"full_attention", "global"}
MASKED_IMPLEMENTATIONS = ("sdpa", "eager")
FORWARD_ARGUMENTS = ("attention_mask", "position_ids", "logits_to_keep")


def check_reads_trees(model: "PreTrainedModel", longest: int) -> None:
    """Refuse a model that would score a packed tree wrongly.

    Args:
        model: the labeler.
        longest: tokens of the longest branch.

    Raises:
        ModelError: its layers are not full attention over `longest` tokens, or it does not obey a mask and position
            ids; the message names what stands in the way.
    """
    obstacle = next(_obstacles(model, longest), None)
    if obstacle:
        raise ModelError(f"{type(model).__name__} {obstacle}, so token trees cannot be packed for it; {ADVICE}")


def _obstacles(model: "PreTrainedModel", longest: int) -> Iterator[str]:
    config: Any = model.config.get_text_config()
    for layer_type, window in _windows(config).items():
        if window is None:
            yield f"has layers of type `{layer_type}`, not full attention"
        elif window < longest:
            yield f"has layers of type `{layer_type}` that see {window} tokens where a branch has {longest}"
    if getattr(model, "_is_stateful", False):
        yield "has recurrent layers, not full attention"
    if getattr(config, "alibi", False):
        yield "measures distance along the row (ALiBi), not by position ids"
    parameters = inspect.signature(model.forward).parameters
    for argument in FORWARD_ARGUMENTS:
        if argument not in parameters:
            yield f"takes no `{argument}`"
    implementation = config._attn_implementation
    if implementation not in MASKED_IMPLEMENTATIONS:
        yield f"runs attention `{implementation}`, which does not read a 4-D mask (load it with sdpa)"


def _windows(config: Any) -> dict[str, int | None]:
    """Layer types that are not full attention, with the tokens they see; None where a mask cannot describe them."""
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
    return windows


def ancestor_mask(end: "torch.Tensor") -> "torch.Tensor":
    """True where node i may attend to node j: j is i or an ancestor of i.

    Args:
        end: index after each node's last descendant, nodes in preorder, [nodes].

    Returns:
        [nodes (i), nodes (j)], boolean.
    """
    import torch

    index = torch.arange(len(end), device=end.device)
    return (index[None, :] <= index[:, None]) & (index[:, None] < end[None, :])


def model_mask(model: "PreTrainedModel", end: "torch.Tensor") -> "torch.Tensor":
    """The ancestor mask as the model's attention takes it, [1, 1, nodes, nodes].

    sdpa takes booleans (True = attend), eager a number to add to the scores.
    """
    import torch

    allowed = ancestor_mask(end)[None, None]
    if model.config.get_text_config()._attn_implementation == "sdpa":
        return allowed
    blocked = torch.full(allowed.shape, torch.finfo(model.dtype).min, dtype=model.dtype, device=end.device)
    return blocked.masked_fill(allowed, 0)
