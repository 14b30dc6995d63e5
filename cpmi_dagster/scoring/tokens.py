"""Token ids of the pieces a labeler reads: question, steps, target, each tokenised on its own.

With a byte-level BPE the pieces' ids, concatenated, are those of the whole text, since every piece before the target
ends in a newline and every step begins with something else:

    [BOS] | "...Problem:\\nAna has 48 shells...\\nSolution: ...\\n" | "48 / 2 = 24\\n" | "The answer is: 24"

A tokenizer that puts a space before every text (SentencePiece with `add_dummy_prefix`: Llama 2, Mistral 7B v0.1) puts
one before every piece; its ids then differ from those of the whole text at the start of each piece.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TokenIds = tuple[int, ...]


def piece_ids(tokenizer: "PreTrainedTokenizerBase", pieces: Iterable[str]) -> dict[str, TokenIds]:
    """Token ids of each distinct piece, without special tokens; a repeated piece is tokenised once.

    Args:
        tokenizer: the labeler's tokenizer.
        pieces: texts such as `48 / 2 = 24\\n`, in any order.
    """
    distinct = list(dict.fromkeys(pieces))
    if not distinct:
        return {}
    encoded = tokenizer(distinct, add_special_tokens=False, return_attention_mask=False, verbose=False)["input_ids"]
    return {piece: tuple(ids) for piece, ids in zip(distinct, encoded, strict=True)}


def start_ids(tokenizer: "PreTrainedTokenizerBase") -> TokenIds:
    """The BOS token where the tokenizer adds one to a text by default, else nothing."""
    default = tokenizer.encode("a")
    bare = tokenizer.encode("a", add_special_tokens=False)
    first = tuple(default[:1])
    return first if first == (tokenizer.bos_token_id,) and first != tuple(bare[:1]) else ()
