"""A reward model is saved as config, safetensors and tokenizer, and a new process reads the same scores from them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel

from cpmi_dagster.errors import ModelError
from cpmi_dagster.models.language_models import weights_hash
from cpmi_dagster.models.model_files import DIGESTS
from cpmi_dagster.prm.model import RewardModel, RewardModelConfig, load_reward_model

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]
SCORE_IN_A_NEW_PROCESS = """
import sys, polars as pl
from cpmi_dagster.prm import load_reward_model, score_steps
rows = pl.DataFrame({"id": ["a"], "question": ["How many two ?"], "steps": [["we add two", "oops five"]]})
print(score_steps(load_reward_model(sys.argv[1]), rows, 1024)["probability"].to_list())
"""


def a_batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Three rows of twelve tokens, the second padded; positions of two steps each."""
    generator = torch.Generator().manual_seed(0)
    input_ids = torch.randint(2, 20, (3, 12), generator=generator)
    attention_mask = torch.ones_like(input_ids)
    attention_mask[1, 9:] = 0
    return input_ids, attention_mask, torch.tensor([[7, 11], [7, 8], [9, 11]])


@pytest.mark.parametrize("architecture", ["qwen3", "llama"])
def test_saved_and_loaded_models_give_the_same_logits(build_reward_model, architecture, tmp_path):
    model = build_reward_model(architecture, context=96).model
    model.save_pretrained(tmp_path)
    again = RewardModel.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(again(*a_batch()).logits, model(*a_batch()).logits, atol=1e-7, rtol=1e-6)
    assert again.config.context_length == 96


def test_the_folder_holds_weights_config_and_tokenizer_but_no_code_and_no_pickle(trained):
    names = {file.name for file in trained.path.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "README.md"} <= names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".py", ".pkl"))]
    assert "auto_map" not in json.loads((trained.path / "config.json").read_text())


def test_auto_classes_know_the_model_and_its_identity_is_folder_and_hash_of_the_weights(trained):
    assert isinstance(AutoConfig.from_pretrained(trained.path), RewardModelConfig)
    assert isinstance(AutoModel.from_pretrained(trained.path), RewardModel)
    loaded = load_reward_model(trained.path)
    assert loaded.identity == f"toy_bce@{weights_hash(trained.path)[:12]}"
    assert not loaded.model.training


def test_a_new_process_loads_it_quietly_and_scores_alike(trained):
    command = [sys.executable, "-c", SCORE_IN_A_NEW_PROCESS, str(trained.path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=True)
    assert done.stderr == ""
    right, wrong = json.loads(done.stdout)
    assert wrong < right


def test_a_folder_without_a_reward_model_is_named(tmp_path, decoder):
    with pytest.raises(ModelError, match="no reward model in"):
        load_reward_model(tmp_path / "nothing")
    decoder.model.save_pretrained(tmp_path)
    decoder.tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="`qwen3`, not a reward model"):
        load_reward_model(tmp_path)


@pytest.fixture
def copy(trained, tmp_path):
    """A copy of the trained model's folder, in which a test may spoil something."""
    return shutil.copytree(trained.path, tmp_path / "model")


def test_a_folder_without_tokenizer_and_truncated_weights_are_named(copy):
    (copy / DIGESTS).unlink()
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelError, match=r"the reward model in .* cannot be loaded"):
        load_reward_model(copy)
    for file in copy.glob("*token*"):
        file.unlink()
    with pytest.raises(ModelError, match="no tokenizer"):
        load_reward_model(copy)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_bit_that_flipped_in_any_file_is_named(copy, name, flip):
    (copy / "README.md").write_text("notes of mine")
    load_reward_model(copy, device="cpu")
    flip(copy / name, (copy / name).stat().st_size // 2)
    with pytest.raises(ModelError, match=f"{name} is not as training wrote it"):
        load_reward_model(copy, device="cpu")


def test_a_file_that_loading_would_read_too_is_named(copy):
    (copy / "added_tokens.json").write_text("{}")
    with pytest.raises(ModelError, match=r"added_tokens\.json"):
        load_reward_model(copy, device="cpu")


@pytest.mark.parametrize("name", ["head.output.weight", "backbone.layers.1.mlp.down_proj.weight"])
def test_a_model_without_some_of_its_weights_is_refused(copy, name):
    (copy / DIGESTS).unlink()
    weights = load_file(copy / "model.safetensors")
    del weights[name]
    save_file(weights, copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=f"lacks weights: {name};"):
        load_reward_model(copy, device="cpu")
