"""The commands: what they print, what they exit with, and what a mistake is answered with."""

import json
import os
import signal
import subprocess
import sys

import polars as pl
import pytest
from typer.testing import CliRunner

from cpmi_dagster.cli import commands
from cpmi_dagster.cli.commands import app
from cpmi_dagster.cli.options import parse_shards
from cpmi_dagster.contracts.contexts import CONDITIONINGS
from cpmi_dagster.errors import CpmiError, UsageError
from cpmi_dagster.files.text import NOT_SHOWN
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.answers.cache import AnswerCache
from cpmi_dagster.resources.dag import making
from cpmi_dagster.resources.dag.runner import Runner
from cpmi_dagster.resources.lake.home_file import note_home
from cpmi_dagster.resources.lake.lake import Lake

HELP = """
import sys
from cpmi_dagster.cli import app
app(["--help"], standalone_mode=False)
print("loaded:", *sorted({"dagster", "dataframely", "polars", "torch", "transformers"} & set(sys.modules)))
"""
LEAVING = """
import atexit
from cpmi_dagster.cli import commands
atexit.register(print, "closed")
commands.leave(3)
"""
ROW = {"id": "a", "question": "1 + 1?", "steps": ["1 + 1 = 2"], "gold_answer": "2", "negative_answers": ["3", "12"]}


def invoke(*arguments: str):
    """Run a command in this process; errors of ours come out as they are."""
    result = CliRunner().invoke(app, arguments)
    if isinstance(result.exception, CpmiError):
        raise result.exception
    return result


@pytest.fixture
def home(finished_home, small_profile, monkeypatch) -> str:
    """The profile of the finished home, as an option's value."""
    monkeypatch.setenv("CPMI_HOME", str(finished_home))
    return small_profile


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["query", "select 1"], 1, "error: profile `miniature` has no results at"),
        (
            ["status", "-p", "x\x1b]52;c;ZXZpbA==\x07[/red]"],
            1,
            r"there is no profile `x\u001b]52;c;ZXZpbA==\u0007[/red]`",
        ),
        (["run", "--shards", "9-12"], 2, "error: --shards 9-12: profile `miniature` has shards 0 to 3"),
        (["nothing"], 2, "No such command"),
    ],
)
def test_mistakes_exit_with_one_sentence_on_stderr_that_a_terminal_does_not_obey(tmp_path, arguments, code, message):
    command = [sys.executable, "-m", "cpmi_dagster", *arguments]
    environment = {"CPMI_HOME": str(tmp_path), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr and "Traceback" not in done.stderr
    assert not NOT_SHOWN.search(done.stderr)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["plan", "-p", "paper"], CpmiError, "run `cpmi run -p paper --until selection` first"),
        (["run", "--only", "labels/step_reward"], UsageError, r"did you mean labels/step_rewards\?"),
        (["run", "--only", "labels", "--until", "labels"], UsageError, "--only and --until exclude each other"),
        (
            ["score", "--model", "m", "--input", "i", "--output", "o", "--map", "gold=x"],
            UsageError,
            r"^--map gold=x: `gold` is no field of trajectories \(did you mean gold_answer\?\)",
        ),
        (["plan", "-p", "miniature", "--hardware", "abacus"], UsageError, "there is no hardware `abacus`; give one of"),
    ],
)
def test_a_command_that_cannot_do_what_is_asked_says_why(tmp_path, monkeypatch, arguments, error, message):
    monkeypatch.setenv("CPMI_HOME", str(tmp_path))
    with pytest.raises(error, match=message):
        invoke(*arguments)


@pytest.mark.parametrize("text", ["4", "x", "2-", "", "1-0", "²", "0-99999999999"])
def test_shards_are_numbers_and_ranges_and_those_that_are_not_there_are_refused(text):
    assert parse_shards("0,2-3", load_settings("miniature")) == ["000", "002", "003"]
    with pytest.raises(UsageError, match="--shards"):
        parse_shards(text, load_settings("miniature"))


def score(tmp_path, text: str, *options: str) -> pl.DataFrame:
    (tmp_path / "in.jsonl").write_text(text, encoding="utf-8")
    output = tmp_path / "out.parquet"
    arguments = ["--model", "miniature:labeler", "--input", str(tmp_path / "in.jsonl"), "--output", str(output)]
    assert invoke("score", *arguments, "--dtype", "float32", *options).exit_code == 0
    return pl.read_parquet(output)


def test_score_writes_every_step_template_and_conditioning(tmp_path):
    logprobs = tmp_path / "logprobs.parquet"
    options = ("--conditioning", "all", "--answer-logprobs", str(logprobs))
    scores = score(tmp_path, json.dumps(ROW), *options)
    assert scores.columns == ["id", "step_index", "conditioning", "template", "gold_shift", "negative_shift", "cpmi"]
    assert scores.height == 4 * len(CONDITIONINGS)
    stored = pl.read_parquet(logprobs)
    assert stored.columns[0] == "id"
    assert stored["answer_rank"].unique().sort().to_list() == [0, 1, 2]
    reference = score(tmp_path, json.dumps(ROW), *options, "--scorer", "reference")
    assert (scores["cpmi"] - reference["cpmi"]).abs().max() < 1e-4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": "b", "question": "x", "steps": "no list", "gold_answer": "1"}', "the first, b: `steps`: it must be a"),
        ('{"a": 1}', "has columns a; name its fields, such as --map"),
        ("", r"in.jsonl has no rows"),
    ],
)
def test_an_input_of_which_nothing_can_be_scored_is_refused_and_nothing_is_written(tmp_path, text, message):
    with pytest.raises(CpmiError, match=message):
        score(tmp_path, text)
    assert not (tmp_path / "out.parquet").exists()


def test_a_wrong_line_is_named_and_the_others_are_scored(tmp_path, capsys):
    scores = score(tmp_path, f"{json.dumps(ROW)}\n{{")
    assert scores["id"].unique().to_list() == [ROW["id"]]


@pytest.mark.slow
def test_a_second_run_makes_nothing_and_force_makes_tables_again_and_asks_no_model(
    own_copy, small_profile, monkeypatch
):
    monkeypatch.setenv("CPMI_HOME", str(own_copy.home))
    with monkeypatch.context() as patched:
        patched.setattr(Runner, "_run_job", lambda *_: pytest.fail("something is made again"))
        result = invoke("run", "-p", small_profile)
    assert result.exit_code == 0
    assert "Everything is up to date: nothing was recomputed." in result.stderr
    assert "Profile small: measured" in result.stdout and "Report    " in result.stdout
    monkeypatch.setattr(AnswerCache, "_keep", lambda *_: pytest.fail("a model is asked again"))
    lake = Lake.of(own_copy)
    before = [lake.record("labels/answer_logprobs", shard) for shard in ("000", "001")]
    only = ("--only", "labels/answer_logprobs", "--shards", "0")
    result = invoke("run", "-p", small_profile, *only, "--force", "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    forced, other = (lake.record("labels/answer_logprobs", shard) for shard in ("000", "001"))
    assert forced and before[0] and forced.run_id != before[0].run_id and forced.content == before[0].content
    assert other == before[1]


def test_without_a_profile_commands_take_that_of_the_last_run_here_and_say_so(tmp_path, monkeypatch):
    monkeypatch.delenv("CPMI_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    assert ".cpmi/miniature" in invoke("status").output.replace("\n", "")
    assert "this is the demo, profile miniature" in invoke("run", "--dry").stderr
    assert not list(tmp_path.iterdir())
    (tmp_path / "mine.yaml").write_text("extends: miniature\n", encoding="utf-8")
    note_home(load_settings("mine.yaml"), lambda: None)
    said = invoke("status")
    assert said.stderr.startswith("Profile mine.yaml, as in the last run ")
    assert ".cpmi/mine" in said.stdout
    assert invoke("status", "-p", "miniature").stderr == ""


def test_status_shows_every_asset_and_verifies_every_file(home):
    output = invoke("status", "--all", "-p", home).output
    assert "labels/answer_logprobs" in output.replace("\n", "") and "Labeling took" in output
    assert "; all are intact" in invoke("status", "--verify", "-p", home).output


@pytest.mark.slow
def test_query_gives_tables_csv_and_json_and_says_that_there_are_more_rows(home):
    sql = "select sum(x) as total, [1, 2] as list, 'é' as text from (values (1), (2)) t(x)"
    rows = [{"total": 3, "list": [1, 2], "text": "é"}]
    assert json.loads(invoke("query", sql, "--format", "json", "-p", home).output) == rows
    assert invoke("query", sql, "--format", "csv", "-p", home).output == 'total,list,text\n3,"[1, 2]",é\n'
    many = "select * from range(1500)"
    result = invoke("query", many, "-p", home)
    assert "999" in result.stdout and "1000" not in result.stdout
    assert "Only the first 1,000 rows are shown; `--limit 0` shows all." in result.stderr
    assert "1499" in invoke("query", many, "-p", home, "--limit", "0").stdout
    assert len(invoke("query", many, "-p", home, "--format", "csv").stdout.splitlines()) == 1501
    limited = invoke("query", many, "-p", home, "--format", "json", "--limit", "2")
    assert len(json.loads(limited.stdout)) == 2 and "first 2 rows" in limited.stderr


@pytest.mark.slow
def test_trace_leads_from_a_label_to_row_answers_model_and_code(home, finished):
    name = Lake.of(finished).read("selection/selected_trajectories")["trajectory_id"][0]
    output = invoke("trace", name, "0", "-p", home).output
    assert all(part in output for part in ("hard negatives", "CPMI by template", "made by", "miniature:labeler"))
    with pytest.raises(CpmiError, match="has no step 99"):
        invoke("trace", name, "99", "-p", home)


@pytest.mark.slow
def test_trace_leads_from_a_figure_to_its_tables_labels_settings_and_sql(home):
    output = invoke("trace", "--figure", "label_quality/CPMI", "-p", home).output
    shown = ("Label AUC", "labels/step_rewards", "rewards.types cpmi", "t0000", "where reward_type = 'cpmi'")
    assert all(part in output for part in shown)
    assert "none of these figures" in invoke("trace", "--figure", "logic", "-p", home).output


@pytest.mark.parametrize("arguments", [[], ["t000000017", "--figure", "label_quality"]])
def test_trace_takes_a_trajectory_or_a_figure(arguments):
    with pytest.raises(UsageError, match="give the id of a trajectory, or `--figure TABLE/ROW`"):
        invoke("trace", *arguments)


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


def test_help_loads_no_data_or_model_library():
    done = python(HELP)
    assert done.stdout.splitlines()[-1].strip() == "loaded:", done.stdout + done.stderr


def test_a_run_that_ctrl_c_stops_exits_with_the_code_that_shells_expect(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CPMI_HOME", str(tmp_path))
    monkeypatch.setattr(making, "_make", lambda _: signal.raise_signal(signal.SIGINT))
    monkeypatch.setattr(sys, "argv", ["cpmi", "run", "-p", "miniature", "--only", "sources/reference_problems", "-q"])
    codes = []
    monkeypatch.setattr(commands, "leave", codes.append)
    commands.main()
    assert codes == [130]
    assert "reference_problems: interrupted; run again to continue where it stopped" in capsys.readouterr().err


def test_leaving_runs_exit_functions_and_keeps_the_exit_code():
    done = python(LEAVING)
    assert (done.returncode, done.stdout) == (3, "closed\n"), done.stderr
