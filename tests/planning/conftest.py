"""A few trajectories, the embedded world's models planned with and loaded, and a home where the trajectories stand."""

import polars as pl
import pytest

from cpmi_dagster.models.language_models import LoadedModel, load_language_model
from cpmi_dagster.planning.hardware import CPU, Hardware, PlannedModel, planned_model
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.records import Record

SOLUTIONS = [
    ("q1", ["48 / 2 = 24", "48 + 24 = 72. The answer is: 72"]),
    ("q1", ["48 / 2 = 24", "48 - 24 = 24", "So 24. The answer is: 24"]),
    ("q2", ["He has 3 + 4 = 7 left. The answer is: 7"]),
    ("q2", ["7 - 3 = 4", "4 x 7 = 28", "28 + 3 = 31", "The answer is: 31"]),
    ("q3", ["Tom buys 5 pens for 2 dollars each.", "5 x 2 = 10. The answer is: 10"]),
]
QUESTIONS = {
    "q1": ("Ana has 48 shells and finds half as many. How many has she?", "72"),
    "q2": ("Ben has 7 apples and 3 pears. How many fruits has he?", "10"),
    "q3": ("Tom buys 5 pens at 2 dollars. What does he pay?", "10"),
}
SHARD_OF = {"q1": "000", "q2": "001", "q3": "001"}


@pytest.fixture(scope="session")
def card() -> Hardware:
    """1 TFLOP/s, of which reading reaches half and sampling a quarter; token trees as on a CPU."""
    return Hardware(CPU, {"float32": 1, "bfloat16": 2}, reading=0.5, sampling=0.25)


@pytest.fixture(scope="session")
def trajectories() -> pl.DataFrame:
    """Columns of `alignment.trajectories` that labeling reads, in the order of a run."""
    rows = [
        (f"t{number:09}", name, QUESTIONS[name][0], steps, QUESTIONS[name][1])
        for number, (name, steps) in enumerate(SOLUTIONS, start=1)
    ]
    return pl.DataFrame(rows, ["trajectory_id", "question_id", "question", "steps", "gold_answer"], orient="row")


@pytest.fixture(scope="session")
def settings(tmp_path_factory) -> Settings:
    """The miniature with few rollouts, in a home of its own."""
    own = load_settings("miniature", tmp_path_factory.mktemp("planned"))
    sampling = own.rollouts.sampling.model_copy(update={"max_new_tokens": 24})
    rollouts = own.rollouts.model_copy(update={"policy_count": 2, "prover_count": 1, "sampling": sampling})
    return own.model_copy(update={"rollouts": rollouts, "shards": 2})


@pytest.fixture(scope="session")
def models(settings, card) -> dict[str, PlannedModel]:
    """The embedded world's models, planned with."""
    return {role: planned_model(settings.models.of(role), card) for role in ("labeler", "rollouts", "prover")}


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
        shard=pl.col("question_id").replace_strict(SHARD_OF),
    )
    for shard in ("000", "001"):
        own = aligned.filter(pl.col("shard") == shard).drop("shard")
        lake.write(own, _record("alignment/trajectories", shard))
        chosen = aligned.filter(pl.col("shard") == shard).select(
            "trajectory_id", "question_id", "shard", "task", composition=pl.lit("pure")
        )
        lake.write(chosen, _record("selection/selected_trajectories", shard))
    return lake


def _record(table: str, partition: str) -> Record:
    return Record(table, partition, key="", run_id="")
