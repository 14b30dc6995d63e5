"""`cpmi label`: the rows of a file come back in their order, with their own columns, and labels or a reason."""

import json

import polars as pl
import pytest

from cpmi_dagster import definitions
from cpmi_dagster.cli.options import ERR
from cpmi_dagster.errors import SettingsError, UsageError

pytestmark = pytest.mark.slow

ROWS = [
    {"uid": 7, "question": "2 + 3?", "response": "I add.\n\n2 + 3 = 5. So 5.", "answer": 5.0, "rewards": "mine"},
    {"question": "4 + 3?", "response": "So 7."},
    {"question": "6 + 3?", "steps": ["6 + 3 = 9.", "So 9."], "ground_truth": "9", "id": "a"},
]


@pytest.fixture
def label(tmp_path, monkeypatch):
    """Labels the file `rows.jsonl` of a folder of its own; gives the counts, and the rows of the output."""
    monkeypatch.chdir(tmp_path)

    def run(*lines: str, output: str = "labels.jsonl", rewards=("step_length", "final_answer")):
        (tmp_path / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
        written = tmp_path / output
        settings = definitions.labeling_settings("rows.jsonl", "miniature:labeler", rewards, written)
        until = ["dataset/soft_labels"]
        outcome = definitions.run_with_progress(settings, settings.shard_keys, [], False, ERR, True, until)
        assert not outcome.failures
        counts = definitions.write_labelled(settings, written)
        if written.suffix == ".parquet":
            return counts, pl.read_parquet(written).to_dicts()
        return counts, [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()]

    return run


def test_every_row_comes_back_in_order_with_its_own_columns_and_labels_or_a_reason(label):
    counts, (first, second, third, broken) = label(*map(json.dumps, ROWS), "{broken")
    assert counts == (3, 4)
    own = {name: value for name, value in ROWS[0].items() if name != "rewards"}
    assert own.items() <= first.items() and first["input_rewards"] == "mine"
    assert first["steps"] == ["I add.", "2 + 3 = 5. So 5."]
    assert first["rewards"]["step_length"] == [-6, -16]
    assert [len(values) for values in first["soft_labels"].values()] == [2, 2]
    assert list(second["rewards"]) == list(second["soft_labels"]) == ["step_length"]
    assert "no gold answer" in second["reason"]
    assert (third["id"], third["rewards"]["final_answer"], third["reason"]) == ("a", [1, 1], None)
    assert (broken["text"], broken["rewards"]) == ("{broken", None)
    assert "not JSON" in broken["reason"]


def test_a_file_that_grew_keeps_its_home_and_both_formats_hold_the_same(label, tmp_path):
    label(json.dumps(ROWS[0]))
    counts, rows = label(*map(json.dumps, ROWS), output="labels.parquet")
    assert counts == (3, 3)
    assert [row["steps"] for row in rows] == [["I add.", "2 + 3 = 5. So 5."], ["So 7."], ["6 + 3 = 9.", "So 9."]]
    assert len([path for path in (tmp_path / ".cpmi").iterdir() if path.is_dir()]) == 1


def test_columns_of_any_kind_come_back_in_both_formats_and_none_is_lost(label):
    odd = {"meta": {}, "mixed": [1, 2], "reason": "mine", "input_reason": "other", "number": float("nan")}
    for output in ("labels.jsonl", "labels.parquet"):
        _, (first, _) = label(
            json.dumps({**ROWS[0], **odd}), json.dumps({**ROWS[2], "mixed": "text", "a": "\ud800"}), output=output
        )
        assert (first["input_reason"], first["input_input_reason"], first["number"]) == ("other", "mine", None)


def test_what_cannot_be_written_or_labelled_is_refused_before_anything_is_read(label):
    with pytest.raises(UsageError, match=r"written as \.jsonl or \.parquet"):
        label(json.dumps(ROWS[0]), output="labels.csv")
    with pytest.raises(SettingsError, match="cpmii"):
        label(json.dumps(ROWS[0]), rewards=("cpmii",))
