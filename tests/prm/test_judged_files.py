"""`cpmi judge`: every line of the input is in the output, judged or with its reason."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest
from typer.testing import CliRunner

from cpmi_dagster.cli.commands import app
from cpmi_dagster.errors import CpmiError, ModelError, ScoringError, SourceError
from cpmi_dagster.prm import judge_stream as judge_stream_module
from cpmi_dagster.prm import load_reward_model, score_steps
from cpmi_dagster.prm.judge_stream import judge_stream
from cpmi_dagster.prm.judging import JudgeRequest, Solution, first_error, judge_file, judged_rows
from cpmi_dagster.prm.training import TrainedModel

pytestmark = pytest.mark.slow

SOLUTIONS: list[dict[str, Any]] = [
    {"id": "a", "question": "How many two ?", "steps": ["we add two", "oops so five"], "benchmark": "prmbench"},
    {"id": "empty", "question": "How many ?", "steps": []},
    {"id": 7, "question": "How many five ?", "steps": ["hence five"], "idx": "p", "first_error": 3, "note": {"é": [1]}},
    {"id": "long", "question": "How many ?", "steps": ["two and three"] * 60},
]


@pytest.fixture
def request_of(trained: TrainedModel, tmp_path: Path):
    def build(lines: Sequence[dict[str, Any] | str], **options: Any) -> JudgeRequest:
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (tmp_path / "in.jsonl").write_text("\n".join(texts), encoding="utf-8")
        return JudgeRequest(str(trained.path), tmp_path / "in.jsonl", tmp_path / "judged.jsonl", **options)

    return build


def rows(request: JudgeRequest) -> list[dict[str, Any]]:
    return [json.loads(line) for line in request.output.read_text(encoding="utf-8").splitlines()]


def test_every_line_comes_out_in_order_with_its_own_fields(request_of):
    request, reported = request_of(SOLUTIONS), []
    done = judge_file(request, lambda count, total: reported.append((count, total)))
    judged = rows(request)
    assert [row["id"] for row in judged] == ["a", "empty", 7, "long"]
    assert [len(row["probabilities"] or []) for row in judged] == [2, 0, 1, 0]
    assert judged[0]["benchmark"] == "prmbench"
    assert (judged[2]["idx"], judged[2]["note"]) == ("p", {"é": [1]})
    assert not {"question", "steps"} & set(judged[0])
    assert (sum(count for count, _ in reported), {total for _, total in reported}) == (4, {4})
    assert done.judged == 2


def test_what_cannot_be_judged_keeps_its_place_with_a_reason(request_of):
    request = request_of(SOLUTIONS)
    done = judge_file(request, lambda count, total: None)
    empty, long = rows(request)[1], rows(request)[3]
    assert empty == {"id": "empty", "probabilities": None, "first_error": None, "reason": "it has no steps"}
    assert long["probabilities"] is None
    assert long["reason"].endswith("tokens; the model reads at most 128")
    assert done.rejected == [("empty", "it has no steps"), ("long", long["reason"])]


def test_probabilities_are_the_models_and_the_first_error_is_the_first_below_the_threshold(request_of, trained):
    import polars as pl

    solution = SOLUTIONS[0]
    frame = pl.DataFrame([{"question": solution["question"], "steps": solution["steps"]}])
    expected = score_steps(load_reward_model(trained.path), frame, 512)["probability"].to_list()
    for threshold in (0.0, sum(expected) / 2, 1.0):
        request = request_of([solution], threshold=threshold)
        judge_file(request, lambda count, total: None)
        (row,) = rows(request)
        assert row["probabilities"] == pytest.approx(expected, abs=1e-6)
        assert row["first_error"] == first_error(expected, threshold)


def test_the_first_error_by_hand():
    assert first_error([0.9, 0.4, 0.1], 0.5) == 1
    assert first_error([0.5, 0.6], 0.5) == -1


def test_a_file_without_lines_is_refused(request_of):
    with pytest.raises(SourceError, match="has no lines"):
        judge_file(request_of([]), lambda count, total: None)


def test_the_input_is_never_overwritten(request_of):
    request = request_of([{"id": "a", "question": "How many ?", "steps": ["we add"]}])
    before = request.input.read_text()
    with pytest.raises(SourceError, match="would be overwritten"):
        judge_file(replace(request, output=request.input), lambda count, total: None)
    assert request.input.read_text() == before


def test_files_of_the_benchmarks_are_judged_as_they_are(request_of):
    request = request_of(
        [
            {"id": "gsm8k-0", "problem": "How many ?", "steps": ["we add"], "label": 0},
            {"idx": "p0", "classification": "circular", "modified_question": "How ?", "modified_process": ["so five"]},
            {"idx": "p0", "classification": "circular", "modified_question": "Why ?", "modified_process": ["so two"]},
        ]
    )
    assert judge_file(request, lambda count, total: None).judged == 3
    rows = [json.loads(line) for line in request.output.read_text().splitlines()]
    assert [row["id"] for row in rows] == ["gsm8k-0", "p0:circular", "p0:circular"]
    assert rows[0]["label"] == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "in.jsonl, line 2 is not JSON"),
        ({"id": "b", "question": "x"}, "line 2: `steps`: it is missing"),
        ({"id": "b", "question": "x", "steps": None}, "line 2: `steps`: it must be a list"),
        ({"question": "x", "steps": []}, "line 2: `id`: it is missing"),
        ({"id": True, "question": "x", "steps": []}, "line 2: `id`: it must be text or a whole number"),
        ({**SOLUTIONS[0]}, "line 2: the id `a` is that of .*in.jsonl, line 1 too; give each line its own"),
        ("[]", "line 2 is not a JSON object"),
        ('{"id": "b", "question": "x", "steps": ["a"], "steps": []}', "line 2: the field `steps` occurs twice"),
        ('{"id": ' + "9" * 5_000 + "}", "line 2 has a number of too many digits"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_written(request_of, line, message):
    request = request_of([SOLUTIONS[0], line])
    with pytest.raises(SourceError, match=message):
        judge_file(request, lambda count, total: None)
    assert not request.output.exists()


def test_a_device_that_is_not_there_a_folder_without_a_model_and_an_output_that_is_a_folder_are_refused(request_of):
    request = request_of(SOLUTIONS, device="cuda:99")
    with pytest.raises(ModelError, match="cannot go to device `cuda:99`; this machine has cpu"):
        judge_file(request, lambda count, total: None)
    folder = str(request.input.parent)
    arguments = ["judge", "--prm", folder, "--input", str(request.input), "--output", str(request.output)]
    assert isinstance(CliRunner().invoke(app, arguments).exception, CpmiError)
    with pytest.raises(SourceError, match="is a folder; give a file name"):
        judge_file(JudgeRequest(request.prm, request.input, request.input.parent), lambda count, total: None)


def test_the_command_says_which_solutions_were_left_out(request_of):
    request = request_of(SOLUTIONS)
    arguments = ["--prm", request.prm, "--input", str(request.input), "--output", str(request.output)]
    result = CliRunner().invoke(app, ["judge", *arguments])
    assert result.exit_code == 0
    assert "empty was not judged: it has no steps" in result.stderr
    assert "2 solutions judged in" in result.stdout
    quiet = CliRunner().invoke(app, ["judge", *arguments, "--quiet"])
    assert (quiet.stdout, "long was not judged" in quiet.stderr) == ("", True)


def test_a_filter_judges_what_has_come_and_waits_for_no_other_line(request_of, trained):
    model = load_reward_model(trained.path)
    expected = request_of([SOLUTIONS[0]])
    judge_file(expected, lambda count, total: None)
    (source, sender), written = os.pipe(), Queue()
    with os.fdopen(source, encoding="utf-8") as stream, os.fdopen(sender, "w", encoding="utf-8") as sending:
        thread = Thread(target=judge_stream, args=(model, stream, written.put, 0.5))
        thread.start()
        for line in (json.dumps(SOLUTIONS[0]), "", "not JSON", json.dumps({"id": "x"})):
            sending.write(line + "\n")
            sending.flush()
            if line == json.dumps(SOLUTIONS[0]):
                # the sender has not ended
                assert json.loads(written.get(timeout=60)) == rows(expected)[0]
        sending.close()
        thread.join(60)
    first, second = (json.loads(written.get_nowait()) for _ in range(2))
    assert first["id"] is None and "line 3 is not JSON" in first["reason"]
    assert second["id"] == "x" and "line 4: `question`: it is missing" in second["reason"]
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


def test_parquet_is_refused_also_by_the_filter(request_of, trained):
    request = request_of(SOLUTIONS)
    parquet = request.input.rename(request.input.with_name("in.parquet"))
    result = CliRunner().invoke(app, ["judge", "--prm", str(trained.path), "--input", str(parquet)])
    assert isinstance(result.exception, SourceError) and "is Parquet; give JSON Lines" in str(result.exception)


def test_a_score_that_is_no_number_names_the_id(trained):
    model = load_reward_model(trained.path)
    solutions = [Solution.model_validate(SOLUTIONS[0])]
    for weight in model.model.parameters():
        weight.data.fill_(float("nan"))
    with pytest.raises(ScoringError, match="id a, step_index 0 is not a finite number"):
        judged_rows(model, solutions, 0.5, lambda count: None)


def test_a_damaged_file_is_named_also_by_the_filter(request_of, trained):
    request = request_of(SOLUTIONS)
    damaged = request.input.with_name("damaged.jsonl.gz")
    damaged.write_bytes(gzip.compress(request.input.read_bytes())[:-20])
    result = CliRunner().invoke(app, ["judge", "--prm", str(trained.path), "--input", str(damaged)])
    assert isinstance(result.exception, SourceError)
    assert "damaged.jsonl.gz is damaged" in str(result.exception) and "fetch it again" in str(result.exception)


def test_a_filter_that_judged_nothing_fails_and_names_compressed_input(trained):
    command = ["judge", "--prm", str(trained.path)]
    nothing = CliRunner().invoke(app, command, input="no JSON\n")
    assert nothing.exit_code == 1 and "not JSON" in json.loads(nothing.stdout)["reason"]
    packed = CliRunner().invoke(app, command, input=gzip.compress(json.dumps(SOLUTIONS[0]).encode()))
    assert isinstance(packed.exception, SourceError) and "gunzip -c" in str(packed.exception)
    assert CliRunner().invoke(app, command, input="").exit_code == 0


def test_without_files_the_command_is_a_filter_and_stdout_holds_nothing_but_rows(request_of, trained):
    request = request_of(SOLUTIONS)
    judge_file(request, lambda count, total: None)
    given = CliRunner().invoke(app, ["judge", "--prm", str(trained.path)], input=request.input.read_text())
    assert given.exit_code == 0
    assert [json.loads(line)["id"] for line in given.stdout.splitlines()] == ["a", "empty", 7, "long"]
    for line, row in zip(given.stdout.splitlines(), rows(request), strict=True):
        assert json.loads(line)["probabilities"] == pytest.approx(row["probabilities"], abs=1e-6)
    assert "2 solutions judged" in given.stderr
    piped = ["judge", "--prm", str(trained.path), "--output", str(request.output)]
    CliRunner().invoke(app, piped, input=json.dumps(SOLUTIONS[1]))
    assert [row["id"] for row in rows(request)] == ["empty"]
