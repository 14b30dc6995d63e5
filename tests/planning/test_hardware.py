"""The table of cards, how big models are by their configs, and tokens to seconds against figures worked out by hand."""

import shutil
from typing import Any

import pytest
import torch

from cpmi_dagster.errors import ModelError, SettingsError
from cpmi_dagster.models.language_models import model_folder
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.planning.hardware import PlannedModel, choose_hardware, known_hardware, planned_model

LABELER = LanguageModel(name="Qwen/Qwen3-8B-Base")


@pytest.mark.parametrize("name", known_hardware())
def test_every_shipped_card_can_be_planned_with(name):
    hardware = choose_hardware(name, LABELER)
    assert hardware.teraflops["bfloat16"] >= hardware.teraflops["float32"] > 0 < hardware.bandwidth_gb_per_s


def test_unknown_hardware_is_answered_with_what_there_is():
    with pytest.raises(SettingsError, match="`h900`; give one of h100-80gb, h200-141gb"):
        choose_hardware("h900", LABELER)


@pytest.mark.parametrize(
    ("model", "card", "hardware"),
    [
        ({"name": "miniature:labeler"}, "NVIDIA L4", "laptop-cpu"),
        ({"name": "Qwen/Qwen3-8B-Base", "device": "cpu"}, "NVIDIA L4", "laptop-cpu"),
        ({"name": "Qwen/Qwen3-8B-Base"}, None, "laptop-cpu"),
        ({"name": "Qwen/Qwen3-8B-Base"}, "NVIDIA L4", "l4-24gb"),
        ({"name": "Qwen/Qwen3-8B-Base"}, "NVIDIA X900", "h100-80gb"),
    ],
)
def test_a_plan_is_for_this_machine(model, card, hardware, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: card is not None)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: card)
    assert choose_hardware(None, LanguageModel(**model)).name == hardware


def test_seconds_are_those_worked_out_by_hand(models, card):
    # a body of a million parameters, a head of 100,000; 512 bytes cached a token
    model = PlannedModel("m", models["labeler"].tokenizer, 4096, 1_000_000, 100_000, 4_800_000, 512, "float32")
    # 2 x 1e6 x 1000 + 2 x 1e5 x 10 = 2.002e9 FLOP at 0.5e12 FLOP/s
    assert card.seconds(model, read=1000, projected=10) == pytest.approx(2.002e9 / 0.5e12)
    # a small batch waits for memory: 4.8e6 bytes of weights for each of 100 / 4 passes, 512 for each of 6,000 positions
    assert card.sampling_seconds(model, 100, 6_000, batch=4) == pytest.approx((4.8e6 * 25 + 512 * 6_000) / 1e9 / 0.25)
    # a large one for arithmetic: 2 x 1.1e6 x 1e6 = 2.2e12 FLOP at 1e12 FLOP/s
    assert card.sampling_seconds(model, 1_000_000, 0, batch=100_000) == pytest.approx(2.2 / 0.25)


@pytest.fixture
def planned(tmp_path):
    """The model of a config, without weights."""

    def build(config) -> PlannedModel:
        config.save_pretrained(tmp_path)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(f"{model_folder('miniature:labeler')}/{name}", tmp_path)
        return planned_model("labeler", LanguageModel(name=str(tmp_path)))

    return build


def test_qwen3_8b_is_as_big_as_its_card_says(planned):
    from transformers import Qwen3Config

    config = Qwen3Config(
        hidden_size=4096,
        intermediate_size=12_288,
        num_hidden_layers=36,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=151_936,
        tie_word_embeddings=False,
        max_position_embeddings=32_768,
        dtype="bfloat16",
    )
    model = planned(config)
    assert (round(model.weight_bytes / 2e9, 1), round(model.body / 1e9, 2)) == (8.2, 6.95)
    assert model.head == 4096 * 151_936
    assert (model.cache_bytes, model.dtype, model.context_length) == (147_456, "bfloat16", 32_768)


def test_embeddings_that_serve_as_the_head_are_held_once(planned):
    from transformers import Qwen3Config

    tied = Qwen3Config(
        hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4, head_dim=16, vocab_size=100
    )
    tied.tie_word_embeddings = True
    model = planned(tied)
    assert (model.head, model.weight_bytes // 4 - model.body) == (6400, 6400)


def test_of_a_mixture_of_experts_the_chosen_ones_count(planned):
    from transformers import Qwen3MoeConfig

    sizes: dict[str, Any] = {
        "hidden_size": 32, "moe_intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 16, "vocab_size": 50, "num_experts": 8,
    }  # fmt: skip
    few, many = (planned(Qwen3MoeConfig(num_experts_per_tok=chosen, **sizes)) for chosen in (1, 3))
    assert many.body - few.body == 2 * 3 * 32 * 16
    assert many.weight_bytes == few.weight_bytes


def test_the_profiles_dtype_wins_over_the_models_own(models):
    half = planned_model("labeler", LanguageModel(name="miniature:labeler", dtype="bfloat16"))
    assert (half.dtype, models["labeler"].dtype) == ("bfloat16", "float32")
    assert half.weight_bytes * 2 == models["labeler"].weight_bytes


def test_a_model_that_is_not_on_this_disk_says_what_to_do():
    with pytest.raises(
        ModelError, match=r"the policy `nobody/no-such-model` is not on .*hf download.*models\.policy\.name"
    ):
        planned_model("policy", LanguageModel(name="nobody/no-such-model"))
    with pytest.raises(ModelError, match=r"the config or tokenizer of model `\./nowhere` cannot be loaded"):
        planned_model("policy", LanguageModel(name="./nowhere"))
