"""A stage does work once: it skips what is unchanged, continues after a kill, and reports each partition."""

import shutil
from collections.abc import Callable
from dataclasses import replace

import dagster as dg
import polars as pl
import pytest

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.tables import TABLES, AnswerLogprobs, fingerprinted_columns
from cpmi_dagster.errors import LakeError, ScoringError, StorageError
from cpmi_dagster.miniature.names import MODEL_FOLDERS
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.profiles.sources import DataSource
from resources import stage as stage_module
from resources.chunks import Advance, ChunkRun
from resources.data_sources import DataSources
from resources.database import Database
from resources.lake import FileRecord, Lake, earlier_hash, fingerprint_of
from resources.language_models import LanguageModels
from resources.profile_at_work import profile_at_work
from resources.progress import LoggedProgress
from resources.stage import Stage, stage
from resources.stage_run import SELECTED, StageOutput, StageRun
from resources.staleness import Staleness

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


@pytest.fixture
def settings(tmp_path):
    return load_settings("miniature", home=tmp_path)


@pytest.fixture
def run_of(settings) -> Callable[[Stage], StageRun]:
    lake = Lake(settings.home)

    def build(declared: Stage) -> StageRun:
        models, sources = LanguageModels(settings), DataSources(settings)
        log = lines.append
        return StageRun(
            declared.name, declared.tables, settings, lake, models, sources, Database(lake), LoggedProgress(), "r", log
        )

    lines: list[str] = []
    return build


def write(run: StageRun, key: str, frame: pl.DataFrame, partition: str | None = None) -> None:
    run.lake.write(frame, FileRecord(key, partition, "f", "r", "", "1"))


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


def test_a_damaged_file_is_made_again_by_its_own_stage(run_of):
    calls: list[str] = []
    declared = counting_stage(calls)
    run = run_of(declared)
    select(run, {"t1": "000"})
    declared.bring_up_to_date(run, "000")
    path = run.lake.path(NEGATIVES, "000")
    path.write_bytes(path.read_bytes()[:100])
    declared.bring_up_to_date(run, "000")
    assert calls == ["000", "000"]
    assert run.lake.read(NEGATIVES, "000").height == 1


def test_a_missing_input_says_what_to_run(run_of):
    declared = counting_stage([])
    with pytest.raises(LakeError, match=f"{SELECTED} has not been made yet; run `cpmi run --only {SELECTED}` first"):
        declared.bring_up_to_date(run_of(declared), "000")


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
    before = {name: train.dependencies(run, name) for name in ("mc_bce", "pav_bce")}
    labels(0.1, 0.9)
    assert train.dependencies(run, "mc_bce") == before["mc_bce"]
    assert train.dependencies(run, "pav_bce") != before["pav_bce"]


class Killed(Exception):
    """Stands for `kill -9`."""


def chunked_stage(calls: list[list[str]], die_at: str | None) -> Stage:
    @stage(SCORES, inputs=[])
    def score(run: StageRun, shard: str) -> StageOutput:
        """Scores two trajectories a chunk."""

        def make(own: ChunkRun, chunk: pl.DataFrame, advance: Advance) -> StageOutput:
            ids = chunk["trajectory_id"].to_list()
            if die_at in ids:
                raise Killed
            calls.append(ids)
            return StageOutput(rewards(*ids), "model", Cost(1.0, 10, 0), [f"note {ids[0]}"])

        return run.in_chunks(shard, pl.DataFrame({"trajectory_id": ["a", "b", "c", "d", "e"]}), 2, make)

    return score


def test_a_killed_run_continues_without_recomputing_and_ends_the_same(run_of):
    calls: list[list[str]] = []
    dying, living = chunked_stage(calls, die_at="e"), chunked_stage(calls, die_at=None)
    run = run_of(living)
    with pytest.raises(Killed):
        dying.bring_up_to_date(run, "000")
    assert not run.lake.exists(SCORES)
    living.bring_up_to_date(run, "000")
    living.bring_up_to_date(run, "001")
    assert calls == [["a", "b"], ["c", "d"], ["e"], ["a", "b"], ["c", "d"], ["e"]]
    assert run.lake.read(SCORES, "000").equals(run.lake.read(SCORES, "001"))
    resumed, whole = run.lake.record(SCORES, "000"), run.lake.record(SCORES, "001")
    assert resumed and whole
    assert (resumed.content, resumed.cost, resumed.notes) == (whole.content, whole.cost, whole.notes)
    assert resumed.cost["forward_tokens"] == 30


def test_finished_shards_leave_no_chunks_behind(run_of):
    declared = chunked_stage([], None)
    run = run_of(declared)
    declared.bring_up_to_date(run, "000")
    assert not list(run.lake.root.glob(".work/**/*.parquet"))


def materialize(declared: Stage, run: StageRun, instance: dg.DagsterInstance, **options: object):
    return dg.materialize(
        [declared.bind(run.settings, {})],
        instance=instance,
        resources={
            "settings": run.settings,
            "lake": run.lake,
            "models": run.models,
            "sources": run.sources,
            "database": run.database,
            "progress": run.progress,
        },
        raise_on_error=False,
        **options,
    )


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    failure = result.get_step_failure_events()[0].step_failure_data.user_failure_data
    return failure.description if failure and failure.description else ""


def test_a_shard_is_one_event_with_the_hash_of_its_rows_as_data_version(run_of):
    declared = counting_stage([])
    run = run_of(declared)
    select(run, {"t1": "000"})
    with dg.DagsterInstance.ephemeral() as instance:
        for _ in ("made", "skipped"):
            result = materialize(declared, run, instance, partition_key="000")
            [event] = result.asset_materializations_for_node("make")
            record = run.lake.record(NEGATIVES, "000")
            assert record and event.partition == "000"
            assert event.tags["dagster/data_version"] == record.content
    assert "skipped" in event.metadata


def test_a_shard_that_fails_says_why_and_is_not_reported(run_of):
    @stage(NEGATIVES)
    def fails(run: StageRun, shard: str) -> StageOutput:
        """Fails."""
        raise ScoringError("trajectory t7 cannot be scored")

    run = run_of(fails)
    with dg.DagsterInstance.ephemeral() as instance:
        result = materialize(fails, run, instance, partition_key="000")
        assert not instance.get_materialized_partitions(dg.AssetKey(NEGATIVES.split("/")))
    assert failure_of(result) == "trajectory t7 cannot be scored"


def test_a_run_over_a_range_of_shards_is_refused(run_of):
    declared = counting_stage([])
    tags = {"dagster/asset_partition_range_start": "000", "dagster/asset_partition_range_end": "001"}
    with dg.DagsterInstance.ephemeral() as instance:
        result = materialize(declared, run_of(declared), instance, tags=tags)
    assert "one run per partition" in failure_of(result)


def test_the_launchpad_can_force_a_shard_and_takes_nothing_else(run_of):
    calls: list[str] = []
    declared = counting_stage(calls)
    run = run_of(declared)
    select(run, {"t1": "000"})
    with dg.DagsterInstance.ephemeral() as instance:
        for force in (False, False, True):
            config = {"ops": {"make": {"config": {"force": force}}}}
            assert materialize(declared, run, instance, partition_key="000", run_config=config).success
        with pytest.raises(dg.DagsterInvalidConfigError, match="templates"):
            unknown = {"ops": {"make": {"config": {"templates": 2}}}}
            materialize(declared, run, instance, partition_key="000", run_config=unknown)
    assert calls == ["000", "000"]


def test_dagster_shows_schema_lineage_rows_and_preview(run_of):
    declared = counting_stage([])
    run = run_of(declared)
    select(run, {"t1": "000"})
    with dg.DagsterInstance.ephemeral() as instance:
        result = materialize(declared, run, instance, partition_key="000")
    metadata = result.asset_materializations_for_node("make")[-1].metadata
    assert metadata["dagster/row_count"].value == 1
    assert "| t1 | 1 | 3 | model |" in str(metadata["preview"].value)
    lineage = metadata["dagster/column_lineage"].value.deps_by_column
    assert lineage["trajectory_id"][0].asset_key == dg.AssetKey(SELECTED.split("/"))
    spec = next(iter(declared.bind(run.settings, {}).specs))
    columns = {column.name: column for column in spec.metadata["dagster/column_schema"].columns}
    assert columns["rank"].type == "Int64"
    assert {"run_id", "model", "code_version"} <= set(columns)


def test_a_setting_that_is_not_set_changes_nothing(run_of):
    declared = counting_stage([], settings=["negatives.count", "answers.identity"])
    run = run_of(declared)
    select(run, {"t1": "000"})
    assert declared.dependencies(run, "000")["settings"] == {"negatives.count": 4}


def test_a_setting_that_is_no_setting_fails_at_once(run_of):
    @stage(NEGATIVES, settings=["nothing.there"])
    def make(run: StageRun, shard: str) -> StageOutput:
        raise AssertionError

    with pytest.raises(AttributeError):
        make.bring_up_to_date(run_of(make), "000")


def test_a_table_that_a_stage_does_not_declare_cannot_be_read(run_of):
    @stage(LABELS, inputs=[SCORES])
    def undeclared(run: StageRun) -> StageOutput:
        return StageOutput(run.read(NEGATIVES))

    run = replace(run_of(undeclared), inputs=undeclared.inputs)
    with pytest.raises(LakeError, match=r"the stage undeclared reads labels/hard_negatives without declaring it"):
        undeclared.body(run)


@pytest.mark.parametrize("counts", [True, False])
def test_what_inputs_cost_counts_where_a_stage_says_so(run_of, counts):
    @stage(SCORES, inputs=[NEGATIVES], counts_costs=counts)
    def scores(run: StageRun, shard: str) -> StageOutput:
        return StageOutput(rewards("t1"))

    run = run_of(scores)
    cost = Cost(1.0, 2, 3).to_dict()
    run.lake.write(negatives("t1"), FileRecord(NEGATIVES, "000", "f", "r", "", "1", cost=cost))
    scores.bring_up_to_date(run, "000")
    run.lake.write(negatives("t1"), FileRecord(NEGATIVES, "000", "f", "r", "", "1", cost=cost | {"wall_seconds": 9.0}))
    assert scores.is_up_to_date(run, "000") == (not counts)


def test_a_category_that_is_added_to_an_enum_makes_no_row_stale(run_of, monkeypatch):
    @stage(LOGPROBS)
    def logprobs(run: StageRun, shard: str) -> StageOutput:
        return StageOutput(AnswerLogprobs.create_empty())

    run = run_of(logprobs)
    logprobs.bring_up_to_date(run, "000")
    columns = stage_module.fingerprinted_columns(TABLES[LOGPROBS])
    more = columns | {"context": pl.Enum([*columns["context"].categories, "onward"])}
    monkeypatch.setattr(stage_module, "fingerprinted_columns", lambda table: more)
    assert logprobs.is_up_to_date(run, "000")
    monkeypatch.setattr(stage_module, "fingerprinted_columns", lambda table: more | {"answer_rank": pl.String()})
    assert not logprobs.is_up_to_date(run, "000")


def test_files_whose_fingerprint_covers_categories_are_kept(run_of):
    @stage(LOGPROBS)
    def logprobs(run: StageRun, shard: str) -> StageOutput:
        return StageOutput(AnswerLogprobs.create_empty())

    run = run_of(logprobs)
    facts = logprobs.dependencies(run, "000")
    columns = {LOGPROBS: {name: str(kind) for name, kind in fingerprinted_columns(TABLES[LOGPROBS]).items()}}
    earlier = fingerprint_of({**facts, "columns": columns})
    run.lake.write(AnswerLogprobs.create_empty(), FileRecord(LOGPROBS, "000", earlier, "r", "", "1"))
    assert earlier != fingerprint_of(facts)
    assert logprobs.is_up_to_date(run, "000")


def test_rows_are_not_written_where_an_input_changed_after_it_was_read(run_of):
    @stage(NEGATIVES, inputs=[SELECTED])
    def overtaken(run: StageRun, shard: str) -> StageOutput:
        read = run.read(SELECTED)
        write(run, SELECTED, read.with_columns(task=pl.lit("MATH")))
        return StageOutput(negatives("t1"))

    run = run_of(overtaken)
    select(run, {"t1": "000"})
    with pytest.raises(LakeError, match=r"the inputs of labels/hard_negatives 000 changed .* nothing is written"):
        overtaken.bring_up_to_date(run, "000")
    assert not run.lake.exists(NEGATIVES)


def test_an_input_that_was_replaced_since_the_fingerprint_is_not_read(run_of):
    @stage(NEGATIVES, inputs=[SELECTED])
    def overtaken(run: StageRun, shard: str) -> StageOutput:
        select(run, {"t1": "000", "t2": "000"})
        return StageOutput(negatives(*run.read(SELECTED)["trajectory_id"]))

    run = run_of(overtaken)
    select(run, {"t1": "000"})
    with pytest.raises(LakeError, match="selected_trajectories was made again while this run was about to read it"):
        overtaken.bring_up_to_date(run, "000")
    assert not run.lake.exists(NEGATIVES)


def test_chunks_made_while_a_source_changed_are_not_used_later(run_of, tmp_path):
    source = DataSource(path=str(tmp_path / "rows.jsonl"))
    (tmp_path / "rows.jsonl").write_text("{}\n")
    calls: list[str] = []

    @stage(SCORES, sources=lambda _: {"rows": source})
    def score(run: StageRun, shard: str) -> StageOutput:
        def make(own: ChunkRun, chunk: pl.DataFrame, advance: Advance) -> StageOutput:
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


@pytest.fixture
def two_tables() -> Stage:
    @stage(LOGPROBS, also=[REJECTED])
    def logprobs(run: StageRun, shard: str) -> StageOutput:
        """Makes two empty tables."""
        return StageOutput({key: TABLES[key].schema.create_empty() for key in run.tables})

    return logprobs


def test_a_kill_between_the_tables_of_a_stage_leaves_the_first_for_the_end(run_of, two_tables, monkeypatch):
    run, written = run_of(two_tables), []

    def write_and_die(lake: Lake, frame: pl.DataFrame, record: FileRecord) -> FileRecord:
        written.append(record.table)
        if len(written) == 2:
            raise Killed
        return original(lake, frame, record)

    original = Lake.write
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(Lake, "write", write_and_die)
        two_tables.bring_up_to_date(run, "000")
    assert not run.lake.exists(LOGPROBS)
    two_tables.bring_up_to_date(run, "000")
    assert run.lake.is_whole(LOGPROBS, "000") and run.lake.is_whole(REJECTED, "000")


@pytest.mark.parametrize("lost", [LOGPROBS, REJECTED])
def test_one_table_of_two_that_was_deleted_comes_back(run_of, two_tables, lost):
    run = run_of(two_tables)
    two_tables.bring_up_to_date(run, "000")
    run.lake.path(lost, "000").unlink()
    two_tables.bring_up_to_date(run, "000")
    assert run.lake.is_whole(lost, "000")
    assert two_tables.bring_up_to_date(run, "000")[lost]["skipped"]


def test_a_file_in_which_a_bit_flipped_is_made_again_by_its_own_stage(run_of, flip):
    calls: list[str] = []
    declared = counting_stage(calls)
    run = run_of(declared)
    select(run, {"t1": "000"})
    declared.bring_up_to_date(run, "000")
    flip(run.lake.path(NEGATIVES, "000"), 30)
    declared.bring_up_to_date(run, "000")
    assert calls == ["000", "000"]
    assert run.lake.is_whole(NEGATIVES, "000")


def test_a_shard_that_was_copied_over_another_is_made_again(run_of):
    calls: list[str] = []
    declared = counting_stage(calls)
    run = run_of(declared)
    select(run, {"t1": "000"})
    for shard in ("000", "001"):
        declared.bring_up_to_date(run, shard)
    shutil.copy(run.lake.path(NEGATIVES, "000"), run.lake.path(NEGATIVES, "001"))
    declared.bring_up_to_date(run, "001")
    assert calls == ["000", "001", "001"]


def test_what_killed_runs_left_of_a_finished_partition_goes(run_of):
    declared = chunked_stage([], None)
    run = run_of(declared)
    declared.bring_up_to_date(run, "000")
    run.lake.chunks(SCORES, "000", "f" * 16).save("0", {SCORES: rewards("a")}, {})
    run.lake.path(SCORES, "000").with_name(".shard=000.parquet.4711.tmp").touch()
    declared.bring_up_to_date(run, "000")
    left = {path.name for path in run.lake.root.rglob("*") if path.is_file() and path.suffix != ".lock"}
    assert left == {"shard=000.parquet", *(path.name for path in run.lake.root.rglob("*empty.parquet"))}


def test_no_rows_are_made_beside_a_run_of_another_profile(run_of):
    declared = counting_stage([])
    run = run_of(declared)
    select(run, {"t1": "000"})
    with (
        profile_at_work(run.settings.model_copy(update={"profile": "other"})),
        pytest.raises(LakeError, match="a run of profile `other` is at work"),
    ):
        declared.bring_up_to_date(run, "000")


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
    assert made.is_up_to_date(run, "000")
    with (tmp_path / "model" / name).open("ab") as stream:
        stream.write(b"\n")
    assert not made.is_up_to_date(run, "000")


def is_kept(declared: Stage, run: StageRun, **earlier: object) -> bool:
    """Whether rows are up to date that a version made which knew these facts otherwise."""
    facts = declared.dependencies(run, "000")
    assert {**facts, **earlier} != facts
    record = FileRecord(NEGATIVES, "000", fingerprint_of({**facts, **earlier}), "r", "", "1")
    run.lake.write(negatives("t1"), record)
    return declared.is_up_to_date(run, "000")


def test_rows_of_a_version_that_knew_the_weights_alone_are_kept(with_model):
    made, run = with_model
    assert is_kept(made, run, models={"labeler": made.dependencies(run, "000")["models"]["labeler"][:2]})


def test_rows_of_a_version_that_hashed_the_selection_otherwise_are_kept(run_of):
    declared = counting_stage([])
    run = run_of(declared)
    select(run, {"t1": "000", "t2": "001"})
    chosen = earlier_hash(run.lake.read(SELECTED).filter(pl.col("shard") == "000"))
    assert is_kept(declared, run, inputs={SELECTED: chosen})


def test_a_damaged_file_counts_as_stale(run_of):
    declared = counting_stage([])
    run = run_of(declared)
    select(run, {"t1": "000"})
    declared.bring_up_to_date(run, "000")
    path = run.lake.path(NEGATIVES, "000")
    path.write_bytes(path.read_bytes()[:100])
    assert Staleness(run, {NEGATIVES: declared}).partitions(NEGATIVES) == {"000": f"{NEGATIVES} 000 is damaged"}


def test_a_full_disk_is_one_sentence_and_the_next_run_goes_on(run_of, full_disk):
    calls: list[list[str]] = []
    declared = chunked_stage(calls, None)
    run = run_of(declared)
    with full_disk(300), pytest.raises(StorageError, match=r"cannot be written .*make room on its disk and run again"):
        declared.bring_up_to_date(run, "000")
    declared.bring_up_to_date(run, "000")
    assert calls == [["a", "b"], ["a", "b"], ["c", "d"], ["e"]]
    assert run.lake.read(SCORES, "000").height == 5
