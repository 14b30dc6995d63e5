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

from typing import TYPE_CHECKING

from cpmi_dagster.errors import ModelError
from cpmi_dagster.models.attention import layer_windows

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

ADVICE = "score it with `--scorer reference`"


def check_full_attention(model: "PreTrainedModel", longest: int) -> None:
    """Refuse a model with layers that do not see a whole branch.

    Args:
        longest: tokens of the longest branch.

    Raises:
        ModelError: its layers are not full attention over `longest` tokens; the message names them.
    """
    for layer_type, window in layer_windows(model).items():
        if window is None:
            raise _refusal(model, f"has layers of type `{layer_type}`, not full attention")
        if window < longest:
            raise _refusal(
                model, f"has layers of type `{layer_type}` that see {window} tokens where a branch has {longest}"
            )


def narrowest_window(model: "PreTrainedModel") -> int | None:
    """Tokens that every layer sees; None where nothing limits them, or where a layer has no window."""
    windows = [window for window in layer_windows(model).values() if window is not None]
    return min(windows, default=None)


def _refusal(model: "PreTrainedModel", obstacle: str) -> ModelError:
    return ModelError(f"{type(model).__name__} {obstacle}, so it cannot read token trees; {ADVICE}")


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
