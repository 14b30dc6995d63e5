"""How big models are, counted from their configs, against what their cards say."""

import shutil

import pytest

from cpmi_dagster.errors import ModelError
from cpmi_dagster.models.language_models import model_folder
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.planning.shapes import ModelShape, planned_model

QWEN3 = {"head_dim": 128, "num_key_value_heads": 8, "vocab_size": 151_936, "dtype": "bfloat16"}


@pytest.fixture
def shape_of(tmp_path):
    """The shape of a config, without weights."""

    def build(config, **options) -> ModelShape:
        config.save_pretrained(tmp_path)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(f"{model_folder('miniature:labeler')}/{name}", tmp_path)
        return planned_model("labeler", LanguageModel(name=str(tmp_path)), **options).shape

    return build


def test_qwen3_8b_is_as_big_as_its_card_says(shape_of):
    from transformers import Qwen3Config

    shape = shape_of(
        Qwen3Config(
            hidden_size=4096,
            intermediate_size=12_288,
            num_hidden_layers=36,
            num_attention_heads=32,
            tie_word_embeddings=False,
            max_position_embeddings=32_768,
            **QWEN3,
        )
    )
    assert (round(shape.held / 1e9, 1), round(shape.body / 1e9, 2)) == (8.2, 6.95)
    assert shape.head == 4096 * 151_936
    assert (shape.cache_bytes, shape.dtype, shape.context_length) == (147_456, "bfloat16", 32_768)


def test_embeddings_that_serve_as_the_head_are_held_once(shape_of):
    from transformers import Qwen3Config

    tied = Qwen3Config(
        hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4, head_dim=16, vocab_size=100
    )
    tied.tie_word_embeddings = True
    shape = shape_of(tied)
    assert (shape.head, shape.held - shape.body) == (6400, 6400)


def test_of_a_mixture_of_experts_the_chosen_ones_count(shape_of):
    from transformers import Qwen3MoeConfig

    sizes = {
        "hidden_size": 32, "moe_intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 16, "vocab_size": 50, "num_experts": 8,
    }  # fmt: skip
    one = shape_of(Qwen3MoeConfig(num_experts_per_tok=1, **sizes))
    three = shape_of(Qwen3MoeConfig(num_experts_per_tok=3, **sizes))
    assert three.body - one.body == 2 * 3 * 32 * 16
    assert three.held == one.held


def test_the_profiles_dtype_wins_over_the_models_own(models):
    assert models["labeler"].shape.dtype == "float32"
    bf16 = planned_model("labeler", LanguageModel(name="miniature:labeler", dtype="bfloat16")).shape
    assert bf16.weight_bytes * 2 == models["labeler"].shape.weight_bytes


def test_given_parameters_stand_for_counted_ones():
    shape = planned_model("labeler", LanguageModel(name="miniature:labeler"), parameters=8_000_000_000).shape
    assert (shape.body, shape.head, shape.held) == (8_000_000_000, 0, 8_000_000_000)
    assert shape.cache_bytes > 0


def test_a_model_that_is_not_on_this_disk_says_what_to_do():
    away = LanguageModel(name="nobody/no-such-model")
    with pytest.raises(
        ModelError, match=r"parameters cannot be counted; .*models\.policy\.name, .*--parameters policy="
    ):
        planned_model("policy", away)
    with pytest.raises(ModelError, match="the policy `nobody/no-such-model` is not on this disk, so its tokens"):
        planned_model("policy", away, parameters=10)
    with pytest.raises(ModelError, match=r"the config of model `\./nowhere` cannot be loaded"):
        planned_model("policy", LanguageModel(name="./nowhere"))
