"""Reward models beat chance, and are not trained on what they are judged by."""

from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import polars as pl

from cpmi_dagster.contracts.tables import TABLES, columns_of
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA
from cpmi_dagster.resources.dag.checks import (
    CHECKS,
    every_trajectory_scored,
    match_rate,
    negatives_differ_from_gold,
    no_benchmark_question_is_trained_on,
    reward_models_beat_chance,
)
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.records import FileRecord


def check(**aucs: tuple[float, float, float]) -> dg.AssetCheckResult:
    rows = [{"row": row, "column": "ROC-AUC", "measured": a, "low": b, "high": c} for row, (a, b, c) in aucs.items()]
    lake = SimpleNamespace(read=lambda key: pl.DataFrame(rows, schema=COMPARISON_SCHEMA))
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
            "match_score": 1.0,
        },
        "selection/selected_trajectories": {"trajectory_id": "t000000000", "shard": "000"},
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


def test_a_check_on_questions_stops_the_run_before_models_are_trained():
    (check,) = (check for check in CHECKS if check.body is no_benchmark_question_is_trained_on)
    (spec,) = check.bind().check_specs
    assert (spec.name, spec.blocking) == ("no_benchmark_question_is_trained_on", True)


def test_a_shard_that_is_half_made_or_damaged_stops_no_other(tmp_path: Path):
    lake, settings = Lake(tmp_path, "miniature"), load_settings("miniature", tmp_path)
    row = {"trajectory_id": "t", "question_id": "q", "shard": "000", "task": "GSM8K", "composition": "mixed"}
    lake.write(pl.DataFrame([row]), FileRecord("selection/selected_trajectories", None, "r", "", "1"))
    for key in ("labels/answer_logprobs", "alignment/trajectories", "alignment/rejected_rows"):
        lake.write(TABLES[key].schema.create_empty(), FileRecord(key, "000", "r", "", "1"))
    trajectories = lake.paths("alignment/trajectories", "000")[0]
    trajectories.write_bytes(trajectories.read_bytes()[:99])
    assert every_trajectory_scored(lake, settings, settings.shard_keys).passed
    assert match_rate(lake, settings).metadata["match_rate"].value == 0


def test_a_check_of_one_shard_reads_no_other(tmp_path: Path):
    lake, settings = Lake(tmp_path, "miniature"), load_settings("miniature", tmp_path)
    for shard, answer in (("000", "7/2"), ("001", "7/3")):
        trajectory = {
            "trajectory_id": shard, "question_id": "q", "row_number": 0, "task": "MATH", "question": ASKED,
            "steps": ["7/2"], "gold_answer": "7/2", "match_source": "given/train/0", "match_kind": "given",
            "match_score": 1.0,
        }  # fmt: skip
        rows = {
            "alignment/trajectories": trajectory,
            "labels/hard_negatives": {"trajectory_id": shard, "rank": 1, "answer": answer, "source": "model"},
        }
        for key, row in rows.items():
            frame = pl.DataFrame([row], schema=TABLES[key].schema.create_empty().schema, strict=False)
            lake.write(frame, FileRecord(key, shard, "r", "", "1"))
    found = {shard: negatives_differ_from_gold(lake, settings, [shard]).passed for shard in ("000", "001")}
    assert found == {"000": False, "001": True}
    assert not negatives_differ_from_gold(lake, settings, settings.shard_keys).passed


class ShardByShard(Lake):
    """A lake of which no more than one partition is held at a time."""

    def read(self, key, partitions=None, columns=None):
        assert TABLES[key].partitioning is None or isinstance(partitions, str)
        return super().read(key, partitions, columns)


def test_scores_of_all_shards_are_counted_shard_by_shard(tmp_path: Path):
    lake, settings = ShardByShard(tmp_path, "miniature"), load_settings("miniature", tmp_path)
    logprob = {
        "template": 0,
        "context": "question",
        "step_index": 0,
        "answer_rank": 0,
        "logprob_sum": -1.0,
        "token_count": 1,
    }
    scored = {"000": ["a"], "001": ["c"]}
    rows = {
        ("selection/selected_trajectories", None): [
            {"trajectory_id": name, "question_id": "q", "shard": shard, "task": "MATH", "composition": "mixed"}
            for name, shard in (("a", "000"), ("b", "000"), ("c", "001"), ("d", "001"))
        ]
    }
    for shard, found in scored.items():
        own = [{"trajectory_id": name, **logprob} for name in found]
        rows |= {("labels/answer_logprobs", shard): own, ("labels/rejected_trajectories", shard): []}
    for (key, shard), own in rows.items():
        frame = pl.DataFrame(own, schema=TABLES[key].schema.create_empty().schema, strict=False)
        lake.write(frame, FileRecord(key, shard, "r", "", "1"))
    found = every_trajectory_scored(lake, settings, settings.shard_keys)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert {name: value.value for name, value in found.metadata.items()} == {
        "missing": 2,
        "not_finite": 0,
        "rejected": 0,
    }
