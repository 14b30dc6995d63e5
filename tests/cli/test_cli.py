"""The commands: what they print, what they exit with, and what a mistake is answered with."""

import json
import os
import subprocess
import sys
from importlib.metadata import version

import polars as pl
import pytest
from typer.testing import CliRunner

from cpmi_dagster.cli.commands import app
from cpmi_dagster.cli.option_texts import parse_conditionings, parse_shards
from cpmi_dagster.contracts.contexts import CONDITIONINGS
from cpmi_dagster.errors import CpmiError, SettingsError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.runs import Runner
from cpmi_dagster.resources.lake.calls import Calls
from cpmi_dagster.resources.lake.home_file import note_home
from cpmi_dagster.resources.lake.lake import Lake

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


COMMANDS = "init run status score judge evaluate query trace explore export calibrate doctor ui plan"


@pytest.mark.parametrize("command", COMMANDS.split())
def test_every_command_explains_itself_with_an_example(command):
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"cpmi {command}" in result.output
    assert "Example:" in result.output


def test_the_ui_of_a_home_that_cannot_be_opened_has_no_address(tmp_path, monkeypatch):
    monkeypatch.setenv("CPMI_HOME", str(tmp_path))
    (tmp_path / "dagster").write_text("in the place of a folder")
    found = CliRunner().invoke(app, ["ui", "--port", "3987"])
    assert isinstance(found.exception, SettingsError) and found.output == ""


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["query", "select 1"], 1, "profile `miniature` has no results at"),
        (["explore"], 1, "profile `miniature` has no results at"),
        (["plan", "-p", "paper"], 1, "run `cpmi run -p paper --until selection` first"),
        (["status", "-p", "nowhere"], 1, "there is no profile `nowhere`"),
        (["run", "--shards", "9-12"], 2, "has shards 0 to 3"),
        (["run", "--shards", "3-1"], 2, "write numbers and ranges"),
        (["run", "--shards", "²"], 2, "write numbers and ranges"),
        (["run", "--only", "nothing"], 2, "there is no such asset or group; groups are"),
        (["run", "--only", "labels/step_reward"], 2, "did you mean labels/step_rewards?"),
        (["run", "--only", "dataset/soft_labels"], 1, "labels/step_rewards"),
        (["run", "--only", "labels", "--until", "labels"], 2, "--only and --until exclude each other"),
        (["score"], 2, "Missing option"),
        (["nothing"], 2, "No such command"),
    ],
)
def test_mistakes_exit_with_one_sentence_on_stderr(tmp_path, arguments, code, message):
    command = [sys.executable, "-m", "cpmi_dagster", *arguments]
    environment = {"CPMI_HOME": str(tmp_path), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_version_is_that_of_the_package():
    assert invoke("--version").stdout == f"cpmi {version('cpmi-dagster')}\n"


@pytest.mark.parametrize(
    ("text", "shards"), [(None, "000 001 002 003"), ("0-2", "000 001 002"), ("3", "003"), ("0,2-3", "000 002 003")]
)
def test_shards_are_numbers_and_ranges(text, shards):
    assert parse_shards(text, load_settings("miniature")) == shards.split()


@pytest.mark.parametrize("text", ["4", "x", "2-", "", "1-0", "0-99999999999"])
def test_shards_that_are_not_there_are_refused(text):
    with pytest.raises(SettingsError, match="--shards"):
        parse_shards(text, load_settings("miniature"))


def test_conditionings_keep_their_order_and_unknown_ones_are_named():
    assert parse_conditionings("prefix, marginal") == ["marginal", "prefix"]
    assert parse_conditionings("all") == list(CONDITIONINGS)
    with pytest.raises(SettingsError, match="--conditioning sideways: choose from marginal"):
        parse_conditionings("sideways")


def score(tmp_path, rows: list, *options: str) -> pl.DataFrame:
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    output = tmp_path / "out.parquet"
    arguments = ["--model", "miniature:labeler", "--input", str(tmp_path / "in.jsonl"), "--output", str(output)]
    assert invoke("score", *arguments, "--dtype", "float32", *options).exit_code == 0
    return pl.read_parquet(output)


def test_score_writes_every_step_template_and_conditioning(tmp_path):
    logprobs = tmp_path / "logprobs.parquet"
    scores = score(tmp_path, [ROW], "--conditioning", "all", "--answer-logprobs", str(logprobs))
    assert scores.columns == ["id", "step_index", "conditioning", "template", "gold_shift", "negative_shift", "cpmi"]
    assert scores.height == 4 * len(CONDITIONINGS)
    stored = pl.read_parquet(logprobs)
    assert stored.columns[0] == "id"
    assert stored["answer_rank"].unique().sort().to_list() == [0, 1, 2]


def test_both_scorers_agree_on_a_file(tmp_path):
    rows = [ROW, {**ROW, "id": "b", "steps": ["1 + 1 = 3", "1 + 1 = 3", "So 3."]}]
    tree, reference = (score(tmp_path, rows, "--scorer", name) for name in ("tree", "reference"))
    assert (tree["cpmi"] - reference["cpmi"]).abs().max() < 1e-4


def test_score_samples_negatives_where_none_are_given_and_a_seed_repeats_them(tmp_path):
    bare = {name: value for name, value in ROW.items() if name != "negative_answers"}
    first, again = (score(tmp_path, [bare], "--negatives", "2", "--seed", "3") for _ in range(2))
    assert first.equals(again)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 is not JSON"),
        ('{"id": "b", "question": "x", "steps": "no list", "gold_answer": "1"}', "line 2: `steps`"),
        ('{"id": "b", "question": "x", "steps": []}', "line 2: `gold_answer`"),
        ('{"id": "b", "question": "x", "steps": ["y", "  "], "gold_answer": "1"}', "line 2: `steps.1`: it is blank;"),
        ('{"id": 1.5, "question": "x", "steps": [], "gold_answer": "1"}', "`id`: it must be text or a whole number"),
        ("5", "line 2 is not a JSON object"),
        ("[" * 100_000, "line 2 is nested too deeply"),
    ],
)
def test_a_wrong_line_of_the_input_is_named(tmp_path, line, message):
    (tmp_path / "in.jsonl").write_text(f"{json.dumps(ROW)}\n{line}\n", encoding="utf-8")
    files = ["--input", str(tmp_path / "in.jsonl"), "--output", str(tmp_path / "out.parquet")]
    with pytest.raises(CpmiError, match=message):
        invoke("score", "--model", "miniature:labeler", *files)
    assert not (tmp_path / "out.parquet").exists()


def test_an_empty_file_of_trajectories_is_refused(tmp_path):
    with pytest.raises(CpmiError, match=r"in.jsonl has no lines; give JSON Lines with id"):
        score(tmp_path, [])


def test_a_blank_gold_answer_is_called_so(tmp_path):
    with pytest.raises(CpmiError, match="trajectory `a` has no gold answer; give it one"):
        score(tmp_path, [{**ROW, "gold_answer": " ", "negative_answers": None}])


def test_an_output_that_cannot_be_written_is_found_out_before_scoring(tmp_path):
    (tmp_path / "in.jsonl").write_text(json.dumps(ROW), encoding="utf-8")
    (tmp_path / "file").touch()
    for output, message in (
        (tmp_path, "is a folder"),
        (tmp_path / "file" / "out.parquet", "cannot be written"),
        (tmp_path / "out.csv", "is written as Parquet"),
    ):
        with pytest.raises(CpmiError, match=message):
            invoke("score", "--model", "nowhere", "--input", str(tmp_path / "in.jsonl"), "--output", str(output))


@pytest.mark.slow
def test_init_names_rejected_lines_what_lacks_a_gold_answer_and_the_next_commands(tmp_path):
    rows = [ROW, {"question": "2 + 2?", "steps": ["4"]}, *({"question": "", "steps": ["4"]} for _ in range(7))]
    source, profile = tmp_path / "in.jsonl", tmp_path / "mine.yaml"
    source.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    result = invoke("init", "--input", str(source), "--model", "org/model", "--output", str(profile))
    assert result.exit_code == 0
    for said in (
        "9: 9 question and steps",
        "2 of 2 questions",
        "row 3: `question`: it is empty (and 6 more rows)",
        "org/model, a hub id",
        "1 of 2 trajectories get no CPMI",
        f"cpmi plan -p {profile}",
    ):
        assert said in result.output
    with pytest.raises(SettingsError, match="--force"):
        invoke("init", "--input", str(source), "--model", "org/model", "--output", str(profile))


@pytest.mark.slow
def test_a_second_run_finds_everything_up_to_date_and_ends_with_the_figures(own_copy, small_profile, monkeypatch):
    monkeypatch.setenv("CPMI_HOME", str(own_copy.home))
    monkeypatch.setattr(Runner, "_run_job", lambda *_: pytest.fail("something is made again"))
    result = invoke("run", "-p", small_profile)
    assert result.exit_code == 0
    assert "Everything is up to date: nothing was recomputed." in result.stderr
    for said in ("Profile small: measured", "Report    ", "Database  ", "Next      "):
        assert said in result.stdout


@pytest.mark.slow
def test_force_makes_tables_again_and_asks_no_model(own_copy, small_profile, monkeypatch):
    monkeypatch.setenv("CPMI_HOME", str(own_copy.home))
    monkeypatch.setattr(Calls, "_keep", lambda *_: pytest.fail("a model is asked again"))
    lake = Lake.of(own_copy)
    before = [lake.record("labels/answer_logprobs", shard) for shard in ("000", "001")]
    result = invoke("run", "-p", small_profile, "--only", "labels", "--shards", "0", "--force", "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    forced, other = (lake.record("labels/answer_logprobs", shard) for shard in ("000", "001"))
    assert forced and before[0] and forced.run_id != before[0].run_id and forced.content == before[0].content
    assert other == before[1]


def test_status_where_nothing_was_made_says_where_it_looked_and_makes_nothing(tmp_path, monkeypatch):
    monkeypatch.delenv("CPMI_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    assert ".cpmi/miniature" in invoke("status").output.replace("\n", "")
    assert not list(tmp_path.iterdir())


def test_without_a_profile_commands_take_that_of_the_last_run_here_and_say_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("extends: miniature\n", encoding="utf-8")
    note_home(load_settings("mine.yaml"), lambda: None)
    said = invoke("status")
    assert said.stderr == "Profile mine.yaml, as in the last run here; -p names another.\n"
    assert ".cpmi/mine" in said.stdout
    assert invoke("status", "-p", "miniature").stderr == ""


def test_status_shows_every_asset(home):
    output = invoke("status", "--all", "-p", home).output
    assert "labels/answer_logprobs" in output.replace("\n", "")
    assert "Labeling took" in output


def test_status_verifies_every_file(home):
    assert "; all are intact" in invoke("status", "--verify", "-p", home).output


@pytest.mark.slow
def test_query_gives_tables_csv_and_json(home):
    sql = "select reward_type, count(*) as steps from labels.step_rewards group by all order by all"
    rows = json.loads(invoke("query", sql, "--format", "json", "-p", home).output)
    assert {row["reward_type"] for row in rows} >= {"mc", "pav", "cpmi", "rand_merge"}
    assert invoke("query", sql, "--format", "csv", "-p", home).output.startswith("reward_type,steps\ncpmi,")
    assert "reward_type" in invoke("query", sql, "-p", home).output


@pytest.mark.slow
def test_query_writes_numbers_as_numbers_and_lists_as_json(home):
    sql = "select sum(x) as total, [1, 2] as list, 'é' as text from (values (1), (2)) t(x)"
    assert json.loads(invoke("query", sql, "--format", "json", "-p", home).output) == [
        {"total": 3, "list": [1, 2], "text": "é"}
    ]
    assert invoke("query", sql, "--format", "csv", "-p", home).output == 'total,list,text\n3,"[1, 2]",é\n'
    with pytest.raises(CpmiError, match="cast it"):
        invoke("query", "select interval 3 days", "-p", home)


@pytest.mark.slow
def test_query_refuses_to_write(home):
    for sql in ("create table t as select 1", "copy (select 1) to 'x.csv'", "select 1; select 2", ""):
        with pytest.raises(CpmiError, match="one statement that only reads"):
            invoke("query", sql, "-p", home)


@pytest.mark.slow
def test_a_table_shows_the_first_rows_and_says_that_there_are_more(home):
    many = "select * from range(1500)"
    result = invoke("query", many, "-p", home)
    assert "999" in result.stdout and "1000" not in result.stdout
    assert "Only the first 1,000 rows are shown; `--limit 0` shows all." in result.stderr
    assert "1499" in invoke("query", many, "-p", home, "--limit", "0").stdout
    assert len(invoke("query", many, "-p", home, "--format", "csv").stdout.splitlines()) == 1501
    limited = invoke("query", many, "-p", home, "--format", "json", "--limit", "2")
    assert len(json.loads(limited.stdout)) == 2 and "first 2 rows" in limited.stderr


@pytest.mark.slow
def test_a_query_is_stopped_after_its_time(home):
    endless = "select count(*) from range(10000000000) a, range(1000) b where (a.range * b.range) % 7 = 3"
    with pytest.raises(CpmiError, match=r"stopped after 0\.3 s"):
        invoke("query", endless, "-p", home, "--timeout", "0.3")


@pytest.mark.slow
def test_trace_leads_from_a_label_to_row_answers_model_and_code(home, finished):
    name = Lake.of(finished).read("selection/selected_trajectories")["trajectory_id"][0]
    output, full = (invoke("trace", name, "0", "-p", home, *more).output for more in ((), ("--full",)))
    for part in ("trajectory", "hard negatives", "CPMI by template", "rewards", "made by", "miniature:labeler"):
        assert part in output
    for part in ("composition", "labels/labeling_costs", '"seed"'):
        assert part in full and part not in output
    with pytest.raises(CpmiError, match="has no step 99"):
        invoke("trace", name, "99", "-p", home)
    with pytest.raises(CpmiError, match=r"there is no trajectory `t0`; .* for example t0"):
        invoke("trace", "t0", "-p", home)
