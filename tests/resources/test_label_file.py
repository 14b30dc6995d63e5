"""`cpmi label`: the rows of a file come back in their order, with their own columns, and labels or a reason."""

import json
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest

from cpmi_dagster import definitions, label
from cpmi_dagster.cli import views
from cpmi_dagster.cli.options import ERR
from cpmi_dagster.errors import SettingsError, UsageError
from cpmi_dagster.profiles.settings import Settings

pytestmark = pytest.mark.slow

ODD = {"meta": {}, "mixed": [1, 2], "reason": "mine", "input_reason": "other", "number": float("nan")}
ROWS = [
    {"uid": 7, "question": "2 + 3?", "response": "I add.\n\n2 + 3 = 5. So 5.", "answer": 5.0, "rewards": "mine", **ODD},
    {"question": "4 + 3?", "response": "So 7.", "mixed": "text", "a": "\ud800"},
    {"question": "6 + 3?", "steps": ["6 + 3 = 9.", "So 9."], "ground_truth": "9", "id": "a"},
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def labeling(folder, rewards, source: str = "rows.jsonl", output: str = "labels.jsonl", **options):
    return definitions.labeling_settings(source, "miniature:labeler", rewards, folder / output, **options)


def settings_of(folder, *lines: str, rewards=("step_length", "final_answer", "cpmi"), **options) -> Settings:
    (folder / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    with labeling(folder, rewards, **options) as settings:
        return settings


def test_every_row_comes_back_in_order_with_its_own_columns_and_labels_or_a_reason_in_each_format_as_in_python(
    folder,
):
    settings_of(folder, json.dumps(ROWS[0]))
    settings = settings_of(folder, *map(json.dumps, ROWS), "{broken")
    assert len([path for path in (folder / ".cpmi").iterdir() if path.suffix == ".yaml"]) == 1, "one home as it grows"
    until = ["dataset/soft_labels"]
    assert not definitions.run_with_progress(settings, settings.shard_keys, [], False, ERR, True, until).failures
    for name in ("labels.jsonl", "labels.parquet"):
        written = definitions.write_labelled(settings, folder / name)
        assert (written.rows, written.labelled, written.some) == (4, 3, 1)
    said, *reasons = views.describe_labelled(written, folder / "labels.parquet")
    assert said.endswith("labels.parquet; 1 of them without some labels, 1 without any; by the column `reason`:")
    assert len(reasons) == 2 and reasons[0].startswith("  1 row: it has no gold answer")
    rows = [json.loads(line) for line in (folder / "labels.jsonl").read_text(encoding="utf-8").splitlines()]
    first, second, third, broken = rows
    kept = {name: first[name] for name in ("uid", "question", "response", "answer", "meta", "mixed")}
    assert kept == {name: ROWS[0][name] for name in kept}
    assert (first["input_rewards"], first["input_reason"], first["input_input_reason"]) == ("mine", "other", "mine")
    assert (first["number"], first["steps"]) == (None, ["I add.", "2 + 3 = 5. So 5."])
    assert first["rewards"]["step_length"] == [-6, -16]
    assert [len(values) for values in first["soft_labels"].values()] == [2, 2, 2]
    assert list(second["rewards"]) == list(second["soft_labels"]) == ["step_length"]
    assert second["reason"].startswith("it has no gold answer, which final_answer, cpmi needs: add one, or ask")
    assert (third["id"], third["rewards"]["final_answer"], third["reason"]) == ("a", [1, 1], None)
    assert (broken["text"], broken["rewards"]) == ("{broken", None)
    assert "not JSON" in broken["reason"]
    for row, same in zip(label(ROWS, "miniature:labeler", settings.rewards.types), rows, strict=False):
        assert (row["steps"], row["reason"]) == (same["steps"], same["reason"])
        for values in ("rewards", "soft_labels"):
            assert list(row[values]) == list(same[values])
            for kind, of_steps in same[values].items():
                assert row[values][kind] == pytest.approx(of_steps, abs=1e-5)
    columns = pl.read_parquet(folder / "labels.parquet")
    for name in ("steps", "reason", "input_rewards", "uid", "id"):
        assert columns[name].to_list() == [row.get(name) for row in rows]
    lengths = [row["rewards"] and row["rewards"]["step_length"] for row in rows]
    assert [rewards and rewards["step_length"] for rewards in columns["rewards"]] == lengths


def test_a_row_gets_its_own_labels_or_a_reason_whatever_has_become_of_the_file_meanwhile(folder):
    lines = [
        json.dumps({"id": f"r{n}", "question": f"{n} + 3?", "steps": [f"{'1' * n} so {n + 3}."], "gold": 4})
        for n in range(1, 4)
    ]
    alike = [
        json.dumps({"question": "2 + 3?", "steps": ["11 so 5."]}),
        json.dumps({**json.loads(lines[0]), "gold": 7, "id": "g"}),
    ]
    settings = settings_of(folder, *lines, *alike, rewards=("step_length",))
    until = ["dataset/soft_labels"]
    assert not definitions.run_with_progress(settings, settings.shard_keys, [], False, ERR, True, until).failures

    def labelled() -> list[dict]:
        definitions.write_labelled(settings, folder / "labels.jsonl")
        return [json.loads(line) for line in (folder / "labels.jsonl").read_text(encoding="utf-8").splitlines()]

    first, second, third, repeated, other_gold = labelled()
    assert repeated["rewards"] == second["rewards"] != third["rewards"] and repeated["reason"] is None
    assert "question and steps as row 1, with the gold answer `7`, there `4`" in other_gold["reason"]
    edited = json.dumps({**json.loads(lines[2]), "steps": ["So 6."]})
    (folder / "rows.jsonl").write_text("\n".join([lines[1], edited, lines[0]]))
    now_second, now_third, now_first = labelled()
    assert (now_second, now_first) == (second, first)
    assert now_third["rewards"] is None and "it has changed, or is new" in now_third["reason"]


def test_another_labeling_of_a_file_waits_until_the_first_has_ended(folder):
    settings_of(folder, json.dumps(ROWS[0]))
    with ThreadPoolExecutor() as threads:
        with labeling(folder, ["step_length"]) as first:
            second = threads.submit(settings_of, folder, json.dumps(ROWS[0]), rewards=["position"])
            with pytest.raises(TimeoutError):
                second.result(timeout=1)
            assert "step_length" in first.file.read_text()
        assert second.result(timeout=60).rewards.types == ("position",)


def test_what_cannot_be_written_or_labelled_is_refused_before_anything_is_read(folder):
    with pytest.raises(UsageError, match=r"written as \.jsonl or \.parquet"):
        settings_of(folder, json.dumps(ROWS[0]), output="labels.csv")
    profile = settings_of(folder, json.dumps(ROWS[0])).file
    before = profile.read_text()
    with pytest.raises(UsageError, match=r"^--rewards cpmi,cpmii: `cpmii` is not a reward type \(did you mean cpmi"):
        settings_of(folder, json.dumps(ROWS[0]), rewards=("cpmi", "cpmii"))
    with pytest.raises(SettingsError, match=r"^/\S+ cannot be read .*; give weights that `cpmi calibrate` wrote"):
        settings_of(folder, json.dumps(ROWS[0]), weights=folder)
    (folder / "link").symlink_to(folder)
    with pytest.raises(UsageError, match="is in the folder of the input, and would be read with it"):
        settings_of(folder, json.dumps(ROWS[0]), source="link")
    assert [profile] == [path for path in profile.parent.iterdir() if path.is_file()] and profile.read_text() == before


def test_labels_of_the_source_that_no_row_has_are_refused_before_a_model_is_asked(folder):
    with pytest.raises(UsageError, match=r"^--rewards math_shepherd: no row has labels, which it reads; leave it out"):
        settings_of(folder, json.dumps(ROWS[0]), rewards=("cpmi", "math_shepherd"))
    labelled = {"question": "1 + 1?", "steps": ["1 + 1 = 2."], "gold_answer": "2", "labels": [True]}
    rows = "\n".join(map(json.dumps, [ROWS[0], labelled]))
    assert settings_of(folder, rows, rewards=("math_shepherd",)).rewards.types == ("math_shepherd",)
