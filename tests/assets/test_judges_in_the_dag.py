"""Judges that are not ours in the DAG: made once, made again when their file or model changes, refused first of all."""

import json
import shutil
from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest
import torch
import yaml
from polars.testing import assert_frame_equal
from small_run import run_all
from transformers import PreTrainedModel

from cpmi_dagster.assets.benchmarks import judge_predictions
from cpmi_dagster.benchmarks.processbench import processbench_scores
from cpmi_dagster.benchmarks.registry import SUBSETS
from cpmi_dagster.benchmarks.settings import Judge
from cpmi_dagster.contracts.keys import JUDGES, PROBLEMS, PROCESSBENCH
from cpmi_dagster.contracts.tables import JudgePredictions
from cpmi_dagster.definitions import home_of
from cpmi_dagster.errors import CpmiError
from cpmi_dagster.exports.reward_models import save_reward_model
from cpmi_dagster.models.language_models import load_language_model
from cpmi_dagster.models.model_files import weights_hash
from cpmi_dagster.prm import judge_models, score_steps
from cpmi_dagster.prm.model import LoadedRewardModel, RewardModel
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.commands.export import export
from cpmi_dagster.resources.dag.automation import INGEST, PHASES
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.records import Record


def write(path: Path, *probabilities: float) -> None:
    lines = [{"id": f"gsm8k-{number}", "probabilities": [value]} for number, value in enumerate(probabilities)]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")


def settings_of(folder: Path, judges: dict[str, Any]) -> Settings:
    (folder / "judged.yaml").write_text(yaml.safe_dump({"extends": "miniature", "benchmarks": {"judges": judges}}))
    return load_settings(folder / "judged.yaml", folder / "home")


def made(settings: Settings) -> tuple[pl.DataFrame, bool]:
    """The table brought up to date, and whether nothing had to be done for that."""
    lake = Lake.of(settings)
    problems = pl.DataFrame(
        {"benchmark": "processbench_gsm8k", "problem_id": ["gsm8k-0", "gsm8k-1"], "question": "q", "choices": None,
         "answer": None, "steps": [["a"], ["b"]], "first_error": [0, -1], "error_steps": None, "category": None},
        schema_overrides={"choices": pl.List(pl.String), "answer": pl.String, "error_steps": pl.List(pl.Int64),
                          "category": pl.String},
    )  # fmt: skip
    lake.write(problems, Record(PROBLEMS, None, "key", "r"))
    home = home_of(settings, stages={JUDGES: judge_predictions})
    run = StageRun(judge_predictions, home, None, "r", lambda _: None)
    shown = judge_predictions.bring_up_to_date(run)[JUDGES]
    return lake.read(JUDGES).select(list(JudgePredictions.columns())), bool(shown.get("skipped"))


def test_without_judges_the_table_is_empty(tmp_path: Path):
    frame, _ = made(settings_of(tmp_path, {}))
    assert frame.is_empty()
    assert JudgePredictions.is_valid(frame)


def test_a_table_is_made_once_and_again_when_a_file_or_a_name_changes(tmp_path: Path):
    write(tmp_path / "a.jsonl", 0.9, 0.2)
    settings = settings_of(tmp_path, {"Mine": "a.jsonl"})
    frame, _ = made(settings)
    assert frame.rows() == [
        ("Mine", "processbench_gsm8k", "gsm8k-0", 0, 0.9),
        ("Mine", "processbench_gsm8k", "gsm8k-1", 0, 0.2),
    ]
    assert made(settings)[1]
    write(tmp_path / "a.jsonl", 0.9, 0.3)
    frame, skipped = made(settings)
    assert (frame["probability"].to_list(), skipped) == ([0.9, 0.3], False)
    assert made(settings_of(tmp_path, {"Other": "a.jsonl"}))[0]["judge"].unique().to_list() == ["Other"]


def test_a_file_that_is_not_there_or_does_not_fit_is_an_error(tmp_path: Path):
    with pytest.raises(CpmiError, match=r"there is no data at .*nowhere.jsonl"):
        made(settings_of(tmp_path, {"Mine": "nowhere.jsonl"}))
    write(tmp_path / "a.jsonl", 0.9)
    with pytest.raises(CpmiError, match="problem `gsm8k-1` of processbench_gsm8k has not been judged"):
        made(settings_of(tmp_path, {"Mine": "a.jsonl"}))


@pytest.fixture
def loaded(monkeypatch, tmp_path) -> list[str]:
    """Two reward models in `one` and `two` beside the profile; the names of those that were loaded, in order."""
    for number, folder in enumerate(("one", "two")):
        (tmp_path / folder).mkdir()
        torch.manual_seed(number)
        labeler = load_language_model("miniature:labeler", None, "float32", "cpu")
        model = RewardModel.from_backbone(cast(PreTrainedModel, labeler.model.base_model)).eval()
        save_reward_model(LoadedRewardModel(model, labeler.tokenizer, folder), tmp_path / folder)
    load, names = judge_models.load_judge, list[str]()

    def recorded(name: str, *others: Any) -> LoadedRewardModel:
        names.append(Path(name).name)
        return load(name, *others)

    monkeypatch.setattr(judge_models, "load_judge", recorded)
    return names


def test_a_model_judges_once_and_its_weights_are_on_record(tmp_path: Path, loaded: list[str]):
    one = {"model": "./one", "dtype": "float32", "benchmarks": ["processbench_gsm8k"]}
    frame, _ = made(settings_of(tmp_path, {"One": one}))
    problems = pl.DataFrame({"problem_id": ["gsm8k-0", "gsm8k-1"], "question": "q", "steps": [["a"], ["b"]]})
    alone = score_steps(judge_models.load_judge(str(tmp_path / "one")), problems, 512)
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
    shutil.copy(tmp_path / "two" / "model.safetensors", tmp_path / "one")
    made(settings_of(tmp_path, more))
    assert loaded == ["two", "one"]
    assert set(made(settings_of(tmp_path, {"Mine": "a.jsonl"}))[0]["judge"]) == {"Mine"}


def test_a_model_whose_first_label_means_right_has_the_probabilities_of_that_label(tmp_path: Path, loaded: list[str]):
    judges = {"One": {"model": "./one", "form": "export"}}
    usual = made(settings_of(tmp_path, judges))[0]["probability"]
    config = json.loads((tmp_path / "one" / "config.json").read_text()) | {"id2label": {0: "+", 1: "-"}, "label2id": {}}
    (tmp_path / "one" / "config.json").write_text(json.dumps(config))
    reversed_ = made(settings_of(tmp_path, {"Other": judges["One"]}))[0]["probability"]
    assert (1 - reversed_).to_list() == pytest.approx(usual.to_list(), abs=1e-6)
    assert usual.to_list() != pytest.approx(reversed_.to_list(), abs=1e-6)


def test_what_a_model_cannot_judge_names_the_setting_or_the_row(tmp_path: Path, loaded: list[str]):
    with pytest.raises(CpmiError, match="`One` judges `prmbench`, of which there are no problems with steps"):
        made(settings_of(tmp_path, {"One": {"model": "./one", "benchmarks": ["prmbench"]}}))
    config = json.loads((tmp_path / "one" / "config.json").read_text()) | {"max_position_embeddings": 8}
    (tmp_path / "one" / "config.json").write_text(json.dumps(config))
    with pytest.raises(CpmiError, match=r"problem_id gsm8k-0 has \d+ tokens, but one@\w+ reads at most 8"):
        made(settings_of(tmp_path, {"One": {"model": "./one"}}))


@pytest.mark.slow
def test_an_export_of_a_recipe_has_the_processbench_figures_of_the_recipe(own_copy: Settings, tmp_path: Path):
    export(own_copy, str(tmp_path / "prm"), recipe="cpmi_bce")
    judges = {"Export": Judge(model=str(tmp_path / "prm"))}
    benchmarks = own_copy.benchmarks.model_copy(update={"judges": judges})
    settings = own_copy.model_copy(update={"benchmarks": benchmarks})
    assert not run_all(settings, only=("benchmarks",)).failures
    lake = Lake.of(settings)
    problems = lake.read(PROBLEMS).filter(pl.col("benchmark").is_in(SUBSETS))
    both = lake.read(PROCESSBENCH, "cpmi_bce"), lake.read(JUDGES).filter(pl.col("benchmark").is_in(SUBSETS))
    order = ["benchmark", "problem_id", "step_index"]
    ours, exported = (each.sort(order)["probability"] for each in both)
    assert len(ours) == len(exported) and (ours - exported).abs().max() < 1e-5  # pyright: ignore[reportOperatorIssue]
    assert ours.n_unique() > 50
    for protocol in ("fixed", "official", "paper"):
        scores = [processbench_scores(each.select(*order, "probability"), problems, protocol, 20, 0) for each in both]
        assert_frame_equal(*scores, abs_tol=1e-6)


def test_judges_are_read_before_the_costly_work():
    assert JUDGES in PHASES[INGEST]
    assert next(iter(PHASES)) == INGEST
