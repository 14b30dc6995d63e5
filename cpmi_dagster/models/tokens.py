"""Token ids of the pieces a labeler reads: question, steps, target, each tokenised on its own.

With a byte-level BPE the pieces' ids, concatenated, are those of the whole text, since every piece before the target
ends in a newline and every step begins with something else:

    [BOS] | "...Problem:\\nAna has 48 shells...\\nSolution: ...\\n" | "48 / 2 = 24\\n" | "The answer is: 24"

Where a step is blank, two newlines meet and the whole text may have one token for both; the text is the same. A
tokenizer that puts a space before every text (SentencePiece with `add_dummy_prefix`: Llama 2, Mistral 7B v0.1) puts one
before every piece, so that the model would read another text: `check_boundaries` refuses it.
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
    """Token ids of each distinct piece, without special tokens; a repeated piece is tokenised once.

    Args:
        pieces: texts such as `48 / 2 = 24\\n`, in any order.
    """
    distinct = list(dict.fromkeys(pieces))
    if not distinct:
        return {}
    encoded = tokenizer(distinct, add_special_tokens=False, return_attention_mask=False, verbose=False)["input_ids"]
    return {piece: tuple(ids) for piece, ids in zip(distinct, encoded, strict=True)}


def prompt_ids(tokenizer: "PreTrainedTokenizerBase", prompts: Sequence[str]) -> list[TokenIds]:
    """Token ids of prompts as every engine and the scorer read them: a BOS where the tokenizer adds one, then the text.

    `2 + 3` -> (BOS, 17, 489, 220, 18), and an empty prompt -> (BOS,)
    """
    start, pieces = start_ids(tokenizer), piece_ids(tokenizer, prompts)
    return [start + pieces[prompt] for prompt in prompts]


def longest_texts(prompts: Iterable[TokenIds]) -> dict[TokenIds, TokenIds]:
    """The longest of the prompts that begins with each prompt: a model that has read it has read the prompt.

    (1,), (1, 2), (1, 2, 3), (4,) -> {(1,): (1, 2, 3), (1, 2): (1, 2, 3), (1, 2, 3): (1, 2, 3), (4,): (4,)}
    """
    texts: dict[TokenIds, TokenIds] = {}
    text: TokenIds = ()
    # a prompt follows the texts that begin with it
    for prompt in sorted(set(prompts), reverse=True):
        text = text if text[: len(prompt)] == prompt else prompt
        texts[prompt] = text
    return texts


def check_boundaries(tokenizer: "PreTrainedTokenizerBase", pieces: Sequence[str], ids: Sequence[TokenIds]) -> None:
    """Make sure that pieces tokenised on their own are the text they make up together.

    Args:
        pieces: texts that follow one another.

    Raises:
        ScoringError: decoded, the ids give another text than those of the whole string; names tokenizer and strings.
    """
    text = "".join(pieces)
    joined = list(chain.from_iterable(ids))
    whole = list(piece_ids(tokenizer, [text])[text])
    if joined == whole:
        return
    read, meant = (
        tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        for tokens in (joined, whole)
    )
    if read != meant:
        place = next((n for n, (one, other) in enumerate(zip(read, meant, strict=False)) if one != other), len(meant))
        around = slice(max(0, place - EXCERPT), place + EXCERPT)
        raise ScoringError(
            f"tokenizer `{tokenizer.name_or_path or type(tokenizer).__name__}` makes {read[around]!r} of pieces whose "
            f"text is {meant[around]!r}; use a labeler whose tokenizer adds nothing at the start of a text"
        )


def start_ids(tokenizer: "PreTrainedTokenizerBase") -> TokenIds:
    """The BOS token where the tokenizer adds one to a text by default, else nothing."""
    default = tokenizer.encode("a")
    bare = tokenizer.encode("a", add_special_tokens=False)
    first = tuple(default[:1])
    return first if first == (tokenizer.bos_token_id,) and first != tuple(bare[:1]) else ()
