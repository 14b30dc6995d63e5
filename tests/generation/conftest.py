"""A small random language model over bytes."""

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from cpmi_dagster.models.language_models import LoadedModel

CONTEXT_LENGTH = 256


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    """Every byte is a token; the first two ids are end of text and padding."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(["<eos>", "<pad>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<eos>", "<pad>"])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>")


@pytest.fixture(scope="session")
def tiny_model(tokenizer) -> LoadedModel:
    """Randomly initialised: hidden 64, 2 layers, grouped-query attention."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = Qwen3Config(
            vocab_size=len(tokenizer), hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, max_position_embeddings=CONTEXT_LENGTH, initializer_range=0.3,
            bos_token_id=None, eos_token_id=0, pad_token_id=1,
        )  # fmt: skip
        model = Qwen3ForCausalLM(config).eval()
    return LoadedModel(model, tokenizer, "tiny@0", CONTEXT_LENGTH)
