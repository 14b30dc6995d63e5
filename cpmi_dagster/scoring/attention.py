"""Which models can read a token tree, and the mask they need.

    node   0 1 2 3          a node attends to itself and its ancestors: `j <= i < end[j]`
    end    4 2 4 4
           0  x . . .
           1  x x . .
           2  x . x .
           3  x . x x

Every layer must see a whole branch: recurrent states and windows shorter than a branch do not. `readers` gives a model
the mask, and checks that the model applies it.
"""

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


def check_full_attention(model: "PreTrainedModel", longest: int) -> None:
    """Refuse a model with layers that do not see a whole branch.

    Args:
        longest: tokens of the longest branch.

    Raises:
        ModelError: its layers are not full attention over `longest` tokens; the message names them.
    """
    for layer_type, window in _windows(model).items():
        if window is None:
            raise _refusal(model, f"has layers of type `{layer_type}`, not full attention")
        if window < longest:
            raise _refusal(
                model, f"has layers of type `{layer_type}` that see {window} tokens where a branch has {longest}"
            )


def narrowest_window(model: "PreTrainedModel") -> int | None:
    """Tokens that every layer sees; None where nothing limits them, or where a layer has no window."""
    windows = [window for window in _windows(model).values() if window is not None]
    return min(windows, default=None)


def _refusal(model: "PreTrainedModel", obstacle: str) -> ModelError:
    return ModelError(f"{type(model).__name__} {obstacle}, so it cannot read token trees; {ADVICE}")


def _windows(model: "PreTrainedModel") -> dict[str, int | None]:
    """Layer types that are not full attention, with the tokens they see; None where a mask cannot describe them."""
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
