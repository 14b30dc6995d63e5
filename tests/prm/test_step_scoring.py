"""Step probabilities do not depend on how solutions are batched, and what cannot be scored is named."""

from collections.abc import Callable
from dataclasses import replace

import polars as pl
import pytest
import torch

from cpmi_dagster.errors import ScoringError
from cpmi_dagster.prm.model import LoadedRewardModel, RewardModel, load_reward_model
from cpmi_dagster.prm.scoring import score_steps

pytestmark = pytest.mark.slow

BuildRewardModel = Callable[..., LoadedRewardModel]


@pytest.fixture(scope="module")
def reward_model(trained):
    """The toy's model."""
    return load_reward_model(trained.path)


@pytest.fixture(scope="module")
def solutions(build_examples):
    """Twelve solutions; one without steps, and one that comes twice."""
    rows = build_examples(10, seed=2).select(
        pl.lit("toy").alias("benchmark"), pl.col("trajectory_id").alias("problem_id"), "question", "steps"
    )
    empty = rows.head(1).with_columns(problem_id=pl.lit("empty"), steps=pl.lit([], dtype=pl.List(pl.String)))
    twin = rows.tail(1).with_columns(problem_id=pl.lit("twin"))
    return pl.concat([rows.head(4), empty, rows.slice(4), twin])


def test_there_is_a_row_per_step_in_the_order_given(reward_model, solutions):
    scored = score_steps(reward_model, solutions, batch_tokens=512)
    numbers = [list(range(len(steps))) for steps in solutions["steps"]]
    expected = solutions.select("problem_id", step_index=pl.Series(numbers)).explode("step_index").drop_nulls()
    assert scored.columns == ["benchmark", "problem_id", "step_index", "probability"]
    assert (scored.schema["step_index"], scored.schema["probability"]) == (pl.Int64, pl.Float64)
    assert scored.select("problem_id", "step_index").equals(expected)
    assert scored["probability"].is_between(0, 1).all()


def test_the_same_solution_gets_the_same_scores_and_progress_counts_every_row(reward_model, solutions):
    counts: list[int] = []
    scored = score_steps(reward_model, solutions, 256, progress=counts.append)
    twins = scored.filter(pl.col("problem_id").is_in(["twin", solutions["problem_id"][-2]]))
    assert twins["probability"].n_unique() == twins.height // 2
    assert sum(counts) == solutions.height


@pytest.mark.parametrize("every", [2, 5])
def test_a_solutions_scores_do_not_depend_on_the_others(reward_model, solutions, every):
    whole = score_steps(reward_model, solutions, 512)
    parts = [score_steps(reward_model, solutions[start::every], 512) for start in range(every)]
    both = whole.join(pl.concat(parts), on=["problem_id", "step_index"], suffix="_apart")
    assert both.height == whole.height
    assert (both["probability"] - both["probability_apart"]).abs().max() < 1e-6


def test_no_solutions_give_no_rows(reward_model, solutions):
    scored = score_steps(reward_model, solutions.clear(), 256)
    assert scored.schema == score_steps(reward_model, solutions, 256).schema
    assert scored.height == 0


def test_a_model_with_bos_scores_too(build_reward_model, solutions):
    scored = score_steps(build_reward_model("llama", bos=True), solutions, 256)
    assert scored["probability"].is_finite().all()


def test_a_solution_past_the_context_is_named(reward_model, solutions):
    endless = solutions[:1].with_columns(problem_id=pl.lit("endless"), steps=pl.lit(["so " * 200]))
    with pytest.raises(ScoringError, match=r"benchmark toy, problem_id endless has \d+ tokens, but toy_bce@"):
        score_steps(reward_model, pl.concat([solutions, endless]), 256)


def test_a_score_that_is_not_finite_is_named(reward_model, solutions):
    model = RewardModel(reward_model.model.config).eval()
    torch.nn.init.constant_(model.head.output.bias, float("nan"))
    with pytest.raises(ScoringError, match="problem_id t000000000, step_index 0 is not a finite number"):
        score_steps(replace(reward_model, model=model), solutions, 256)
