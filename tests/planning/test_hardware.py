"""How big models are by their configs, and tokens to seconds against figures worked out by hand."""

import shutil
from dataclasses import replace
from typing import Any

import pytest

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.models.language_models import model_folder
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.planning.hardware import PlannedModel, planned_model


def test_seconds_are_those_worked_out_by_hand(models, card):
    model = PlannedModel(models["labeler"].tokenizer, 4096, 1_000_000, "float32", card)
    # 2 x 1e6 parameters x 1000 tokens = 2e9 FLOP at 0.5e12 FLOP/s; 2e8 FLOP of 100 tokens at 0.25e12
    assert model.cost(1000, generated=100).wall_seconds == pytest.approx(2e9 / 0.5e12 + 2e8 / 0.25e12)
    assert model.cost(1000, generated=100) == Cost(model.cost(1000, 100).wall_seconds, 1100, 100)
    half = replace(model, dtype="bfloat16")
    assert half.cost(1000).wall_seconds * 2 == pytest.approx(model.cost(1000).wall_seconds)


@pytest.fixture
def planned(tmp_path, card):
    """The model of a config, without weights."""

    def build(config) -> PlannedModel:
        config.save_pretrained(tmp_path)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(f"{model_folder('miniature:labeler')}/{name}", tmp_path)
        return planned_model(LanguageModel(name=str(tmp_path)), card)

    return build


def test_qwen3_8b_is_as_big_as_its_card_says(planned):
    from transformers import Qwen3Config

    config = Qwen3Config(
        hidden_size=4096, intermediate_size=12_288, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8,
        head_dim=128, vocab_size=151_936, tie_word_embeddings=False, max_position_embeddings=32_768, dtype="bfloat16",
    )  # fmt: skip
    model = planned(config)
    assert (round(model.parameters / 1e9, 2), model.dtype, model.context_length) == (8.19, "bfloat16", 32_768)


def test_of_a_mixture_of_experts_the_chosen_ones_count(planned):
    from transformers import Qwen3MoeConfig

    sizes: dict[str, Any] = {
        "hidden_size": 32, "moe_intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 16, "vocab_size": 50, "num_experts": 8,
    }  # fmt: skip
    few, many = (planned(Qwen3MoeConfig(num_experts_per_tok=chosen, **sizes)) for chosen in (1, 3))
    assert many.parameters - few.parameters == 2 * 3 * 32 * 16
