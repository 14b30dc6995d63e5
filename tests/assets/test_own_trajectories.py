"""From `cpmi init` on trajectories of one's own to a reward model that judges them: real rows, the smallest model."""

import gzip
import io
import json
from pathlib import Path

import duckdb
import pytest
from rich.console import Console
from small_run import SHARED_DATA, run_all
from typer.testing import CliRunner

from cpmi_dagster.answers.extraction import extract_answer
from cpmi_dagster.cli.commands import app
from cpmi_dagster.profiles.settings import Settings, load_settings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the shared data folder is not beside the repository"),
]

ROWS = 10
LABELS_BY_ID = """
    select mine.id, list(labels.reward order by labels.step_index) as rewards
    from read_json('{rows}') mine
    join alignment.trajectories on trajectories.source_id = mine.id
    join labels.step_rewards labels using (trajectory_id)
    where labels.reward_type = 'cpmi'
    group by mine.id
"""


def right_solutions() -> list[dict]:
    """Solutions of ProcessBench with the right answer, which is then the gold answer."""
    with gzip.open(SHARED_DATA / "processbench" / "gsm8k.even.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row["final_answer_correct"]]
    answers = [extract_answer(row["steps"][-1]) for row in rows]
    return [
        {"id": row["id"], "question": row["problem"], "steps": row["steps"], "gold_answer": answer}
        for row, answer in zip(rows, answers, strict=True)
        if answer
    ][:ROWS]


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("own") / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in right_solutions()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def console() -> Console:
    """What the run says."""
    return Console(file=io.StringIO(), width=200)


@pytest.fixture(scope="module")
def done(rows, console) -> Settings:
    """The profile of the rows as `cpmi init` writes it, run to the end."""
    profile = rows.with_name("mine.yaml")
    said = invoke("init", "--input", str(rows), "--model", "miniature:labeler", "--output", str(profile))
    assert f"{ROWS}: {ROWS} question and steps" in said
    assert f"cpmi run -p {profile}" in "".join(said.splitlines())
    settings = load_settings(profile, rows.with_name("home"))
    outcome = run_all(settings, console=console)
    assert not outcome.failures, outcome.failures
    assert not outcome.waiting
    assert not outcome.failed_checks
    return settings


def test_the_run_says_where_the_labels_are_before_it_trains(done, console):
    said = console.file.getvalue()
    place = said.index(f"the labels can be read: labels.step_rewards in {done.home / 'cpmi.duckdb'}")
    assert said.index("soft_labels ") < place < said.index("process_reward_models ")


def test_labels_are_joined_back_by_id(done, rows):
    with duckdb.connect(str(done.home / "cpmi.duckdb"), read_only=True) as connection:
        labels = dict(connection.sql(LABELS_BY_ID.format(rows=rows)).fetchall())
    assert {name: len(rewards) for name, rewards in labels.items()} == {
        row["id"]: len(row["steps"]) for row in right_solutions()
    }


def test_the_reward_model_judges_a_solution(done, tmp_path):
    solution, judged = tmp_path / "solution.jsonl", tmp_path / "judged.jsonl"
    row = right_solutions()[0]
    solution.write_text(json.dumps(row), encoding="utf-8")
    prm = done.home / "models" / "cpmi_bce"
    invoke("judge", "--prm", str(prm), "--input", str(solution), "--output", str(judged))
    verdict = json.loads(judged.read_text(encoding="utf-8"))
    assert verdict["id"] == row["id"]
    assert len(verdict["probabilities"]) == len(row["steps"])


def test_the_report_opens_with_whether_to_train_on_the_labels(done):
    page = (done.home / "report" / "index.html").read_text(encoding="utf-8")
    assert "Train on the labels of CPMI? <strong>Not known" in page
    assert "Trust without truth" in page


def test_a_single_step_gives_no_labels_and_the_run_says_why(tmp_path):
    rows, profile = tmp_path / "one.jsonl", tmp_path / "one.yaml"
    solution = {"question": "Ann has 3 hats and buys 2. How many?", "steps": ["3 + 2 = 5. The answer is: 5"]}
    rows.write_text(json.dumps({**solution, "gold_answer": 5}), encoding="utf-8")
    invoke("init", "--input", str(rows), "--model", "miniature:labeler", "--output", str(profile))
    (failure,) = run_all(load_settings(profile, tmp_path / "home")).failures
    assert (
        "every step has the same label by cpmi, step_surprisal; give more solutions, or solutions of more steps"
        in failure
    )
