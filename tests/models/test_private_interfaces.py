"""Private attributes of transformers 5.23 and torch 2.13 that we read or set still mean what we take them for."""

import torch
from transformers import MambaModel, PreTrainedModel, Qwen3Config, Qwen3ForCausalLM, TrainingArguments


def test_the_attention_of_a_loaded_model_is_the_one_its_config_names():
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "vocab_size": 8, "head_dim": 8}
    model = Qwen3ForCausalLM(Qwen3Config(**sizes, num_attention_heads=2, num_key_value_heads=2))
    ids = torch.tensor([[1, 2, 3]])
    config = model.config.get_text_config()
    assert config._attn_implementation == "sdpa"
    config._attn_implementation = "eager"
    assert model(ids, output_attentions=True).attentions[0].shape == (1, 2, 3, 3)


def test_a_model_class_says_whether_its_layers_keep_a_recurrent_state():
    assert MambaModel._is_stateful
    assert not PreTrainedModel._is_stateful


def test_the_number_of_gpus_a_trainer_uses_can_be_set(tmp_path):
    arguments = TrainingArguments(output_dir=str(tmp_path), use_cpu=True)
    assert arguments.n_gpu == 0
    arguments._n_gpu = 3
    assert arguments.n_gpu == 3


def test_the_compiler_has_a_limit_of_recompilations():
    assert isinstance(torch._dynamo.config.recompile_limit, int)
