"""`cpmi evaluate`: the report's figures of a judge, straight from its file and the profile's problems."""

import json
from pathlib import Path

import judged_problems as judged
import pytest
import yaml
from typer.testing import CliRunner

from cpmi_dagster.cli.commands import app
from cpmi_dagster.errors import CpmiError
from cpmi_dagster.reports.benchmark_tables import PROTOCOLS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A profile of local files, and a judge that knows every first wrong step of ProcessBench, and of PRMBench some."""
    sets = {f"processbench_{subset}": rows for subset, rows in judged.made_up_processbench(12).items()}
    lines = [
        {"id": row["id"], "probabilities": [float(not 0 <= row["label"] <= step) for step in range(len(row["steps"]))]}
        for rows in sets.values()
        for row in rows
    ]
    sets["prmbench"] = judged.made_up_prmbench(3)
    prmbench = [
        {"id": judged.prmbench_id(row), "probabilities": judged.prmbench_probabilities(row)} for row in sets["prmbench"]
    ]
    files = {**sets, "my_judge": lines + prmbench}
    for name, rows in files.items():
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    sources = {"benchmarks": {name: {"path": f"{name}.jsonl"} for name in sets}}
    values = {"extends": "miniature", "sources": sources, "benchmarks": {"bootstrap_samples": 20}}
    (tmp_path / "profile.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return tmp_path


def evaluate(folder: Path, predictions: str, *options: str) -> str:
    files = ["--predictions", str(folder / predictions), "--profile", str(folder / "profile.yaml")]
    result = CliRunner().invoke(app, ["evaluate", *files, *options], env={"CPMI_HOME": str(folder / "home")})
    if isinstance(result.exception, CpmiError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_judge_has_its_figures_under_every_protocol_for_people_and_programs_and_nothing_is_run(folder: Path):
    rows = json.loads(evaluate(folder, "my_judge.jsonl", "--format", "json"))
    values = {(row["protocol"], row["figure"]): row["value"] for row in rows if row["benchmark"] == "ProcessBench"}
    assert [values[protocol, "Average F1"] for protocol in PROTOCOLS] == [100] * len(PROTOCOLS)
    of_prmbench = [row for row in rows if row["benchmark"] == "PRMBench"]
    assert {row["protocol"] for row in of_prmbench} == {"released", "best", "fixed"}
    assert {(row["low"], row["units"], row["unit"]) for row in of_prmbench} == {(None, 3, "question")}
    table = " ".join(evaluate(folder, "my_judge.jsonl", "--name", "A judge").split())
    assert "A judge, on the benchmarks of profile profile: percent" in table and "too few (3 questions)" in table
    header = "judge,benchmark,protocol,figure,value,low,high,n,units,unit"
    assert evaluate(folder, "my_judge.jsonl", "--format", "csv").startswith(f"{header}\nmy_judge,")
    assert not (folder / "home").exists()
