"""A chunk is made by the same function wherever it is made, with what it needs and nothing else."""

import pickle

import polars as pl
import pytest

from cpmi_dagster.contracts.keys import NEGATIVES
from cpmi_dagster.errors import MissingModel
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.workers.chunks import ChunkJob, StageOutput, chunk_jobs
from cpmi_dagster.resources.workers.language_models import LanguageModels

FRAME = pl.DataFrame({"trajectory_id": list("abcde")})


def names_of(own, chunk, advance):
    advance(chunk.height)
    answers = "".join(own.beside[NEGATIVES]["answer"])
    return StageOutput(chunk.with_columns(pl.lit(answers).alias("negatives")), "model")


def jobs_of(frame: pl.DataFrame, **models: list[str]) -> list[ChunkJob]:
    negatives = pl.DataFrame({"trajectory_id": list("eabd"), "answer": list("5124")})
    return chunk_jobs("answer_logprobs", "003", frame, 2, names_of, {NEGATIVES: negatives}, models)


def test_chunks_have_the_rows_of_their_own_trajectories_and_no_rows_are_one_chunk(tmp_path):
    settings, done = load_settings("miniature", tmp_path), []
    outputs = [job.made(settings, LanguageModels(settings), done.append) for job in jobs_of(FRAME)]
    found = pl.concat([output.frame("labels/step_rewards") for output in outputs])
    assert found.rows() == [("a", "12"), ("b", "12"), ("c", "4"), ("d", "4"), ("e", "5")]
    assert done == [2, 2, 1]
    assert [job.rows.height for job in jobs_of(FRAME.clear())] == [0]


def test_a_chunk_names_itself_and_can_be_sent():
    job = pickle.loads(pickle.dumps(jobs_of(FRAME)[1]))
    assert str(job) == "chunk 00001 of answer_logprobs 003"
    assert job.rows["trajectory_id"].to_list() == ["c", "d"]
    assert job.make is names_of


def test_a_model_that_cannot_be_had_is_told_from_a_chunk_that_cannot_be_made(tmp_path):
    settings = load_settings("miniature", tmp_path)
    gone = settings.models.labeler.model_copy(update={"name": str(tmp_path / "gone")})
    changed = settings.models.model_copy(update={"labeler": gone})
    models = LanguageModels(settings.model_copy(update={"models": changed}))
    for use in (models.facts, models.load):
        with pytest.raises(MissingModel, match="gone` is not on this disk"):
            use("labeler")


@pytest.mark.parametrize(
    ("position", "other", "words"),
    [
        (0, "miniature:labeler@0123456789ab", "another labeler: "),
        (1, "bfloat16", "another precision, config or tokenizer of the labeler"),
        (2, "0123456789ab", "another precision, config or tokenizer of the labeler"),
    ],
)
def test_a_node_with_another_model_precision_or_tokenizer_is_refused(tmp_path, position, other, words):
    models = LanguageModels(load_settings("miniature", tmp_path))
    facts = models.facts("labeler")
    (job, *_) = jobs_of(FRAME, labeler=facts)
    job.check_models(models)
    (job, *_) = jobs_of(FRAME, labeler=[*facts[:position], other, *facts[position + 1 :]])
    with pytest.raises(MissingModel, match=rf"{words}.*, the run has .*{other}"):
        job.check_models(models)
