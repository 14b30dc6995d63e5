"""A few trajectories, and the embedded world's models, planned with and loaded."""

import polars as pl
import pytest

from cpmi_dagster.models.language_models import LoadedModel, load_language_model
from cpmi_dagster.planning.hardware import CPU, Hardware, PlannedModel, planned_model
from cpmi_dagster.profiles.settings import Settings, load_settings

SHELLS = "Ana has 48 shells and finds half as many. How many has she?"
FRUITS = "Ben has 7 apples and 3 pears. How many fruits has he?"
ROWS = [
    ("t000000001", SHELLS, ["48 / 2 = 24", "48 + 24 = 72. The answer is: 72"], "72"),
    ("t000000002", SHELLS, ["48 / 2 = 24", "48 - 24 = 24", "So 24. The answer is: 24"], "72"),
    ("t000000003", FRUITS, ["He has 3 + 4 = 7 left. The answer is: 7"], "10"),
    ("t000000004", FRUITS, ["7 - 3 = 4", "4 x 7 = 28", "28 + 3 = 31", "The answer is: 31"], "10"),
]


@pytest.fixture(scope="session")
def card() -> Hardware:
    """1 TFLOP/s, of which reading reaches half and sampling a quarter; token trees as on a CPU."""
    return Hardware(CPU, {"float32": 1, "bfloat16": 2}, reading=0.5, sampling=0.25)


@pytest.fixture(scope="session")
def trajectories() -> pl.DataFrame:
    """Columns of `alignment.trajectories` that labeling reads, in the order of a run."""
    return pl.DataFrame(ROWS, ["trajectory_id", "question", "steps", "gold_answer"], orient="row")


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
