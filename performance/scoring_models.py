"""Randomly initialised Qwen3 models and a tokenizer for them: speed does not depend on what the weights are.

shape      width  layers  heads  kv  head  intermediate        parameters without embeddings
25m          512       8     16   8    32          1536        25.2 million
qwen3-8b    4096      36     32   8   128         12288        6.9 billion
"""

import hashlib
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen3Config

from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.trajectories.templates import TEMPLATES

QWEN_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CACHE = Path(tempfile.gettempdir()) / "cpmi-scoring-bench"
CONTEXT_LENGTH = 32_768
END = "<|endoftext|>"


class Shape(NamedTuple):
    """Sizes of a Qwen3."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    intermediate: int


SHAPES = {
    "tiny": Shape(64, 2, 4, 2, 16, 192),
    "1m": Shape(128, 4, 4, 2, 32, 384),
    "25m": Shape(512, 8, 16, 8, 32, 1536),
    "qwen3-8b": Shape(4096, 36, 32, 8, 128, 12_288),
}
QWEN_VOCABULARY = 151_936


def random_model(
    shape: str, tokenizer: PreTrainedTokenizerFast, vocabulary: int, device: str = "cpu", dtype: str = "float32"
) -> LoadedModel:
    """A Qwen3 of a shape.

    Args:
        shape: key of `SHAPES`.
        tokenizer: its ids are below `vocabulary`.
        vocabulary: rows of the embedding and of the projection to the vocabulary.
        device: torch device; the weights are drawn there.
        dtype: float32, bfloat16 or float16.
    """
    sizes = SHAPES[shape]
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=sizes.width,
        intermediate_size=sizes.intermediate,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads,
        head_dim=sizes.head,
        max_position_embeddings=CONTEXT_LENGTH,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype)).eval()
    return LoadedModel(model, tokenizer, f"random:{shape}", CONTEXT_LENGTH)


def body_parameters(model: LoadedModel) -> int:
    """Parameters without embedding and projection to the vocabulary."""
    embedding: Any = model.model.get_input_embeddings()
    everything = sum(weight.numel() for weight in model.model.parameters())
    return everything - embedding.weight.numel() - projection_parameters(model)


def projection_parameters(model: LoadedModel) -> int:
    """Weights of the projection to the vocabulary."""
    projection: Any = model.model.get_output_embeddings()
    return projection.weight.numel()


def byte_level_bpe(texts: Iterable[str], vocabulary: int, name: str) -> PreTrainedTokenizerFast:
    """A byte-level BPE with Qwen's word pattern, digits one by one; trained once and kept in the temporary folder.

    Args:
        texts: what it is trained on, the templates aside.
        vocabulary: tokens.
        name: says which texts these are.
    """
    settings = hashlib.sha256(f"{QWEN_PATTERN}{TEMPLATES}{name}{vocabulary}".encode()).hexdigest()[:12]
    file = CACHE / f"bpe-{vocabulary}-{settings}.json"
    if not file.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        _trained([*texts, *TEMPLATES], vocabulary).save(str(file))
    return PreTrainedTokenizerFast(tokenizer_file=str(file), eos_token=END, pad_token=END)


def _trained(texts: list[str], vocabulary: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(QWEN_PATTERN), behavior="isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
