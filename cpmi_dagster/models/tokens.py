"""Token ids of the pieces of a prompt: question, steps, target, each tokenised by itself.

With a byte-level BPE the concatenated ids of the pieces are those of the whole text, since every piece before the
target ends in a newline and no step begins with one:

    [BOS] | "...Problem:\\nAna has 48 shells...\\nSolution: ...\\n" | "48 / 2 = 24\\n" | "The answer is: 24"

After a blank step two newlines meet, for which the whole text may have one token; the text is the same. A tokenizer
that puts a space before every text (SentencePiece with `add_dummy_prefix`: Llama 2, Mistral 7B v0.1) would put one
before every piece and change the text: `check_boundaries` refuses it.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from cpmi_dagster.errors import ScoringError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TokenIds = tuple[int, ...]
EXCERPT = 24


def piece_ids(tokenizer: "PreTrainedTokenizerBase", pieces: Iterable[str]) -> dict[str, TokenIds]:
    """Token ids of each distinct piece, such as `48 / 2 = 24\\n`, without special tokens."""
    distinct = list(dict.fromkeys(pieces))
    if not distinct:
        return {}
    encoded = tokenizer(distinct, add_special_tokens=False, return_attention_mask=False, verbose=False)["input_ids"]
    return {piece: tuple(ids) for piece, ids in zip(distinct, encoded, strict=True)}


def prompt_ids(tokenizer: "PreTrainedTokenizerBase", prompts: Sequence[str]) -> list[TokenIds]:
    """Token ids of prompts for engines and scorer: what the tokenizer puts before every text, then the text.

    `2 + 3` -> (BOS, 17, 489, 220, 18), and an empty prompt -> (BOS,)
    """
    start, pieces = start_ids(tokenizer), piece_ids(tokenizer, prompts)
    return [start + pieces[prompt] for prompt in prompts]


def find_longest_texts(prompts: Iterable[TokenIds]) -> dict[TokenIds, TokenIds]:
    """Find for each prompt the longest prompt that begins with it.

    (1,), (1, 2), (1, 2, 3), (4,) -> {(1,): (1, 2, 3), (1, 2): (1, 2, 3), (1, 2, 3): (1, 2, 3), (4,): (4,)}
    """
    texts: dict[TokenIds, TokenIds] = {}
    text: TokenIds = ()
    # in this order a prompt follows the texts that begin with it
    for prompt in sorted(set(prompts), reverse=True):
        text = text if text[: len(prompt)] == prompt else prompt
        texts[prompt] = text
    return texts


def check_boundaries(tokenizer: "PreTrainedTokenizerBase", pieces: Sequence[str], ids: Sequence[TokenIds]) -> bool:
    """Whether consecutive pieces have the token ids of the whole text; with others they must decode to the same text.

    Raises:
        ScoringError: the texts differ.
    """
    text = "".join(pieces)
    joined = list(chain.from_iterable(ids))
    whole = list(piece_ids(tokenizer, [text])[text])
    if joined == whole:
        return True
    read, meant = (
        tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        for tokens in (joined, whole)
    )
    if read != meant:
        place = next((n for n, (left, right) in enumerate(zip(read, meant, strict=False)) if left != right), len(meant))
        around = slice(max(0, place - EXCERPT), place + EXCERPT)
        raise ScoringError(
            f"tokenizer `{tokenizer.name_or_path or type(tokenizer).__name__}` makes {read[around]!r} of pieces whose "
            f"text is {meant[around]!r}; use a labeler whose tokenizer adds nothing at the start of a text"
        )
    return False


def start_ids(tokenizer: "PreTrainedTokenizerBase") -> TokenIds:
    """What the tokenizer puts before every text by default: nothing, a BOS, or GLM's `[gMASK]<sop>`."""
    default, bare = (tokenizer.encode("a", add_special_tokens=special) for special in (True, False))
    starts = range(len(default) - len(bare) + 1)
    return next((tuple(default[:start]) for start in starts if default[start : start + len(bare)] == bare), ())
