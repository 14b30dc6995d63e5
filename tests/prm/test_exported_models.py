"""An exported reward model gives the probabilities that it gives here, loaded by what its card prints."""

import json
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import torch

from cpmi_dagster.errors import ModelError
from cpmi_dagster.exports.cards import model_card
from cpmi_dagster.exports.reward_models import save_reward_model
from cpmi_dagster.models.language_models import load_language_model
from cpmi_dagster.prm import load_reward_model, score_steps
from cpmi_dagster.prm.model import LoadedRewardModel, RewardModel
from cpmi_dagster.prm.settings import Recipe

pytestmark = pytest.mark.slow

ROWS = pl.DataFrame({"id": ["a"], "question": ["What is 2 + 3 * 4?"], "steps": [["3 * 4 = 12", "2 + 12 = 14"]]})
WITHOUT_US = "import sys; sys.modules['cpmi_dagster'] = None\n"


def reward_model(backbone: LoadedRewardModel, layers: int) -> LoadedRewardModel:
    """A reward model with a new head, its weights large enough for probabilities to differ."""
    torch.manual_seed(1)
    model = RewardModel.from_backbone(backbone.model.backbone, head_layers=layers).eval()
    for parameter in model.head.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return LoadedRewardModel(model, backbone.tokenizer, backbone.identity)


def card_of(model: LoadedRewardModel, folder: Path) -> str:
    home_card = '---\nbase_model: "miniature:labeler"\ntags: [cpmi]\n---\n# toy\n\n| PRMB | 51.2 |\n\n## Use\n\nOurs.\n'
    return model_card(home_card, "exported", model, save_reward_model(model, folder), None)


def code_of(card: str, folder: Path) -> str:
    """The first Python of a card, which prints probabilities."""
    found = re.search(r"```python\n(.*?)```", card, re.DOTALL)
    assert found is not None and "cpmi_dagster" not in found[1]
    return found[1].replace("'exported'", repr(str(folder)))


def test_an_export_scores_alike_where_this_package_is_not(tmp_path):
    loaded = load_language_model("miniature:labeler", None, "float32", "cpu")
    headless = RewardModel.from_backbone(loaded.model.base_model)
    model = reward_model(LoadedRewardModel(headless, loaded.tokenizer, loaded.identity), 2)
    code = WITHOUT_US + code_of(card_of(model, tmp_path), tmp_path)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = score_steps(model, ROWS, 1024)["probability"].to_list()
    assert json.loads(done.stdout.splitlines()[-1]) == pytest.approx(here, abs=1e-5)
    assert abs(here[0] - here[1]) > 1e-3


# the tokenizers of Llama and Qwen2 begin every text with a token here
@pytest.mark.parametrize(
    ("architecture", "bos", "layers"), [("qwen3", False, 1), ("llama", True, 1), ("qwen2", True, 2)]
)
def test_an_export_scores_alike_by_the_lines_of_its_card(
    build_reward_model, architecture, bos, layers, tmp_path, capfd
):
    model = reward_model(build_reward_model(architecture, bos=bos), layers)
    exec(code_of(card_of(model, tmp_path), tmp_path), {})
    here = score_steps(model, ROWS, 1024)["probability"].to_list()
    assert json.loads(capfd.readouterr().out.splitlines()[-1]) == pytest.approx(here, abs=1e-5)


@pytest.mark.parametrize(
    ("architecture", "layers", "name"),
    [
        ("qwen3", 1, "Qwen3ForTokenClassification"),
        ("llama", 1, "LlamaForTokenClassification"),
        ("qwen2", 2, "Qwen2ForProcessRewardModel"),
        ("qwen3", 2, "Qwen3Model"),
    ],
)
def test_the_config_names_the_architecture_that_others_know(build_reward_model, architecture, layers, name, tmp_path):
    written = save_reward_model(reward_model(build_reward_model(architecture), layers), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == [written] == [name]
    assert config["id2label"] == {"0": "wrong", "1": "right"} and config["model_type"] == architecture
    assert not [file.name for file in tmp_path.iterdir() if file.suffix in (".py", ".bin")]


def test_a_backbone_without_token_classification_is_named(build_reward_model, tmp_path):
    model = reward_model(build_reward_model("olmo"), 1)
    with pytest.raises(ModelError, match="`olmo`"):
        save_reward_model(model, tmp_path)


def test_the_card_keeps_what_training_and_report_wrote_but_how_it_loads_here(build_reward_model, tmp_path):
    card = card_of(reward_model(build_reward_model(), 1), tmp_path)
    assert "# toy\n\n| PRMB | 51.2 |" in card and "Ours." not in card
    assert "base_model" not in card and "tags: [cpmi]" in card and "vllm serve" in card


def test_a_linear_head_learns_and_is_loaded_again(train):
    trained = train("toy", recipe=Recipe(name="toy", reward_type="mc", head="linear"))
    assert sorted(load_reward_model(trained.path).model.head.state_dict()) == ["output.bias", "output.weight"]
    curve = [point["loss"] for point in trained.curve if point["split"] == "validation"]
    assert curve[-1] < 0.8 * curve[0]
    assert "one linear layer" in (trained.path / "README.md").read_text()
