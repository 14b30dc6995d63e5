"""`cpmi evaluate`: the report's figures of a judge, straight from its file and the profile's problems."""

import json
from pathlib import Path

import judged_problems as judged
import polars as pl
import pytest
import yaml
from typer.testing import CliRunner

from cpmi_dagster.benchmarks.processbench import processbench_scores
from cpmi_dagster.benchmarks.registry import read_benchmark
from cpmi_dagster.cli.commands import app
from cpmi_dagster.errors import CpmiError
from cpmi_dagster.reports.process_level import PROTOCOLS

SAMPLES = 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile of local files, and a judge's file of everything."""
    place = tmp_path_factory.mktemp("judged")
    sets = {f"processbench_{subset}": rows for subset, rows in judged.made_up_processbench(40).items()}
    sets["prmbench"] = judged.made_up_prmbench(3)
    lines = []
    for name, rows in sets.items():
        (place / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        for row in rows:
            of_prmbench = name == "prmbench"
            scores = judged.prmbench_probabilities(row) if of_prmbench else judged.processbench_probabilities(row)
            lines.append({"id": judged.prmbench_id(row) if of_prmbench else row["id"], "probabilities": scores})
    (place / "my_judge.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    sources = {"benchmarks": {name: {"path": f"{name}.jsonl"} for name in sets}}
    values = {"extends": "miniature", "sources": sources, "benchmarks": {"bootstrap_samples": SAMPLES}}
    (place / "profile.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return place


def evaluate(folder: Path, *options: str, predictions: str = "my_judge.jsonl") -> str:
    arguments = ["--predictions", str(folder / predictions), "--profile", str(folder / "profile.yaml"), *options]
    result = CliRunner().invoke(app, ["evaluate", *arguments], env={"CPMI_HOME": str(folder / "home")})
    if isinstance(result.exception, CpmiError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_figures_are_those_of_the_metrics_under_every_protocol_and_nothing_is_run(folder: Path):
    rows = json.loads(evaluate(folder, "--format", "json"))
    found = {(row["protocol"], row["figure"]): row for row in rows if row["benchmark"] == "ProcessBench"}
    problems, predictions = [], []
    for subset, solutions in judged.made_up_processbench(40).items():
        problems.append(read_benchmark(f"processbench_{subset}", pl.DataFrame(solutions)))
        scores = map(judged.processbench_probabilities, solutions)
        predictions.append(judged.as_predictions(f"processbench_{subset}", problems[-1]["problem_id"], scores))
    for protocol in PROTOCOLS:
        expected = processbench_scores(pl.concat(predictions), pl.concat(problems), protocol, SAMPLES, 0)
        last = expected.row(-1, named=True)
        ours = found[protocol, "Average F1"]
        assert [ours[name] for name in ("value", "low", "high")] == pytest.approx(
            [100 * last[name] for name in ("f1", "low", "high")]
        )
    of_prmbench = {row["protocol"] for row in rows if row["benchmark"] == "PRMBench"}
    assert of_prmbench == {"released", "best", "fixed"}
    assert {row["judge"] for row in rows} == {"my_judge"}
    assert {"NR", "Overall", "Soundness", "ROC-AUC"} <= {row["figure"] for row in rows}
    assert not (folder / "home").exists()


def test_tables_are_for_people_and_csv_for_programs(folder: Path):
    table = evaluate(folder, "--name", "A judge")
    assert "A judge, on the benchmarks of profile profile: percent" in table
    assert "GSM8K F1" in table
    header = "judge,benchmark,protocol,figure,value,low,high,n,units,unit"
    assert evaluate(folder, "--format", "csv").startswith(f"{header}\nmy_judge,")


def test_figures_of_a_few_questions_have_no_interval(folder: Path):
    rows = [row for row in json.loads(evaluate(folder, "--format", "json")) if row["benchmark"] == "PRMBench"]
    assert {(row["low"], row["high"], row["units"], row["unit"]) for row in rows} == {(None, None, 3, "question")}
    assert "too few (3 questions)" in " ".join(evaluate(folder).split())


def test_a_benchmark_may_be_said_for_the_whole_file(folder: Path):
    lines = (folder / "my_judge.jsonl").read_text(encoding="utf-8").splitlines()
    of_prmbench = [line for line in lines if "made_up" in line]
    (folder / "prm.jsonl").write_text("\n".join(of_prmbench), encoding="utf-8")
    rows = json.loads(evaluate(folder, "--benchmark", "prmbench", "--format", "json", predictions="prm.jsonl"))
    assert {row["benchmark"] for row in rows} == {"PRMBench"}
    with pytest.raises(CpmiError, match=r"prm.jsonl, line 1: `made_up_0:redundency` is not a problem of processbench_"):
        evaluate(folder, "--benchmark", "processbench_math", predictions="prm.jsonl")


def test_a_benchmark_judged_in_part_is_refused(folder: Path):
    lines = (folder / "my_judge.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "part.jsonl").write_text("\n".join(lines[1:]), encoding="utf-8")
    with pytest.raises(
        CpmiError, match=r"problem `gsm8k-0` of processbench_gsm8k has not been judged \(1 such problems\)"
    ):
        evaluate(folder, predictions="part.jsonl")
