"""Stages of a few rows, and what they read; imported by the tests of stages."""

from dataclasses import replace

import polars as pl

from cpmi_dagster.contracts.keys import NEGATIVES, SELECTED
from cpmi_dagster.resources.dag.making import bring_up_to_date
from cpmi_dagster.resources.dag.stage import Stage, StageOutput, stage
from cpmi_dagster.resources.dag.stage_run import Home, StageRun
from cpmi_dagster.resources.dag.states import State
from cpmi_dagster.resources.lake.parquet import Record, hash_of

SHARD = "000"


def negatives(*ids: str) -> pl.DataFrame:
    return pl.DataFrame({"trajectory_id": ids}).with_columns(rank=1, answer=pl.lit("3"), source=pl.lit("model"))


def rewards(*ids: str) -> pl.DataFrame:
    return pl.DataFrame({"trajectory_id": ids}).with_columns(step_index=0, reward_type=pl.lit("mc"), reward=1.0)


def write(home: Home, key: str, frame: pl.DataFrame, partition: str | None = SHARD) -> None:
    home.lake.write(frame, Record(key, partition, key=hash_of(frame.rows()), run_id="r"))


def select(home: Home, *ids: str, shard: str = SHARD) -> None:
    columns = {"question_id": pl.lit("q"), "shard": pl.lit(shard), "task": pl.lit("GSM8K")}
    frame = pl.DataFrame({"trajectory_id": ids}).with_columns(composition=pl.lit("mixed"), **columns)
    write(home, SELECTED, frame, shard)


def with_stages(home: Home, *stages: Stage) -> Home:
    """As a process that was started just now has it."""
    made = {key: each for each in stages for key in each.tables}
    return replace(home, stages=made, cache={})


def bring(home: Home, stage: Stage, partition: str | None = SHARD) -> bool:
    """Bring a partition up to date; whether it was made."""
    home = with_stages(home, *home.stages.values(), stage)
    return bring_up_to_date(StageRun(stage, home, partition, "r", lambda _: None)) is not None


def state(home: Home, stage: Stage, partition: str | None = SHARD) -> State:
    return with_stages(home, *home.stages.values(), stage).states().state(stage.table, partition)


@stage(NEGATIVES, inputs=[SELECTED], settings=["negatives.count"])
def count_selected(run: StageRun) -> StageOutput:
    """A negative of each selected trajectory."""
    return StageOutput(negatives(*run.read(SELECTED)["trajectory_id"]))
