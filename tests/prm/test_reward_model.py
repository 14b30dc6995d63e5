"""A reward model is saved as config, safetensors and tokenizer, and what is not as it was saved is named."""

import json
import shutil

import pytest
from safetensors.torch import load_file, save_file
from toy_models import random_decoder
from transformers import AutoModel

from cpmi_dagster.errors import ModelError
from cpmi_dagster.models.language_models import weights_hash
from cpmi_dagster.models.model_files import DIGESTS
from cpmi_dagster.prm.model import RewardModel, load_reward_model

pytestmark = pytest.mark.slow


def test_the_folder_holds_weights_config_tokenizer_and_card_but_neither_code_nor_pickle(trained):
    names = {file.name for file in trained.path.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "README.md"} <= names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".py", ".pkl"))]
    assert "auto_map" not in json.loads((trained.path / "config.json").read_text())
    assert isinstance(AutoModel.from_pretrained(trained.path), RewardModel)
    assert load_reward_model(trained.path).identity == f"toy_bce@{weights_hash(trained.path)[:12]}"


def test_the_card_says_recipe_data_losses_and_how_to_load(trained):
    card = (trained.path / "README.md").read_text()
    for words in ("`mc`", "`labels-1`", "random:qwen3@0", "from cpmi_dagster.prm import load_reward_model"):
        assert words in card
    assert f" to {trained.curve[-1]['loss']:.4f}" in card


def test_a_folder_without_a_reward_model_is_named(tmp_path):
    with pytest.raises(ModelError, match="no reward model in"):
        load_reward_model(tmp_path / "nothing")
    random_decoder().model.save_pretrained(tmp_path)
    random_decoder().tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="`qwen3`, not a reward model"):
        load_reward_model(tmp_path)


@pytest.fixture
def copy(trained, tmp_path):
    """A copy of the trained model's folder, in which a test may spoil something."""
    return shutil.copytree(trained.path, tmp_path / "model")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_bit_that_flipped_in_any_file_is_named(copy, name, flip):
    (copy / "README.md").write_text("notes of mine")
    load_reward_model(copy, device="cpu")
    flip(copy / name, (copy / name).stat().st_size // 2)
    with pytest.raises(ModelError, match=f"{name} is not as training wrote it"):
        load_reward_model(copy, device="cpu")


def test_files_that_are_added_truncated_or_missing_are_named(copy):
    (copy / "added_tokens.json").write_text("{}")
    with pytest.raises(ModelError, match=r"added_tokens\.json"):
        load_reward_model(copy)
    (copy / "added_tokens.json").unlink()
    (copy / DIGESTS).unlink()
    file = copy / "model.safetensors"
    weights = load_file(file)
    del weights["head.output.weight"]
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks weights: head\.output\.weight;"):
        load_reward_model(copy)
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ModelError, match=r"the reward model in .* cannot be loaded"):
        load_reward_model(copy)
    for tokens in copy.glob("*token*"):
        tokens.unlink()
    with pytest.raises(ModelError, match="no tokenizer"):
        load_reward_model(copy)
