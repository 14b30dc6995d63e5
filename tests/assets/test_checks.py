"""Checks of the data: what they find, what they stop, and that a shard stops no other."""

import json
from contextlib import nullcontext

import dagster as dg
import polars as pl
import pytest
from small_run import run_all

from cpmi_dagster.assets.alignment import account_for
from cpmi_dagster.contracts.keys import (
    FIGURES,
    LOGPROBS,
    NEGATIVES,
    REJECTED_ROWS,
    REJECTED_TRAJECTORIES,
    SELECTED,
    SOFT_LABELS,
    TRAJECTORIES,
)
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import LakeError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag import checks
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parquet import Record

pytestmark = pytest.mark.usefixtures("published_at_the_end")
QUESTION = r"Find the sum $\dfrac{1}{2} + x$ if $x=3$."
TRAJECTORY = {
    "question_id": "q", "row_number": 0, "task": "MATH", "question": QUESTION, "steps": ["7/2"], "gold_answer": "7/2",
    "match_source": "given/train/0", "match_kind": "given", "shard": "000", "composition": "mixed",
}  # fmt: skip


def write(lake: Lake, key: str, partition: str | None, *rows: dict) -> None:
    schema = TABLES[key].schema.create_empty().schema
    rows = tuple({name: value for name, value in row.items() if name in schema} for row in rows)
    lake.write(pl.DataFrame(rows, schema=schema, strict=False), Record(key, partition, "key", "r"))


@pytest.mark.parametrize(
    ("aucs", "passed"),
    [
        ({"MC": (0.46, 0.37, 0.55), "CPMI": (0.60, 0.55, 0.65)}, True),  # one above chance is enough
        ({"MC": (0.46, 0.37, 0.55), "CPMI": (0.55, 0.46, 0.63)}, False),  # all intervals hold chance
        ({"MC": (0.40, 0.35, 0.45), "CPMI": (0.60, 0.55, 0.65)}, False),  # one is worse than chance,
        ({"Rand_Merge": (0.40, 0.35, 0.45), "CPMI": (0.60, 0.55, 0.65)}, True),  # unless its labels are random
        ({"CPMI": (0.5, 0.4, 0.6), "Judge": (0.9, 0.8, 0.95)}, False),  # somebody else's judge counts for nothing
    ],
)
def test_the_best_reward_model_is_above_chance_and_none_with_real_labels_below(tmp_path, aucs, passed):
    lake, settings = Lake(tmp_path), load_settings("miniature", tmp_path)
    rows = [
        {"artifact": "distribution", "row": row, "column": "ROC-AUC", "measured": a, "low": low, "high": high,
         "profile": "miniature"}
        for row, (a, low, high) in aucs.items()
    ]  # fmt: skip
    write(lake, FIGURES, "models", *rows)
    assert checks.reward_models_beat_chance(lake, settings).passed == passed


def test_questions_of_a_benchmark_however_they_are_set_stop_every_run_before_a_model_is_asked(tmp_path):
    row = {"question": QUESTION, "steps": ["1/2 + 3 = 7/2", "The answer is: 7/2"], "gold_answer": "7/2"}
    same = r"Find the sum \(\frac{1}{2}+x\) if \(x = 3\)"  # set differently
    problem = {"problem": same, "answer": "7/2", "unique_id": "p", "solution": "7/2", "level": 1, "subject": "A"}
    for name, content in (("rows", row), ("problems", problem)):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(content) + "\n")
    named = {"trajectories": {"path": "./rows.jsonl"}, "benchmarks": {"math500": {"path": "./problems.jsonl"}}}
    profile = {"extends": "files", "shards": 1, "sources": {"references": [], **named}}
    (tmp_path / "mine.yaml").write_text(json.dumps(profile))
    settings = load_settings(tmp_path / "mine.yaml", tmp_path / "home")
    for _ in range(2):
        (failure,) = run_all(settings).failures
        assert "no_benchmark_question_is_trained_on: reward models would be trained on 1 of the problems of" in failure
        assert not Lake.of(settings).has_table(NEGATIVES)


def test_checks_of_labels_look_at_the_shards_that_are_whole_and_at_each_alone(tmp_path):
    lake, settings = Lake(tmp_path), load_settings("miniature", tmp_path)
    logprob = {
        "template": 0, "context": "question", "step_index": 0, "answer_rank": 0, "logprob_sum": -1.0, "token_count": 1
    }  # fmt: skip
    for shard, answer, scored in (("000", "7/2", "ab"), ("001", "7/3", "a"), ("002", "7/3", "")):
        selected = [{**TRAJECTORY, "trajectory_id": name} for name in "ab"]
        for key in (TRAJECTORIES, SELECTED):
            write(lake, key, shard, *selected)
        write(lake, NEGATIVES, shard, {"trajectory_id": "a", "rank": 1, "answer": answer, "source": "model"})
        write(lake, LOGPROBS, shard, *({"trajectory_id": name, **logprob} for name in scored))
        write(lake, REJECTED_TRAJECTORIES, shard)
    damaged = lake.path(LOGPROBS, "002")
    damaged.write_bytes(damaged.read_bytes()[:99])

    def passed(check) -> list[bool]:
        return [check(lake, settings, shards).passed for shards in (["000"], ["001"], ["002"], settings.shard_keys)]

    assert passed(checks.negatives_differ_from_gold) == [False, True, True, False]
    assert passed(checks.every_trajectory_scored) == [True, False, True, False]
    result = checks.every_trajectory_scored(lake, settings, settings.shard_keys)
    assert result.metadata["missing"].value == 1 and result.severity == dg.AssetCheckSeverity.ERROR


def test_every_row_is_a_trajectory_or_rejected_and_one_of_these_alone():
    source, kept = (pl.DataFrame({"row_number": rows}) for rows in ([1, 0], [0]))
    for rejected, is_wrong in (([], True), ([1], False), ([1, 0], True)):
        with pytest.raises(LakeError, match="2 rows were read, and 1 traj") if is_wrong else nullcontext():
            account_for(source, kept, pl.DataFrame({"row_number": rejected}, {"row_number": pl.Int64}))


def test_few_matches_and_constant_labels_do_not_pass(tmp_path):
    lake, settings = Lake(tmp_path), load_settings("miniature", tmp_path)
    write(lake, TRAJECTORIES, "000", {**TRAJECTORY, "trajectory_id": "t"})
    write(lake, REJECTED_ROWS, "000", {"row_number": 1, "stage": "read", "reason": "no text", "excerpt": "{}"})
    assert not checks.match_rate(lake, settings).passed
    for labels, passed in ((0.5, 0.5), False), ((0.2, 0.8), True):
        steps = [{"step_index": step, "soft_label": label} for step, label in enumerate(labels)]
        write(lake, SOFT_LABELS, None, *({"trajectory_id": "t", "reward_type": "cpmi", **step} for step in steps))
        assert checks.soft_labels_vary(lake, settings).passed == passed
