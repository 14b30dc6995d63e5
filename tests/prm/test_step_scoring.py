"""Step probabilities do not depend on how solutions are batched, and what cannot be scored is named."""

from collections.abc import Callable
from dataclasses import replace

import polars as pl
import pytest
import torch

from cpmi_dagster.errors import ScoringError
from cpmi_dagster.prm.model import LoadedRewardModel, RewardModel, load_reward_model
from cpmi_dagster.prm.scoring import score_steps
from cpmi_dagster.prm.training import TrainedModel

pytestmark = pytest.mark.slow

BuildRewardModel = Callable[..., LoadedRewardModel]


@pytest.fixture(scope="module")
def reward_model(trained: TrainedModel) -> LoadedRewardModel:
    """The toy's model."""
    return load_reward_model(trained.path)


@pytest.fixture(scope="module")
def solutions(build_examples: Callable[..., pl.DataFrame]) -> pl.DataFrame:
    """Twelve solutions; one without steps, and one that comes twice."""
    rows = build_examples(10, seed=2).select(
        pl.lit("toy").alias("benchmark"), pl.col("trajectory_id").alias("problem_id"), "question", "steps"
    )
    empty = rows.head(1).with_columns(problem_id=pl.lit("empty"), steps=pl.lit([], dtype=pl.List(pl.String)))
    twin = rows.tail(1).with_columns(problem_id=pl.lit("twin"))
    return pl.concat([rows.head(4), empty, rows.slice(4), twin])


def test_there_is_a_row_per_step_in_the_order_given(reward_model: LoadedRewardModel, solutions: pl.DataFrame) -> None:
    scored = score_steps(reward_model, solutions, batch_tokens=512)
    expected = [
        (row["problem_id"], index) for row in solutions.iter_rows(named=True) for index in range(len(row["steps"]))
    ]
    assert scored.columns == ["benchmark", "problem_id", "step_index", "probability"]
    assert scored.schema["step_index"] == pl.Int64
    assert scored.schema["probability"] == pl.Float64
    assert scored.select("problem_id", "step_index").rows() == expected
    assert scored["probability"].is_between(0, 1).all()


@pytest.mark.parametrize("batch_tokens", [1, 200, 100_000])
def test_scores_do_not_depend_on_the_batches(
    reward_model: LoadedRewardModel, solutions: pl.DataFrame, batch_tokens: int
) -> None:
    alone = pl.concat([score_steps(reward_model, solutions[index], 1) for index in range(solutions.height)])
    together = score_steps(reward_model, solutions, batch_tokens)
    assert (alone["probability"] - together["probability"]).abs().max() < 1e-5  # pyright: ignore[reportOperatorIssue]


def test_scores_of_a_step_do_not_depend_on_later_steps(
    reward_model: LoadedRewardModel, solutions: pl.DataFrame
) -> None:
    whole = score_steps(reward_model, solutions, 4096)
    first = score_steps(reward_model, solutions.with_columns(pl.col("steps").list.head(1)), 4096)
    difference = whole.filter(step_index=0)["probability"] - first["probability"]
    assert difference.abs().max() < 1e-5  # pyright: ignore[reportOperatorIssue]


def test_the_same_solution_gets_the_same_scores_and_progress_counts_every_row(
    reward_model: LoadedRewardModel, solutions: pl.DataFrame
) -> None:
    counts: list[int] = []
    scored = score_steps(reward_model, solutions, 256, progress=counts.append)
    twins = scored.filter(pl.col("problem_id").is_in(["twin", solutions["problem_id"][-2]]))
    assert twins["probability"].n_unique() == twins.height // 2
    assert sum(counts) == solutions.height


def test_no_solutions_give_no_rows(reward_model: LoadedRewardModel, solutions: pl.DataFrame) -> None:
    scored = score_steps(reward_model, solutions.clear(), 256)
    assert scored.schema == score_steps(reward_model, solutions, 256).schema
    assert scored.height == 0


def test_a_model_with_bos_scores_too(build_reward_model: BuildRewardModel, solutions: pl.DataFrame) -> None:
    scored = score_steps(build_reward_model("llama", bos=True), solutions, 256)
    assert scored["probability"].is_finite().all()


def test_a_solution_past_the_context_is_named(reward_model: LoadedRewardModel, solutions: pl.DataFrame) -> None:
    endless = solutions[:1].with_columns(problem_id=pl.lit("endless"), steps=pl.lit(["so " * 200]))
    with pytest.raises(ScoringError, match=r"benchmark toy, problem_id endless has \d+ tokens, but toy_bce@"):
        score_steps(reward_model, pl.concat([solutions, endless]), 256)


def test_a_score_that_is_not_finite_is_named(reward_model: LoadedRewardModel, solutions: pl.DataFrame) -> None:
    model = RewardModel(reward_model.model.config).eval()
    torch.nn.init.constant_(model.head.output.bias, float("nan"))
    with pytest.raises(ScoringError, match="problem_id t000000000, step_index 0 is not a finite number"):
        score_steps(replace(reward_model, model=model), solutions, 256)
