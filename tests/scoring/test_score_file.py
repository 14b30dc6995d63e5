"""`cpmi score`: a run that was killed continues after its last finished part."""

import json
import subprocess
import sys

import pytest

from cpmi_dagster.errors import CpmiError, SourceError
from cpmi_dagster.scoring import files

ROW = {"question": "1 + 1?", "steps": ["1 + 1 = 2"], "gold_answer": "2", "negative_answers": ["3", "12"]}

HOLD = """
import sys
from pathlib import Path
from cpmi_dagster.files.locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def score(tmp_path, monkeypatch):
    """Scores three trajectories in parts of one; returns the scores and what `advance` was called with."""
    monkeypatch.setattr(files, "PART_TRAJECTORIES", 1)
    (tmp_path / "in.jsonl").write_text("\n".join(json.dumps({**ROW, "id": name}) for name in "abc"))

    def run(**options):
        advances = []
        options = {"dtype": "float32", "device": "cpu", "templates": 1, **options}
        done = files.score_file(
            "miniature:labeler", tmp_path / "in.jsonl", tmp_path / "out.parquet", None,
            lambda count, total: advances.append((count, total)), **options,
        )  # fmt: skip
        return done.scores, advances

    return run


@pytest.fixture
def killed_at_the_third(score, tmp_path, monkeypatch):
    """A scoring that ends with two parts made; what is scored afterwards is in the list."""
    scored, score_part = [], files.score_in_full

    def dies(frame, model, **options):
        scored.extend(frame["id"])
        if len(scored) == 3:
            raise KeyboardInterrupt
        return score_part(frame, model, **options)

    monkeypatch.setattr(files, "score_in_full", dies)
    with pytest.raises(KeyboardInterrupt):
        score()
    assert not (tmp_path / "out.parquet").exists()
    scored.append("killed")
    return scored


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_killed_scoring_continues_and_ends_as_one_that_was_not(score, killed_at_the_third, tmp_path):
    scores, advances = score()
    assert killed_at_the_third[-1] == "c"
    assert killed_at_the_third.count("a") == 1
    assert sum(count for count, _ in advances) == 3
    assert names(tmp_path) == ["in.jsonl", "out.parquet"]
    (tmp_path / "out.parquet").unlink()
    assert score()[0].equals(scores)


def test_finished_parts_are_not_taken_for_other_options_and_go_with_them(score, killed_at_the_third, tmp_path):
    scores, _ = score(templates=2)
    assert killed_at_the_third.count("a") == 2
    assert names(tmp_path) == ["in.jsonl", "out.parquet"]
    assert scores["template"].n_unique() == 2


def test_finished_parts_are_not_taken_for_another_tokenizer(score, killed_at_the_third, monkeypatch):
    monkeypatch.setattr(files, "reading_identity", lambda _: "another")
    score()
    assert killed_at_the_third.count("a") == 2


def test_a_damaged_part_is_made_again(score, killed_at_the_third, tmp_path):
    for part in tmp_path.rglob("000000-scores.parquet"):
        part.write_bytes(b"PAR1")
    assert score()[0]["id"].unique().sort().to_list() == ["a", "b", "c"]
    assert killed_at_the_third.count("a") == 2
    assert killed_at_the_third.count("b") == 1


def test_a_second_scoring_into_the_same_file_is_refused_and_removes_no_parts(score, killed_at_the_third, tmp_path):
    parts = names(tmp_path)
    command = [sys.executable, "-c", HOLD, str(tmp_path / ".out.parquet.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout and other.stdout.readline() == "held\n"
        with pytest.raises(SourceError, match=r"another process scores into .*out\.parquet; wait until"):
            score()
        assert set(parts) <= set(names(tmp_path))
        other.communicate()
    score()
    assert names(tmp_path) == ["in.jsonl", "out.parquet"]


def test_ids_are_distinct_over_the_whole_file(score, tmp_path):
    (tmp_path / "in.jsonl").write_text("\n".join(json.dumps({**ROW, "id": "a"}) for _ in range(3)))
    with pytest.raises(CpmiError, match="id `a` is in rows 0, 1, 2"):
        score()
