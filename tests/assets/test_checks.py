"""Reward models beat chance, and are not trained on what they are judged by."""

import json
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import polars as pl
from small_run import run_all

from cpmi_dagster.contracts.keys import NEGATIVES, SELECTED, TRAJECTORIES
from cpmi_dagster.contracts.tables import TABLES, columns_of
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA
from cpmi_dagster.resources.dag import checks
from cpmi_dagster.resources.dag.checks import (
    CHECKS,
    TableCheck,
    every_trajectory_scored,
    match_rate,
    negatives_differ_from_gold,
    no_benchmark_question_is_trained_on,
    reward_models_beat_chance,
)
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.records import Record


def check(**aucs: tuple[float, float, float]) -> dg.AssetCheckResult:
    rows = [{"row": row, "column": "ROC-AUC", "measured": a, "low": b, "high": c} for row, (a, b, c) in aucs.items()]
    lake = SimpleNamespace(read=lambda *_: pl.DataFrame(rows, schema=COMPARISON_SCHEMA))
    settings = SimpleNamespace(recipes=())
    result = reward_models_beat_chance(lake, settings)
    assert isinstance(result, dg.AssetCheckResult)
    return result


def test_models_whose_best_interval_holds_chance_do_not_pass():
    result = check(MC=(0.46, 0.37, 0.55), CPMI=(0.55, 0.46, 0.63))
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert result.metadata["CPMI"].value == "step AUC 0.550 [0.460, 0.630]: chance"


def test_one_model_above_chance_is_enough():
    assert check(MC=(0.46, 0.37, 0.55), CPMI=(0.60, 0.55, 0.65)).passed


def test_a_model_below_chance_fails_unless_its_labels_are_random():
    assert not check(MC=(0.40, 0.35, 0.45), CPMI=(0.60, 0.55, 0.65)).passed
    assert check(Rand_Merge=(0.40, 0.35, 0.45), CPMI=(0.60, 0.55, 0.65)).passed


def test_where_nothing_is_measured_there_is_nothing_to_warn_of():
    assert check().passed


def test_a_judge_that_is_not_ours_counts_for_nothing():
    result = check(CPMI=(0.5, 0.4, 0.6), Judge=(0.9, 0.8, 0.95))
    assert not result.passed
    assert set(result.metadata) == {"CPMI"}


ASKED = r"Find the sum $\dfrac{1}{2} + x$ if $x=3$."


def check_questions(home: Path, benchmark: str, question: str, asked: str = ASKED) -> dg.AssetCheckResult:
    """A home with one selected trajectory that asks `asked`, and one problem of a benchmark."""
    settings = load_settings("miniature", home)
    rows = {
        "alignment/trajectories": {
            "trajectory_id": "t000000000", "question_id": "q0", "row_number": 0, "task": "MATH", "question": asked,
            "steps": ["7/2"], "gold_answer": "7/2", "match_source": "given/train/0", "match_kind": "given",
        },
        "selection/selected_trajectories": {"trajectory_id": "t000000000"},
        "sources/benchmark_problems": {"benchmark": benchmark, "problem_id": "p0", "question": question},
    }  # fmt: skip
    lake = SimpleNamespace(
        read=lambda key, *_: pl.DataFrame([rows[key]], schema_overrides=columns_of(TABLES[key]), strict=False),
        exists=lambda key: key in rows,
        is_whole=lambda key, shard: shard == "000",
    )
    result = no_benchmark_question_is_trained_on(lake, settings)
    assert isinstance(result, dg.AssetCheckResult)
    return result


def test_a_question_of_a_benchmark_is_not_trained_on_however_it_is_set(tmp_path: Path):
    result = check_questions(tmp_path, "math500", r"Find the sum \(\frac{1}{2}+x\) if \(x = 3\)")
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert result.description == (
        "reward models would be trained on 1 of the problems of math500 (asked by 1 of 1 selected trajectories), for "
        r"example on `Find the sum \(\frac{1}{2}+x\) if \(x = 3\)`; remove the rows of these questions from the source "
        "at sources.trajectories, or math500 from sources.benchmarks"
    )


def test_a_benchmark_known_to_take_questions_from_training_splits_gives_a_warning(tmp_path: Path):
    result = check_questions(tmp_path, "prmbench", ASKED)
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert result.metadata["prmbench"].value == 1


def test_the_example_of_a_check_stays_within_its_quotes(tmp_path: Path):
    result = check_questions(tmp_path, "math500", f"`![x](//evil.example)`{ASKED}`", f"`![x](//evil.example)`{ASKED}`")
    assert result.description is not None
    assert "for example on `'![x](//evil.example)'" in result.description
    assert result.description.count("`") == 2


def test_another_number_makes_another_question(tmp_path: Path):
    assert check_questions(tmp_path, "math500", ASKED.replace("3", "4")).passed


def test_a_check_on_questions_stops_the_run_before_models_are_trained(tmp_path: Path):
    (check,) = (check for check in CHECKS if check.body is no_benchmark_question_is_trained_on)
    (spec,) = check.bind(Lake(tmp_path), load_settings("miniature", tmp_path)).check_specs
    assert (spec.name, spec.blocking) == ("no_benchmark_question_is_trained_on", True)


def test_a_shard_that_is_half_made_or_damaged_stops_no_other(tmp_path: Path):
    lake, settings = Lake(tmp_path), load_settings("miniature", tmp_path)
    for key in ("labels/answer_logprobs", "alignment/trajectories", "alignment/rejected_rows"):
        lake.write(TABLES[key].schema.create_empty(), Record(key, "000", "key", "r"))
    trajectories = lake.path("alignment/trajectories", "000")
    trajectories.write_bytes(trajectories.read_bytes()[:99])
    assert every_trajectory_scored(lake, settings, settings.shard_keys).passed
    assert match_rate(lake, settings).metadata["match_rate"].value == 0


def test_a_check_of_one_shard_reads_no_other(tmp_path: Path):
    lake, settings = Lake(tmp_path), load_settings("miniature", tmp_path)
    for shard, answer in (("000", "7/2"), ("001", "7/3")):
        trajectory = {
            "trajectory_id": shard, "question_id": "q", "row_number": 0, "task": "MATH", "question": ASKED,
            "steps": ["7/2"], "gold_answer": "7/2", "match_source": "given/train/0", "match_kind": "given",
        }  # fmt: skip
        rows = {
            "alignment/trajectories": trajectory,
            "labels/hard_negatives": {"trajectory_id": shard, "rank": 1, "answer": answer, "source": "model"},
        }
        for key, row in rows.items():
            frame = pl.DataFrame([row], schema=TABLES[key].schema.create_empty().schema, strict=False)
            lake.write(frame, Record(key, shard, "key", "r"))
    found = {shard: negatives_differ_from_gold(lake, settings, [shard]).passed for shard in ("000", "001")}
    assert found == {"000": False, "001": True}
    assert not negatives_differ_from_gold(lake, settings, settings.shard_keys).passed


class ShardByShard(Lake):
    """A lake of which no more than one partition is held at a time."""

    def read(self, key, partitions=None, columns=None):
        assert TABLES[key].partitioning is None or isinstance(partitions, str)
        return super().read(key, partitions, columns)


def test_scores_of_all_shards_are_counted_shard_by_shard(tmp_path: Path):
    lake, settings = ShardByShard(tmp_path), load_settings("miniature", tmp_path)
    logprob = {
        "template": 0,
        "context": "question",
        "step_index": 0,
        "answer_rank": 0,
        "logprob_sum": -1.0,
        "token_count": 1,
    }
    scored = {"000": ["a"], "001": ["c"]}
    rows = {}
    for shard, selected in {"000": "ab", "001": "cd"}.items():
        rows["selection/selected_trajectories", shard] = [
            {"trajectory_id": name, "question_id": "q", "shard": shard, "task": "MATH", "composition": "mixed"}
            for name in selected
        ]
        rows["labels/answer_logprobs", shard] = [{"trajectory_id": name, **logprob} for name in scored[shard]]
        rows["labels/rejected_trajectories", shard] = []
    for (key, shard), own in rows.items():
        frame = pl.DataFrame(own, schema=TABLES[key].schema.create_empty().schema, strict=False)
        lake.write(frame, Record(key, shard, "key", "r"))
    found = every_trajectory_scored(lake, settings, settings.shard_keys)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert {name: value.value for name, value in found.metadata.items()} == {
        "missing": 2,
        "not_finite": 0,
        "rejected": 0,
    }


def test_a_blocking_check_of_a_shard_stops_what_follows_and_no_other_shard_and_is_asked_until_it_passes(
    tmp_path: Path, monkeypatch
):
    asked, broken = [], {"001"}

    def every_row_accounted_for(lake, settings, shards):
        asked.extend(shards)
        return dg.AssetCheckResult(passed=not broken & set(shards), description="rows are lost")

    monkeypatch.setattr(
        checks, "CHECKS", (TableCheck(TRAJECTORIES, every_row_accounted_for, blocking=True, by_shard=True),)
    )
    settings, only = load_settings("miniature", tmp_path), ("sources", "alignment", "selection")
    lake = Lake.of(settings)
    said = ["alignment/trajectories: every_row_accounted_for: rows are lost"]
    for _ in range(2):
        assert run_all(settings, only=only).failures == said
        assert lake.partitions(TRAJECTORIES) == settings.shard_keys and not lake.exists(SELECTED)
    assert asked == [*settings.shard_keys, "001"]
    broken.clear()
    assert not run_all(settings, only=only).failures
    assert lake.exists(SELECTED) and asked.count("001") == 3


def test_questions_of_a_benchmark_stop_every_run_before_a_model_is_asked(tmp_path: Path):
    row = {"question": ASKED, "steps": ["1/2 + 3 = 7/2", "The answer is: 7/2"], "gold_answer": "7/2"}
    problem = {"problem": ASKED, "answer": "7/2", "unique_id": "p", "solution": "7/2", "level": 1, "subject": "Algebra"}
    for name, content in (("rows", row), ("problems", problem)):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(content) + "\n")
    found = {"trajectories": {"path": "./rows.jsonl"}, "benchmarks": {"math500": {"path": "./problems.jsonl"}}}
    profile = {"extends": "files", "shards": 1, "sources": {"references": [], **found}}
    (tmp_path / "own.yaml").write_text(json.dumps(profile))
    settings = load_settings(tmp_path / "own.yaml", tmp_path / "home")
    for _ in range(2):
        (failure,) = run_all(settings).failures
        assert "no_benchmark_question_is_trained_on: reward models would be trained on 1 of the problems of" in failure
        assert not Lake.of(settings).exists(NEGATIVES)
