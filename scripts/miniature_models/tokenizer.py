r"""The tokenizer of the miniature models: byte-level BPE in which every digit and every newline is one token.

    "Ana has 48 shells.\n"  →  "Ana"  " has"  " "  "4"  "8"  " shells"  "."  "\n"

Any text survives a round trip, because unknown words fall back to bytes. No token spans two lines, so lines tokenised
one by one give the ids of the whole text. No BOS or EOS is added.
"""

from collections.abc import Iterable
from itertools import islice

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from cpmi_dagster.trajectories.templates import NEGATIVE_INSTRUCTION
from scripts.miniature_models.corpus import documents

EOS_TOKEN, EOS_ID = "<|endoftext|>", 0
PAD_TOKEN, PAD_ID = "<|pad|>", 1
VOCABULARY_SIZE = 960
TRAINING_DOCUMENTS = 6_000
TRAINING_SEED = 1
WORD_PATTERN = r"\n|\d|\\[A-Za-z]+| ?[A-Za-z']+|[^\sA-Za-z\d\\]+|\\|[^\S\n]"


def train_byte_level_bpe(texts: Iterable[str]) -> Tokenizer:
    """A byte-level BPE over `texts` that keeps words, digits and newlines apart."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORD_PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=[EOS_TOKEN, PAD_TOKEN],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def build_tokenizer() -> PreTrainedTokenizerFast:
    """The world's tokenizer, trained on its documents; the same every time."""
    texts = [
        document.prompt + document.continuation for document in islice(documents(TRAINING_SEED), TRAINING_DOCUMENTS)
    ]
    return PreTrainedTokenizerFast(
        tokenizer_object=train_byte_level_bpe([*texts, NEGATIVE_INSTRUCTION]),
        eos_token=EOS_TOKEN,
        pad_token=PAD_TOKEN,
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
        padding_side="left",
    )
