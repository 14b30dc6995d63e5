"""`cpmi judge`: every line of the input is in the output, judged or with its reason."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from queue import Queue
from threading import Thread
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from cpmi_dagster import judge
from cpmi_dagster.cli.commands import app
from cpmi_dagster.errors import ModelError, ScoringError, SourceError
from cpmi_dagster.prm import judge_stream as judge_stream_module
from cpmi_dagster.prm import load_reward_model, score_steps
from cpmi_dagster.prm.judge_stream import judge_stream
from cpmi_dagster.prm.judging import JudgeRequest, Solution, first_error, judge_file, judged_rows

pytestmark = pytest.mark.slow

SOLUTIONS: list[dict[str, Any]] = [
    {"id": "a", "question": "How many two ?", "steps": ["we add two", "oops so five"], "benchmark": "prmbench"},
    {"id": "empty", "question": "How many ?", "steps": []},
    {"id": 7, "question": "How many five ?", "steps": ["hence five"], "idx": "p", "first_error": 3, "note": {"é": [1]}},
    {"id": "long", "question": "How many ?", "steps": ["two and three"] * 60},
]


@pytest.fixture
def request_of(trained, tmp_path):
    def build(lines: Sequence[dict[str, Any] | str], **options: Any) -> JudgeRequest:
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (tmp_path / "in.jsonl").write_text("\n".join(texts), encoding="utf-8")
        return JudgeRequest(str(trained.path), tmp_path / "in.jsonl", tmp_path / "judged.jsonl", **options)

    return build


@pytest.fixture
def command(trained):
    """`command("--output", "a.jsonl", input="")`: `cpmi judge` with the trained model."""
    return lambda *options, **given: CliRunner().invoke(app, ["judge", "--prm", str(trained.path), *options], **given)


def rows(request: JudgeRequest) -> list[dict[str, Any]]:
    return [json.loads(line) for line in request.output.read_text(encoding="utf-8").splitlines()]


def ignore(count: int, total: int) -> None:
    """Progress that nobody watches."""


def test_every_line_comes_out_in_order_with_its_own_fields_or_a_reason(request_of):
    request, reported = request_of(SOLUTIONS), []
    done = judge_file(request, lambda count, total: reported.append((count, total)))
    first, empty, third, long = rows(request)
    assert (first["id"], first["benchmark"], len(first["probabilities"])) == ("a", "prmbench", 2)
    assert (third["id"], third["idx"], third["note"], len(third["probabilities"])) == (7, "p", {"é": [1]}, 1)
    assert not {"question", "steps"} & set(first)
    assert empty == {"id": "empty", "probabilities": None, "first_error": None, "reason": "it has no steps"}
    assert long["probabilities"] is None and "128" in long["reason"]
    assert (done.judged, done.rejected) == (2, [("empty", empty["reason"]), ("long", long["reason"])])
    assert (sum(count for count, _ in reported), {total for _, total in reported}) == (4, {4})


def test_probabilities_are_the_models_and_the_first_error_is_the_first_below_the_threshold(request_of, trained):
    frame = pl.DataFrame([{name: SOLUTIONS[0][name] for name in ("question", "steps")}])
    expected = score_steps(load_reward_model(trained.path), frame, 512)["probability"].to_list()
    for threshold in (0.0, sum(expected) / 2, 1.0):
        request = request_of(SOLUTIONS[:1], threshold=threshold)
        judge_file(request, ignore)
        assert rows(request)[0]["probabilities"] == pytest.approx(expected, abs=1e-6)
        assert rows(request)[0]["first_error"] == first_error(expected, threshold)
    assert (first_error([0.9, 0.4, 0.1], 0.5), first_error([0.5, 0.6], 0.5)) == (1, -1)


def test_an_empty_step_is_judged_only_in_a_row_of_a_benchmark(request_of, command, trained):
    steps = ["we add", " \u200b\n", "so five"]
    prmbench = {"idx": "p0", "classification": "circular", "modified_question": "How ?", "modified_process": steps}
    processbench = {"problem": "How ?", "steps": steps, "final_answer_correct": True, "label": -1}
    lines = [
        {"id": "own", "question": "How ?", "steps": steps},
        prmbench,
        {"id": "gsm8k-0", **processbench},
        {"id": "math-0", "question": "How ?", "steps": steps, "benchmark": "processbench_math"},
    ]
    request = request_of(lines)
    assert judge_file(request, ignore).rejected == [("own", "step 1 (from 0) is empty")]
    assert [len(row["probabilities"] or ()) for row in rows(request)] == [0, 3, 3, 3]
    assert judge(lines[:1], str(trained.path)).is_empty()
    assert "1 of 4 lines were not judged" in command(input=request.input.read_text()).stderr


def test_files_of_the_benchmarks_are_judged_as_they_are(request_of):
    modified = {
        "idx": "p0",
        "classification": "circular",
        "modified_question": "How ?",
        "modified_process": ["so five"],
    }
    published = {"id": "gsm8k-0", "problem": "How many ?", "steps": ["we add"], "label": 0}
    request = request_of([published, modified, modified | {"modified_process": ["so two"]}])
    assert judge_file(request, ignore).judged == 3
    assert [row["id"] for row in rows(request)] == ["gsm8k-0", "p0:circular", "p0:circular"]
    assert rows(request)[0]["label"] == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "in.jsonl, line 2 is not JSON"),
        ({"id": "b", "question": "x"}, "line 2: `steps`"),
        ({"id": "b", "question": "x", "steps": None}, "line 2: `steps`"),
        ({"question": "x", "solution": " "}, "line 2: `solution`"),
        ({"id": True, "question": "x", "steps": []}, "line 2: `id`"),
        ({**SOLUTIONS[0]}, "line 2: the id `a` is that of .*in.jsonl, line 1"),
        ("[]", "line 2 is not a JSON object"),
        ('{"id": "b", "question": "x", "steps": ["a"], "steps": []}', "line 2: the field `steps`"),
        ('{"id": ' + "9" * 5_000 + "}", "line 2 has a number of too many digits"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_written(request_of, line, message):
    request = request_of([SOLUTIONS[0], line])
    with pytest.raises(SourceError, match=message):
        judge_file(request, ignore)
    assert not request.output.exists()


def test_what_cannot_be_read_or_written_is_refused_by_name(request_of, command, tmp_path):
    with pytest.raises(SourceError, match="has no lines"):
        judge_file(request_of([]), ignore)
    request = request_of(SOLUTIONS)
    before = request.input.read_text()
    for output, message in ((request.input, "would be overwritten"), (tmp_path, "is a folder")):
        with pytest.raises(SourceError, match=message):
            judge_file(replace(request, output=output), ignore)
    assert request.input.read_text() == before
    with pytest.raises(ModelError, match="`cuda:99`"):
        judge_file(replace(request, device="cuda:99"), ignore)
    with pytest.raises(ModelError):
        judge_file(replace(request, prm=str(tmp_path)), ignore)
    # the filter refuses these files too
    damaged, parquet = tmp_path / "damaged.jsonl.gz", tmp_path / "in.parquet"
    damaged.write_bytes(gzip.compress(before.encode())[:-20])
    parquet.write_text(before)
    for path, message in ((damaged, "damaged.jsonl.gz is damaged"), (parquet, "is Parquet")):
        error = command("--input", str(path)).exception
        assert isinstance(error, SourceError) and message in str(error)


def test_the_command_says_which_solutions_were_left_out(request_of, command):
    request = request_of(SOLUTIONS)
    files = ["--input", str(request.input), "--output", str(request.output)]
    result, quiet = command(*files), command(*files, "--quiet")
    assert result.exit_code == 0
    assert "empty was not judged: it has no steps" in result.stderr and "2 solutions judged in" in result.stdout
    assert (quiet.stdout, "long was not judged" in quiet.stderr) == ("", True)


def test_a_filter_judges_what_has_come_and_waits_for_no_other_line(request_of, trained):
    model = load_reward_model(trained.path)
    expected = request_of(SOLUTIONS[:1])
    judge_file(expected, ignore)
    (source, sender), written = os.pipe(), Queue()
    with os.fdopen(source, encoding="utf-8") as stream, os.fdopen(sender, "w", encoding="utf-8") as sending:
        thread = Thread(target=judge_stream, args=(model, stream, written.put, 0.5))
        thread.start()
        print(json.dumps(SOLUTIONS[0]), file=sending, flush=True)
        # the sender has not ended
        assert json.loads(written.get(timeout=60)) == rows(expected)[0]
        print("", "not JSON", json.dumps({"id": "x"}), sep="\n", file=sending, flush=True)
        sending.close()
        thread.join(60)
    first, second = (json.loads(written.get_nowait()) for _ in range(2))
    assert first["id"] is None and "line 3 is not JSON" in first["reason"]
    assert second["id"] == "x" and "line 4: `question`" in second["reason"]
    assert written.empty()


@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.gz", "-"])
def test_a_filter_reads_marks_at_the_start_and_passes_over_what_cannot_be_read(request_of, trained, name, tmp_path):
    solution = json.dumps({**SOLUTIONS[0], "note": "é"}, ensure_ascii=False).encode()
    marked = b"\xef\xbb\xbf" + solution + b"\n"
    text = marked + b'{"id": "\xe9"}\n{"id": ' + b"9" * 5_000 + b"}\n" + marked
    path = tmp_path / name
    if name != "-":
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    arguments = ["judge", "--prm", str(trained.path), "--input", str(path) if name != "-" else "-"]
    command = [sys.executable, "-m", "cpmi_dagster", *arguments]
    latin = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, input=text, capture_output=True, check=True, env=latin)
    judged = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert [row.get("note") for row in judged] == ["é", None, None, "é"]
    assert "line 2 is not UTF-8" in judged[1]["reason"]
    assert "line 3 has a number of too many digits" in judged[2]["reason"]


def test_a_line_that_can_be_read_and_not_written_is_rejected_alone(trained, monkeypatch):
    line_of, written = judge_stream_module.judged_line, list[str]()

    def refuse(row: dict[str, Any]) -> str:
        # as json does a little before its reader, whose stack is shorter
        if "deep" in row:
            raise RecursionError
        return line_of(row)

    monkeypatch.setattr(judge_stream_module, "judged_line", refuse)
    stream = StringIO("\n".join(json.dumps({**SOLUTIONS[0], **more}) for more in ({"deep": [[]]}, {"id": "b"})))
    judge_stream(load_reward_model(trained.path), stream, written.append, 0.5)
    first, second = map(json.loads, written)
    assert (first["id"], first["reason"]) == ("a", "it is nested too deeply")
    assert second["id"] == "b" and "reason" not in second


def test_a_score_that_is_no_number_names_the_id(trained):
    model = load_reward_model(trained.path)
    solutions = [Solution.model_validate(SOLUTIONS[0])]
    for weight in model.model.parameters():
        weight.data.fill_(float("nan"))
    with pytest.raises(ScoringError, match="id a, step_index 0 is not a finite number"):
        judged_rows(model, solutions, 0.5, lambda count: None)


def test_a_filter_that_judged_nothing_fails_and_names_compressed_input(command):
    nothing = command(input="no JSON\n")
    assert nothing.exit_code == 1 and "not JSON" in json.loads(nothing.stdout)["reason"]
    packed = command(input=gzip.compress(json.dumps(SOLUTIONS[0]).encode()))
    assert isinstance(packed.exception, SourceError) and "gunzip -c" in str(packed.exception)
    assert command(input="").exit_code == 0


def test_without_files_the_command_is_a_filter_and_stdout_holds_nothing_but_rows(request_of, command):
    request = request_of(SOLUTIONS)
    judge_file(request, ignore)
    given = command(input=request.input.read_text())
    assert given.exit_code == 0
    for line, row in zip(given.stdout.splitlines(), rows(request), strict=True):
        found = json.loads(line)
        assert found.pop("probabilities") == pytest.approx(row.pop("probabilities"), abs=1e-6)
        assert found == row
    assert "2 solutions judged" in given.stderr
    command("--output", str(request.output), input=json.dumps(SOLUTIONS[1]))
    assert [row["id"] for row in rows(request)] == ["empty"]


def test_chats_and_texts_are_split_and_numbered_where_they_have_no_id(request_of, trained):
    text = "we add two\n\noops so five"
    said = [{"from": "human", "value": "How many two ?"}, {"from": "gpt", "value": text}]
    lines = [{"conversations": said, "answer": 4}, {"question": "How many two ?", "response": text}, SOLUTIONS[0]]
    request = request_of(lines)
    judge_file(request, ignore)
    judged = rows(request)
    assert [row["id"] for row in judged] == [0, 1, "a"]
    assert judged[0]["probabilities"] == judged[1]["probabilities"] == judged[2]["probabilities"]
    assert judged[0].keys() == {"id", "answer", "probabilities", "first_error"}
    assert judge(lines[:1], str(trained.path))["probability"].to_list() == judged[0]["probabilities"]


def test_solutions_in_a_session_are_judged_as_in_a_file(request_of, trained, caplog):
    request = request_of(SOLUTIONS)
    judge_file(request, ignore)
    solutions = [{name: row[name] for name in ("id", "question", "steps")} for row in SOLUTIONS]
    steps = judge(solutions, str(trained.path))
    for row, solution in zip(rows(request), SOLUTIONS, strict=True):
        own = steps.filter(id=str(row["id"]))
        assert own["probability"].to_list() == (row["probabilities"] or [])
        if row["probabilities"]:
            assert own["step"].to_list() == solution["steps"]
            assert (
                own.filter("is_first_error")["step_index"].to_list() == [row["first_error"]][: row["first_error"] + 1]
            )
    assert "empty was not judged: it has no steps" in caplog.text
    published = {"id": "gsm8k-0", "problem": "How many ?", "steps": ["we add"]}
    assert judge(pl.DataFrame([published]), load_reward_model(trained.path)).height == 1
    prmbench = {"idx": 7, "classification": "redundency", "modified_question": "How many ?", "modified_process": ["a"]}
    assert judge([prmbench], str(trained.path))["id"].to_list() == ["7:redundency"]
    with pytest.raises(ScoringError, match=r"row 1 \(from 0\) of the trajectories: `question`: it must be text"):
        judge([solutions[0], {**solutions[0], "question": None}], str(trained.path))
