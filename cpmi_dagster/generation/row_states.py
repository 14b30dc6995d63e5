"""Keys and values of the rows being decoded, a copy of its prompt in every row.

row 0   q q q a a        columns of the cache; all rows end in the same one
row 1   . p p b b        `.` is not a column of the row: False in its mask
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import pad
from transformers.cache_utils import Cache

from cpmi_dagster.generation.kv_cache import has_room, overwrite, repack
from cpmi_dagster.generation.prompt_reading import next_logits
from cpmi_dagster.models.tokens import TokenIds

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass
class CopiedPrompts:
    """States of rows that share nothing; `SharedPrompts` has the same methods.

    Attributes:
        cache: keys and values of prompts and sampled tokens.
        mask: columns of the cache that hold the row's text, (rows, length).
    """

    cache: Cache
    mask: torch.Tensor

    @classmethod
    def of(cls, cache: Cache, mask: torch.Tensor, prompts: Sequence[TokenIds], rows: torch.Tensor) -> "CopiedPrompts":
        """Rows that begin with the prompts that `rows` names.

        Args:
            cache: keys and values of the prompts, a row each, in its last columns.
            mask: columns that hold them, (prompts, length).
            prompts: token ids.
        """
        return cls(repack(cache, rows, mask.shape[1]), mask[rows])

    def read(self, model: "PreTrainedModel", newest: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Append a token to every row; returns the logits behind it, (rows, vocabulary).

        Args:
            newest: token ids, (rows, 1).
            positions: tokens before them in their texts, (rows, 1).
        """
        self.mask = pad(self.mask, (0, 1), value=True)
        return next_logits(model, newest, self.mask, positions, self.cache)

    def overwrite(self, rows: torch.Tensor, fresh: "CopiedPrompts", active: torch.Tensor) -> None:
        """Replace some rows, none of them active, by those of `fresh`, whose texts are no longer."""
        self.mask[rows] = pad(fresh.mask, (self.mask.shape[1] - fresh.mask.shape[1], 0))
        overwrite(self.cache, rows, fresh.cache)

    def has_room(self) -> bool:
        """Whether another token fits without a copy."""
        return has_room(self.cache)

    def kept(self, rows: torch.Tensor, active: torch.Tensor) -> "CopiedPrompts":
        """Some rows, without the columns that no active row uses; `active` is True for the active ones of all rows."""
        length = int(self.mask[active].sum(dim=1).max())
        return CopiedPrompts(repack(self.cache, rows, length), self.mask[rows][:, self.mask.shape[1] - length :])
