"""A reward model is saved as config, safetensors and tokenizer, and what is not as it was saved is named."""

import json
import shutil

import pytest
from toy_models import random_decoder
from transformers import AutoModel

from cpmi_dagster.errors import ModelError
from cpmi_dagster.models.language_models import weights_hash
from cpmi_dagster.prm.model import RewardModel, load_reward_model

pytestmark = pytest.mark.slow


def test_the_folder_holds_weights_config_tokenizer_and_card_but_neither_code_nor_pickle(trained):
    names = {file.name for file in trained.path.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "README.md"} <= names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".py", ".pkl"))]
    assert "auto_map" not in json.loads((trained.path / "config.json").read_text())
    assert isinstance(AutoModel.from_pretrained(trained.path), RewardModel)
    assert load_reward_model(trained.path).identity == f"toy_bce@{weights_hash(trained.path)[:12]}"


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


def test_weights_that_are_overwritten_in_place_do_not_change_a_loaded_model(copy):
    model, file = load_reward_model(copy, device="cpu").model, copy / "model.safetensors"
    before = [weights.sum() for weights in model.parameters()]
    with file.open("r+b") as stream:
        stream.write(bytes(file.stat().st_size))
    assert [weights.sum() for weights in model.parameters()] == before


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_bit_that_flipped_in_any_file_is_named(copy, name, flip):
    (copy / "README.md").write_text("notes of mine")
    load_reward_model(copy, device="cpu")
    flip(copy / name, (copy / name).stat().st_size // 2)
    with pytest.raises(ModelError, match=f"{name} is not as training wrote it"):
        load_reward_model(copy, device="cpu")
