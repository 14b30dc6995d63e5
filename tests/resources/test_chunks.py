"""Chunks of a frame, and what an error in one says."""

import polars as pl
import pytest

from cpmi_dagster.errors import MissingModel, ScoringError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.workers.chunks import chunks_of, make_chunk
from cpmi_dagster.resources.workers.language_models import LanguageModels

FRAME = pl.DataFrame({"trajectory_id": list("abcde")})


def test_a_frame_is_cut_in_its_order_and_one_without_rows_is_one_chunk():
    chunks = {name: "".join(rows["trajectory_id"]) for name, rows in chunks_of(FRAME, 2).items()}
    assert chunks == {"00000-rows-2": "ab", "00001-rows-2": "cd", "00002-rows-2": "e"}
    assert [rows.height for rows in chunks_of(FRAME.clear(), 2).values()] == [0]


def test_an_error_names_the_trajectories_among_which_it_came_up():
    def refuse(rows, advance):
        raise ScoringError("too long")

    with pytest.raises(ScoringError) as found:
        make_chunk(refuse, FRAME, print)
    assert found.value.__notes__ == ["among 5 rows from trajectory a on"]


def test_a_model_that_cannot_be_had_is_told_from_a_chunk_that_cannot_be_made(tmp_path):
    settings = load_settings("miniature", tmp_path)
    gone = settings.models.labeler.model_copy(update={"name": str(tmp_path / "gone")})
    changed = settings.models.model_copy(update={"labeler": gone})
    models = LanguageModels(settings.model_copy(update={"models": changed}))
    for use in (models.facts, models.load):
        with pytest.raises(MissingModel, match="gone` is not on this disk"):
            use("labeler")
