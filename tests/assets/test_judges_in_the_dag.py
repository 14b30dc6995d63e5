"""Judges that are not ours in the DAG: made once, made again when their file or model changes, refused first of all."""

import json
import shutil
from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest
import torch
import yaml
from transformers import PreTrainedModel

from cpmi_dagster.assets.benchmarks import judge_predictions
from cpmi_dagster.contracts.keys import JUDGES, PROBLEMS
from cpmi_dagster.contracts.tables import BenchmarkProblems, JudgePredictions
from cpmi_dagster.definitions import home_of
from cpmi_dagster.errors import CpmiError
from cpmi_dagster.exports.reward_models import save_reward_model
from cpmi_dagster.models.language_models import load_language_model
from cpmi_dagster.models.model_files import weights_hash
from cpmi_dagster.prm import published, score_steps
from cpmi_dagster.prm.model import LoadedRewardModel, RewardModel
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.making import bring_up_to_date
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parquet import Record


def write(path: Path, *probabilities: float) -> None:
    lines = [{"id": f"gsm8k-{number}", "probabilities": [value]} for number, value in enumerate(probabilities)]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")


def settings_of(folder: Path, judges: dict[str, Any]) -> Settings:
    (folder / "judged.yaml").write_text(yaml.safe_dump({"extends": "miniature", "benchmarks": {"judges": judges}}))
    return load_settings(folder / "judged.yaml", folder / "home")


def made(settings: Settings) -> tuple[pl.DataFrame, bool]:
    """The table brought up to date, and whether nothing had to be done for that."""
    lake = Lake.of(settings)
    rows = [
        {"benchmark": f"processbench_{name[:-2]}", "problem_id": name, "question": "q", "steps": [text]}
        for name, text in (("gsm8k-0", "a"), ("gsm8k-1", "b"), ("math-0", "c"))
    ]
    lake.write(pl.DataFrame(rows, schema=BenchmarkProblems.create_empty().schema), Record(PROBLEMS, None, "key", "r"))
    home = home_of(settings, stages={JUDGES: judge_predictions})
    run = StageRun(judge_predictions, home, None, "r", lambda _: None)
    output = bring_up_to_date(run)
    return lake.read(JUDGES).select(list(JudgePredictions.columns())), output is None


@pytest.fixture
def loaded(monkeypatch, tmp_path) -> list[str]:
    """Two reward models in `one` and `two` beside the profile; the names of those that were loaded, in order."""
    for number, folder in enumerate(("one", "two")):
        (tmp_path / folder).mkdir()
        torch.manual_seed(number)
        labeler = load_language_model("miniature:labeler", None, "float32", "cpu")
        model = RewardModel.from_backbone(cast(PreTrainedModel, labeler.model.base_model)).eval()
        save_reward_model(LoadedRewardModel(model, labeler.tokenizer, folder), tmp_path / folder)
    load, names = published.load_prm, list[str]()

    def recorded(name: str, *others: Any) -> LoadedRewardModel:
        names.append(Path(name).name)
        return load(name, *others)

    monkeypatch.setattr(published, "load_prm", recorded)
    return names


def test_a_model_judges_once_and_its_weights_are_on_record(tmp_path: Path, loaded: list[str]):
    one = {"model": "./one", "dtype": "float32", "benchmarks": ["processbench_gsm8k"]}
    frame, _ = made(settings_of(tmp_path, {"One": one}))
    problems = pl.DataFrame({"problem_id": ["gsm8k-0", "gsm8k-1"], "question": "q", "steps": [["a"], ["b"]]})
    alone = score_steps(published.load_prm(str(tmp_path / "one")), problems, 512)
    assert frame["probability"].to_list() == pytest.approx(alone["probability"].to_list(), abs=1e-6)
    record = Lake.of(settings_of(tmp_path, {"One": one})).record(JUDGES)
    assert record and record.model == f"one@{weights_hash(tmp_path / 'one')[:12]}"
    loaded.clear()
    # another judge beside it, and a file: neither has the first judge again
    write(tmp_path / "a.jsonl", 0.9, 0.2)
    more = {"One": one, "Two": {"model": "./two"}, "Mine": "a.jsonl"}
    frame, skipped = made(settings_of(tmp_path, more))
    assert (loaded, skipped) == (["two"], False)
    assert frame.filter(judge="One")["probability"].to_list() == pytest.approx(alone["probability"].to_list(), abs=1e-6)
    assert frame["judge"].unique().sort().to_list() == ["Mine", "One", "Two"]
    assert made(settings_of(tmp_path, more))[1]
    write(tmp_path / "a.jsonl", 0.9, 0.3)
    frame, skipped = made(settings_of(tmp_path, more))
    assert (frame.filter(judge="Mine")["probability"].to_list(), skipped) == ([0.9, 0.3], False)
    shutil.copy(tmp_path / "two" / "model.safetensors", tmp_path / "one")
    made(settings_of(tmp_path, more))
    assert loaded == ["two", "one"]
    assert set(made(settings_of(tmp_path, {"Mine": "a.jsonl"}))[0]["judge"]) == {"Mine"}


def test_a_problem_that_a_judge_lacks_is_named(tmp_path: Path):
    write(tmp_path / "a.jsonl", 0.9)
    with pytest.raises(CpmiError, match="problem `gsm8k-1` of processbench_gsm8k has no predictions"):
        made(settings_of(tmp_path, {"Mine": "a.jsonl"}))
