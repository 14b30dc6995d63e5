"""Stages of a few rows, and what they read; imported by the tests of stages."""

from dataclasses import replace

import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.keys import SELECTED
from cpmi_dagster.resources.dag.stage import Stage, stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.lake.records import FileRecord, rows_hash
from cpmi_dagster.resources.workers.chunks import Advance, StageOutput

NEGATIVES = "labels/hard_negatives"
LOGPROBS, REJECTED = "labels/answer_logprobs", "labels/rejected_trajectories"
SCORES = "labels/step_rewards"
LABELS = "dataset/soft_labels"


def negatives(*ids: str) -> pl.DataFrame:
    rows = [{"trajectory_id": name, "rank": 1, "answer": "3", "source": "model"} for name in ids]
    return pl.DataFrame(
        rows, schema={"trajectory_id": pl.String, "rank": pl.Int64, "answer": pl.String, "source": pl.String}
    )


def rewards(*ids: str) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "trajectory_id": ids,
            "step_index": [0] * len(ids),
            "reward_type": ["mc"] * len(ids),
            "reward": [1.0] * len(ids),
        }
    )


def write(run: StageRun, key: str, frame: pl.DataFrame, partition: str | None = None, made_by: str = "") -> None:
    run.lake.write(frame, FileRecord(key, partition, "r", "", "1", {"all": made_by or rows_hash(frame)}))


def states_of(run: StageRun, declared: Stage) -> States:
    """What is judged by a stage, of its own tables."""
    stages = dict.fromkeys(declared.tables, declared)
    return States(run.settings, run.lake, run.models, run.sources, stages)


def is_current(run: StageRun, declared: Stage, partition: str) -> bool:
    return states_of(run, declared).state(declared.table, partition).kind == "current"


def select(run: StageRun, shards: dict[str, str]) -> None:
    rows = [
        {"trajectory_id": name, "question_id": name, "shard": shard, "task": "GSM8K", "composition": "mixed"}
        for name, shard in shards.items()
    ]
    write(run, SELECTED, pl.DataFrame(rows))


def counting_stage(calls: list[str], **changes: object) -> Stage:
    @stage(NEGATIVES, inputs=[SELECTED], settings=["negatives.count"])
    def make(run: StageRun, shard: str) -> StageOutput:
        """Counts its calls."""
        calls.append(shard)
        return StageOutput(negatives("t1"))

    return replace(make, **changes)


class Killed(Exception):
    """Stands for `kill -9`."""


def chunked_stage(calls: list[list[str]], die_at: str | None) -> Stage:
    @stage(SCORES, inputs=[])
    def score(run: StageRun, shard: str) -> StageOutput:
        """Scores two trajectories a chunk."""

        def make(chunk: pl.DataFrame, advance: Advance) -> StageOutput:
            ids = chunk["trajectory_id"].to_list()
            if die_at in ids:
                raise Killed
            calls.append(ids)
            return StageOutput(rewards(*ids), "model", Cost(1.0, 10, 0), [f"note {ids[0]}"])

        return run.in_chunks(shard, pl.DataFrame({"trajectory_id": ["a", "b", "c", "d", "e"]}), 2, make)

    return score
