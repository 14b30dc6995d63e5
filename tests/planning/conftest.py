"""A few trajectories, the embedded world's models planned with and loaded, and a home where the trajectories stand."""

import polars as pl
import pytest
from planning_examples import SHARD_OF, trajectory_rows

from cpmi_dagster.models.language_models import LoadedModel, load_language_model
from cpmi_dagster.planning.shapes import PlannedModel, planned_model
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.lake import FileRecord, Lake


@pytest.fixture(scope="session")
def trajectories() -> pl.DataFrame:
    """Columns of `alignment.trajectories` that labeling reads, in the order of a run."""
    return trajectory_rows()


@pytest.fixture(scope="session")
def settings(tmp_path_factory) -> Settings:
    """The miniature with few rollouts, in a home of its own."""
    own = load_settings("miniature", tmp_path_factory.mktemp("planned"))
    sampling = own.rollouts.sampling.model_copy(update={"max_new_tokens": 24})
    rollouts = own.rollouts.model_copy(update={"policy_count": 2, "prover_count": 1, "sampling": sampling})
    return own.model_copy(update={"rollouts": rollouts, "shards": 2})


@pytest.fixture(scope="session")
def models(settings) -> dict[str, PlannedModel]:
    """The embedded world's models, planned with."""
    return {role: planned_model(role, settings.models.of(role)) for role in ("labeler", "rollouts", "prover")}


@pytest.fixture(scope="session")
def loaded() -> dict[str, LoadedModel]:
    """The same models, loaded."""
    labeler = load_language_model("miniature:labeler", dtype="float32")
    prover = load_language_model("miniature:prover", dtype="float32")
    return {"labeler": labeler, "rollouts": labeler, "prover": prover}


@pytest.fixture
def home(trajectories, tmp_path, monkeypatch):
    """A home in which the trajectories are aligned and selected, and nothing is labelled."""
    monkeypatch.setenv("CPMI_HOME", str(tmp_path))
    lake = Lake(tmp_path)
    aligned = trajectories.with_columns(
        row_number=pl.int_range(pl.len()),
        task=pl.lit("GSM8K"),
        shepherd_labels=pl.col("steps").list.eval(pl.lit(True)),
        final_answer=pl.lit(None, pl.String),
        source_id=pl.lit(None, pl.String),
        match_source=pl.lit("gsm8k/train/0"),
        match_kind=pl.lit("exact"),
        match_score=pl.lit(1.0),
        shard=pl.col("question_id").replace_strict(SHARD_OF),
    )
    for shard in ("000", "001"):
        own = aligned.filter(pl.col("shard") == shard).drop("shard")
        lake.write(own, _record("alignment/trajectories", shard))
    chosen = aligned.select("trajectory_id", "question_id", "shard", "task", composition=pl.lit("pure"))
    lake.write(chosen, _record("selection/selected_trajectories", None))
    return lake


def _record(table: str, partition: str | None) -> FileRecord:
    return FileRecord(table, partition, fingerprint="", run_id="", model="", code_version="1")
