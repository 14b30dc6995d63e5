"""Fixtures of the scoring tests; what they are made of stands in scoring_examples.py."""

import polars as pl
import pytest
from scoring_examples import AWKWARD, AWKWARD_NEGATIVES, BuildModel, frame_of, negatives_of, random_model

from cpmi_dagster.models.language_models import LoadedModel


@pytest.fixture(scope="session")
def build_model() -> BuildModel:
    """`build_model(architecture, bos=False, **config)`."""
    return random_model


@pytest.fixture(scope="session")
def qwen3() -> LoadedModel:
    """A random Qwen3."""
    return random_model("qwen3")


@pytest.fixture
def trajectories() -> pl.DataFrame:
    """Trajectories with everything that makes a token tree awkward."""
    return frame_of(AWKWARD)


@pytest.fixture
def negatives() -> pl.DataFrame:
    """Their hard negatives."""
    return negatives_of(AWKWARD_NEGATIVES)
