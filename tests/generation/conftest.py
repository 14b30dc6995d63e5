"""A small random language model over bytes, with tokens for the words of an answer line."""

from collections.abc import Callable

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.models.language_models import LoadedModel

CONTEXT_LENGTH = 256


def byte_tokenizer():
    """Every byte is a token; the first two ids are end of text and padding."""
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(["<eos>", "<pad>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<eos>", "<pad>"])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>")


@pytest.fixture(scope="session")
def tokenizer():
    return byte_tokenizer()


@pytest.fixture(scope="session", params=["qwen3", "llama"])
def tiny_model(request, tokenizer) -> LoadedModel:
    """Randomly initialised: hidden 64, 2 layers, grouped-query attention."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

    kinds = {"qwen3": (Qwen3Config, Qwen3ForCausalLM), "llama": (LlamaConfig, LlamaForCausalLM)}
    config_class, model_class = kinds[request.param]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = config_class(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            max_position_embeddings=CONTEXT_LENGTH,
            initializer_range=0.3,
            bos_token_id=None,
            eos_token_id=0,
            pad_token_id=1,
        )
        model = model_class(config).eval()
    return LoadedModel(model, tokenizer, f"tiny-{request.param}@0", CONTEXT_LENGTH)


@pytest.fixture
def engine(tiny_model) -> Callable[[int], TransformersEngine]:
    """An engine by batch size."""
    return lambda batch_sequences: TransformersEngine(tiny_model, batch_sequences)
