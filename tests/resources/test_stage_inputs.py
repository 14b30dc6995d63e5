"""A stage reads what it declares, as it was when the stage began."""

from dataclasses import replace

import polars as pl
import pytest
from stage_examples import LABELS, NEGATIVES, SCORES, counting_stage, is_current, negatives, rewards, select, write

from cpmi_dagster.contracts.keys import SELECTED
from cpmi_dagster.errors import LakeError
from cpmi_dagster.profiles.sources import DataSource
from cpmi_dagster.resources.dag.stage import stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.workers.chunks import Advance, StageOutput


def test_a_missing_input_says_what_to_run(run_of):
    declared = counting_stage([])
    with pytest.raises(
        LakeError, match=f"{SELECTED} has not been made yet; materialize it, or run `cpmi run --only {SELECTED}`"
    ):
        declared.bring_up_to_date(run_of(declared), "000")


def test_a_table_that_a_stage_does_not_declare_cannot_be_read(run_of):
    @stage(LABELS, inputs=[SCORES])
    def undeclared(run: StageRun) -> StageOutput:
        return StageOutput(run.read(NEGATIVES))

    run = replace(run_of(undeclared), inputs=undeclared.inputs)
    with pytest.raises(LakeError, match=r"the stage undeclared reads labels/hard_negatives without declaring it"):
        undeclared.body(run)


def test_rows_are_made_of_what_an_input_was_when_the_stage_began(run_of):
    @stage(NEGATIVES, inputs=[SELECTED])
    def overtaken(run: StageRun, shard: str) -> StageOutput:
        write(run, SELECTED, run.read(SELECTED).with_columns(trajectory_id=pl.lit("t2")), made_by="another run")
        return StageOutput(negatives(*run.read(SELECTED)["trajectory_id"]))

    run = run_of(overtaken)
    select(run, {"t1": "000"})
    overtaken.bring_up_to_date(run, "000")
    assert run.lake.read(NEGATIVES, "000")["trajectory_id"].to_list() == ["t1"]
    assert not is_current(run, overtaken, "000")


def test_chunks_made_while_a_source_changed_are_not_used_later(run_of, tmp_path):
    source = DataSource(path=str(tmp_path / "rows.jsonl"))
    (tmp_path / "rows.jsonl").write_text("{}\n")
    calls: list[str] = []

    @stage(SCORES, sources=lambda _: {"rows": source})
    def score(run: StageRun, shard: str) -> StageOutput:
        def make(chunk: pl.DataFrame, advance: Advance) -> StageOutput:
            calls.append((tmp_path / "rows.jsonl").read_text())
            return StageOutput(rewards("a"), "model")

        if not calls:
            (tmp_path / "rows.jsonl").write_text("{} \n")
        return run.in_chunks(shard, pl.DataFrame({"trajectory_id": ["a"]}), 1, make)

    run = run_of(score)
    with pytest.raises(LakeError, match="the sources of labels/step_rewards 000 changed"):
        score.bring_up_to_date(run, "000")
    (tmp_path / "rows.jsonl").write_text("{}\n")
    score.bring_up_to_date(run, "000")
    assert calls == ["{} \n", "{}\n"]
