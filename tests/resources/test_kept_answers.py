"""Scores, refusals and step values are asked for once, whichever trajectory has the texts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from cpmi_dagster.contracts.tables import HardNegatives
from cpmi_dagster.models.language_models import LoadedModel, load_language_model
from cpmi_dagster.resources.lake import kept_answers as kept
from cpmi_dagster.resources.lake.calls import Calls
from cpmi_dagster.scoring.logprobs import ScoredAnswers, answer_logprobs
from cpmi_dagster.scoring.settings import Scoring

SCORING = Scoring(templates=1, conditionings=("marginal",))


@pytest.fixture(scope="module")
def labeler() -> LoadedModel:
    return load_language_model("miniature:labeler", dtype="float32", device="cpu")


def trajectories(*ids: str) -> pl.DataFrame:
    """Those whose names begin with `long` are more than any model reads."""
    questions = ["word " * 9_000 if name.startswith("long") else "How many are 2 and 3?" for name in ids]
    rows = pl.DataFrame({"trajectory_id": ids, "question": questions})
    return rows.with_columns(steps=pl.lit(["2 + 3 = 5", "So 5."]), gold_answer=pl.lit("5"))


def negatives(*ids: str) -> pl.DataFrame:
    rows = [(name, 1, "6", "model") for name in ids]
    return pl.DataFrame(rows, HardNegatives.create_empty().schema, orient="row")


def scored(folder: Path, model: LoadedModel | None, *ids: str, **scoring: Any) -> ScoredAnswers:
    """Scores of trajectories; without a model, what is kept is all that may be needed."""

    def load() -> LoadedModel:
        assert model is not None, "the model is asked again"
        return model

    scores = Calls(folder / "scores", {}, "1/000", kept.SCORE_KEY, kept.SCORE)
    admissions = Calls(folder / "admissions", {}, "1/000", kept.ADMISSION_KEY, kept.ADMISSION)
    chosen, texts = SCORING.model_copy(update=scoring), (trajectories(*ids), negatives(*ids))
    return kept.kept_scores(scores, admissions, load, *texts, chosen, True, False, lambda _: None)


@pytest.mark.slow
def test_scores_are_those_of_the_scorer_and_a_refusal_is_kept_with_its_reason(tmp_path, labeler):
    first = scored(tmp_path, labeler, "t1", "long1")
    whole = answer_logprobs(trajectories("t1", "long1"), negatives("t1", "long1"), labeler, SCORING)
    assert_frame_equal(first.logprobs, whole.logprobs, abs_tol=1e-4)
    assert first.rejected.equals(whole.rejected) and "`long1`" in first.rejected["reason"].item()
    # other trajectories with these texts are known, under their own names
    again = scored(tmp_path, None, "t8", "long9")
    assert again.logprobs["logprob_sum"].equals(first.logprobs["logprob_sum"])
    assert again.rejected["reason"].item() == first.rejected["reason"].item().replace("long1", "long9")
    assert again.cost == first.cost
    more = scored(tmp_path, labeler, "t1", templates=2)
    assert more.logprobs.filter(template=0).equals(first.logprobs)


def test_a_value_that_is_not_finite_is_refused_under_the_name_of_each_trajectory(tmp_path, labeler, monkeypatch):
    def of_broken_weights(*args: Any, **options: Any) -> ScoredAnswers:
        given = answer_logprobs(*args, **options)
        is_last = (pl.col("context") == "step") & (pl.col("step_index") == 1)
        value = pl.when(is_last).then(float("nan")).otherwise("logprob_sum")
        return replace(given, values=given.values.with_columns(logprob_sum=value))

    monkeypatch.setattr(kept, "answer_logprobs", of_broken_weights)
    for model, name in ((labeler, "t1"), (None, "t8")):
        given = scored(tmp_path, model, name)
        assert given.logprobs.is_empty()
        assert f"trajectory `{name}`: the log-probability of an answer is nan" in given.rejected["reason"].item()


def test_step_values_are_read_once_for_equal_solutions_and_come_in_order(tmp_path):
    read: list[str] = []

    def values(part: pl.DataFrame) -> pl.DataFrame:
        read.extend(part["question"])
        step_index = pl.int_range(pl.len()).over("id").alias("step_index")
        rows = part.explode("steps").drop_nulls("steps")
        return rows.select("id", step_index, score=pl.col("steps").str.len_chars().cast(pl.Float64))

    def scores(questions: str) -> list[tuple[str, int, float]]:
        steps = pl.Series([[] if name == "e" else [name, name * 2] for name in questions], dtype=pl.List(pl.String))
        frame = pl.DataFrame({"id": [*questions.upper()], "question": [*questions], "steps": steps})
        calls = Calls(tmp_path, {"head": "h@1"}, "all/all", kept.STEPS_KEY, kept.step_values(pl.Float64()))
        return kept.kept_steps(calls, frame, "score", values, 2).rows()

    assert scores("bab") == [(name, step, step + 1.0) for name in "BAB" for step in (0, 1)]
    assert scores("cea") == [(name, step, step + 1.0) for name in "CA" for step in (0, 1)]
    assert scores("e") == [] and sorted(read) == ["a", "b", "c", "e"]
