"""An exported reward model gives the probabilities that it gives here, loaded by what its card prints."""

import json
import re
import sys

import polars as pl
import pytest
from toy_models import random_reward_model

from cpmi_dagster.exports.cards import model_card
from cpmi_dagster.exports.reward_models import save_reward_model
from cpmi_dagster.prm import score_steps
from cpmi_dagster.prm.published import load_prm

pytestmark = pytest.mark.slow

ROWS = pl.DataFrame({"id": ["a"], "question": ["What is 2 + 3 * 4?"], "steps": [["3 * 4 = 12", "2 + 12 = 14"]]})
HOME_CARD = "---\ntags: [cpmi]\n---\n# toy\n\n## Use\n\nOurs.\n"


# the tokenizer of Llama begins every text with a token here
@pytest.mark.parametrize(
    ("architecture", "bos", "layers", "name"),
    [
        ("qwen3", False, 1, "Qwen3ForTokenClassification"),
        ("qwen3", False, 2, "Qwen3Model"),
        ("llama", True, 1, "LlamaForTokenClassification"),
        ("qwen2", True, 2, "Qwen2ForProcessRewardModel"),
    ],
)
def test_an_export_scores_alike_by_the_lines_of_its_card_without_this_package_and_by_load_judge(
    architecture, bos, layers, name, tmp_path, capfd, monkeypatch
):
    model = random_reward_model(architecture, bos, head_layers=layers)
    here = score_steps(model, ROWS, 1024)["probability"].to_list()
    card = model_card(HOME_CARD, "exported", model, save_reward_model(model, tmp_path), None)
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["architectures"], config["model_type"]) == ([name], architecture)
    assert config["id2label"] == {"0": "wrong", "1": "right"}
    assert not [file.name for file in tmp_path.iterdir() if file.suffix in (".py", ".bin")]
    judged = score_steps(load_prm(tmp_path), ROWS, 1024)["probability"].to_list()
    code = re.search(r"```python\n(.*?)```", card, re.DOTALL)
    assert code is not None
    monkeypatch.setitem(sys.modules, "cpmi_dagster", None)
    exec(code[1].replace("'exported'", repr(str(tmp_path))), {})
    assert json.loads(capfd.readouterr().out.splitlines()[-1]) == pytest.approx(here, abs=1e-5)
    assert judged == pytest.approx(here, abs=1e-5) and abs(here[0] - here[1]) > 1e-3
