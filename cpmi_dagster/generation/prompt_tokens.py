"""Token ids of prompts, as every engine reads them and the scorer does: a BOS where the tokenizer adds one, the text.

"2 + 3\\n"  ->  (BOS, 17, 489, 220, 18, 198)
""  ->  (BOS,)
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cpmi_dagster.models.tokens import TokenIds, piece_ids, start_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def prompt_ids(tokenizer: "PreTrainedTokenizerBase", prompts: Sequence[str]) -> list[TokenIds]:
    """Token ids of each prompt; a repeated one is tokenised once.

    Args:
        tokenizer: the model's tokenizer.
        prompts: texts to continue.
    """
    start, pieces = start_ids(tokenizer), piece_ids(tokenizer, prompts)
    return [start + pieces[prompt] for prompt in prompts]
