"""A stage does work once: it skips what is unchanged, and makes again what its rows depend on."""

import shutil
from dataclasses import replace

import polars as pl
import pytest
from stage_examples import (
    LABELS,
    LOGPROBS,
    NEGATIVES,
    SCORES,
    counting_stage,
    is_current,
    negatives,
    rewards,
    select,
    states_of,
    write,
)

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.tables import TABLES, AnswerLogprobs, columns_of
from cpmi_dagster.miniature.names import MODEL_FOLDERS
from cpmi_dagster.resources.dag.stage import Stage, stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.lake import records
from cpmi_dagster.resources.lake.records import FileRecord
from cpmi_dagster.resources.workers.chunks import StageOutput
from cpmi_dagster.resources.workers.language_models import LanguageModels


def test_unchanged_work_is_skipped_and_said_so(run_of):
    calls: list[str] = []
    declared = counting_stage(calls)
    run = run_of(declared)
    select(run, {"t1": "000"})
    assert "skipped" not in declared.bring_up_to_date(run, "000")[NEGATIVES]
    assert declared.bring_up_to_date(run, "000")[NEGATIVES]["skipped"] == "unchanged"
    assert calls == ["000"]


@pytest.mark.parametrize("what", ["code", "setting", "input", "seed"])
def test_whatever_the_rows_depend_on_makes_them_stale(run_of, what):
    calls: list[str] = []
    declared = counting_stage(calls)
    run = run_of(declared)
    select(run, {"t1": "000"})
    declared.bring_up_to_date(run, "000")
    if what == "code":
        declared = counting_stage(calls, code_version="2")
    elif what == "setting":
        changed = run.settings.negatives.model_copy(update={"count": 2})
        run = replace(run, settings=run.settings.model_copy(update={"negatives": changed}))
    elif what == "seed":
        run = replace(run, settings=run.settings.model_copy(update={"seed": 5}))
    else:
        select(run, {"t1": "000", "t2": "000"})
    declared.bring_up_to_date(run, "000")
    assert calls == ["000", "000"]


def test_a_change_in_another_shard_does_not_make_a_shard_stale(run_of):
    calls: list[str] = []
    declared = counting_stage(calls)
    run = run_of(declared)
    select(run, {"t1": "000"})
    declared.bring_up_to_date(run, "000")
    select(run, {"t1": "000", "t2": "001"})
    declared.bring_up_to_date(run, "000")
    assert calls == ["000"]


def test_inputs_made_again_with_the_same_rows_change_nothing(run_of):
    calls: list[str] = []
    declared = counting_stage(calls)
    run = run_of(declared)
    select(run, {"t1": "000"})
    declared.bring_up_to_date(run, "000")
    select(run, {"t1": "000"})
    declared.bring_up_to_date(run, "000")
    assert calls == ["000"]


def test_a_recipe_depends_on_its_own_soft_labels_only(run_of):
    @stage("models/process_reward_models", inputs=[LABELS])
    def train(run: StageRun, recipe: str) -> StageOutput:
        raise AssertionError

    run = run_of(train)

    def labels(mc: float, pav: float) -> None:
        rows = {
            "trajectory_id": ["t", "t"],
            "step_index": [0, 0],
            "reward_type": ["mc", "pav"],
            "soft_label": [mc, pav],
        }
        write(run, LABELS, pl.DataFrame(rows))

    labels(0.1, 0.2)
    before = {name: states_of(run, train).facts(train, name) for name in ("mc_bce", "pav_bce")}
    labels(0.1, 0.9)
    assert states_of(run, train).facts(train, "mc_bce") == before["mc_bce"]
    assert states_of(run, train).facts(train, "pav_bce") != before["pav_bce"]


def test_a_setting_that_is_not_set_changes_nothing(run_of):
    declared = counting_stage([], settings=["negatives.count", "answers.identity"])
    run = run_of(declared)
    select(run, {"t1": "000"})
    assert states_of(run, declared).facts(declared, "000")["settings"] == {"negatives.count": 4}


def test_a_setting_that_is_no_setting_fails_at_once(run_of):
    @stage(NEGATIVES, settings=["nothing.there"])
    def make(run: StageRun, shard: str) -> StageOutput:
        raise AssertionError

    with pytest.raises(AttributeError):
        make.bring_up_to_date(run_of(make), "000")


@pytest.mark.parametrize("counts", [True, False])
def test_what_inputs_cost_counts_where_a_stage_says_so(run_of, counts):
    @stage(SCORES, inputs=[NEGATIVES], counts_costs=counts)
    def scores(run: StageRun, shard: str) -> StageOutput:
        return StageOutput(rewards("t1"))

    run = run_of(scores)
    cost = Cost(1.0, 2, 3).to_dict()
    run.lake.write(negatives("t1"), FileRecord(NEGATIVES, "000", "r", "", "1", cost=cost))
    scores.bring_up_to_date(run, "000")
    costlier = FileRecord(NEGATIVES, "000", "r", "", "1", {"all": "again"}, cost=cost | {"wall_seconds": 9.0})
    run.lake.write(negatives("t1"), costlier)
    assert is_current(run, scores, "000") == (not counts)


def test_a_category_that_is_added_to_an_enum_makes_no_row_stale(run_of, monkeypatch):
    @stage(LOGPROBS)
    def logprobs(run: StageRun, shard: str) -> StageOutput:
        return StageOutput(AnswerLogprobs.create_empty())

    run = run_of(logprobs)
    logprobs.bring_up_to_date(run, "000")
    columns = columns_of(TABLES[LOGPROBS])
    more = columns | {"context": pl.Enum([*columns["context"].categories, "onward"])}
    monkeypatch.setattr(records, "table_columns", lambda table: more)
    assert is_current(run, logprobs, "000")
    monkeypatch.setattr(records, "table_columns", lambda table: more | {"answer_rank": pl.String()})
    assert not is_current(run, logprobs, "000")


@pytest.fixture
def with_model(run_of, tmp_path) -> tuple[Stage, StageRun]:
    """A stage whose labeler is a folder, and a run of it."""
    shutil.copytree(MODEL_FOLDERS["prover"], tmp_path / "model")

    @stage(NEGATIVES, models=["labeler"])
    def make(run: StageRun, shard: str) -> StageOutput:
        """Uses no model."""
        return StageOutput(negatives("t1"))

    run = run_of(make)
    model = run.settings.models.labeler.model_copy(update={"name": str(tmp_path / "model")})
    models = run.settings.models.model_copy(update={"labeler": model})
    settings = run.settings.model_copy(update={"models": models})
    return make, replace(run, settings=settings, models=LanguageModels(settings))


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json", "generation_config.json", "model.safetensors"])
def test_whatever_decides_how_a_model_reads_makes_rows_stale(with_model, tmp_path, name):
    made, run = with_model
    made.bring_up_to_date(run, "000")
    assert is_current(run, made, "000")
    with (tmp_path / "model" / name).open("ab") as stream:
        stream.write(b"\n")
    assert not is_current(run, made, "000")
