"""Judges that are not ours in the DAG: made once, made again when their file changes, refused before anything else."""

import json
from pathlib import Path

import polars as pl
import pytest
import yaml

from cpmi_dagster.assets.benchmarks import judge_predictions
from cpmi_dagster.contracts.tables import JudgePredictions
from cpmi_dagster.errors import CpmiError
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.automation import INGEST, PHASES
from cpmi_dagster.resources.dag.progress import LoggedProgress
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.lake.database import Database
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.records import FileRecord
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.resources.workers.language_models import LanguageModels

PROBLEMS, JUDGES = "sources/benchmark_problems", "benchmarks/judge_predictions"


def write(path: Path, *probabilities: float) -> None:
    lines = [{"id": f"gsm8k-{number}", "probabilities": [value]} for number, value in enumerate(probabilities)]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")


def settings_of(folder: Path, judges: dict[str, str]) -> Settings:
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
    lake.write(problems, FileRecord(PROBLEMS, None, "r", "", "1"))
    run = StageRun(
        judge_predictions.name, judge_predictions.tables, settings, lake, LanguageModels(settings),
        DataSources(settings), Database(lake), LoggedProgress(), "r", lambda _: None,
    )  # fmt: skip
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


def test_judges_are_read_before_the_costly_work():
    assert JUDGES in PHASES[INGEST]
    assert next(iter(PHASES)) == INGEST
