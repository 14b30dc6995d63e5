"""What the shipped backbone makes of the demo's trajectories: the facts that make the demo's reward models tell.

A head on the frozen backbone learns from labels of the world's Math-Shepherd trajectories and is judged on its
ProcessBench, whose official F1 takes the threshold from GSM8K. Chance is uniform random scores.
"""

from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import roc_auc_score

from cpmi_dagster.benchmarks.processbench import judged_steps, processbench_average, processbench_chance
from cpmi_dagster.benchmarks.registry import AVERAGED_BENCHMARKS
from cpmi_dagster.miniature.names import MODEL_FOLDERS
from cpmi_dagster.miniature.world import world_rows
from cpmi_dagster.models.language_models import load_language_model
from cpmi_dagster.prm.features import load_reward_head, score_features, step_features
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.prm.training import train_reward_model
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.scoring.reference import token_logprobs
from cpmi_dagster.trajectories.math_shepherd import parse_row
from cpmi_dagster.trajectories.templates import render_question, render_step

pytestmark = pytest.mark.slow

TRAJECTORIES = 480
SAMPLES = 500


@pytest.fixture(scope="module")
def rows():
    return world_rows()


@pytest.fixture(scope="module")
def trajectories(rows) -> pl.DataFrame:
    """Those that a demo might select, with the truth about each step."""
    entries = []
    for truth in rows["step_truth"]:
        row = rows["math_shepherd"][truth["row_number"]]
        one = parse_row(row["input"], row["label"])
        entries.append((f"t{truth['row_number']:06d}", one.question, list(one.steps), truth["correct"]))
    columns = ["trajectory_id", "question", "steps", "correct"]
    every = pl.DataFrame(entries, schema=columns, orient="row").with_columns(question_id="question")
    return every.sample(TRAJECTORIES, seed=0, shuffle=True)


@pytest.fixture(scope="module")
def problems(rows) -> pl.DataFrame:
    """ProcessBench in the columns of `sources/benchmark_problems`."""
    entries = [
        (subset, row["id"], row["problem"], row["steps"], row["label"])
        for subset in AVERAGED_BENCHMARKS
        for row in rows[subset]
    ]
    columns = ["benchmark", "problem_id", "question", "steps", "first_error"]
    return pl.DataFrame(entries, schema=columns, orient="row")


@pytest.fixture(scope="module")
def predict(trajectories, problems, tmp_path_factory) -> Callable[[pl.Series], pl.DataFrame]:
    """Step probabilities on ProcessBench by a head that was trained on some labels of the trajectories' steps."""
    settings = load_settings("miniature")
    model = load_language_model("miniature:backbone", dtype="float32", device="cpu")
    learned, judged = (
        step_features(model, frame.select(*keys, "question", "steps"), 8192)
        for frame, keys in ((trajectories, ["trajectory_id"]), (problems, ["benchmark", "problem_id"]))
    )

    def predictions(labels: pl.Series) -> pl.DataFrame:
        folder = Path(tmp_path_factory.mktemp("model")) / "model"
        train_reward_model(
            trajectories.with_columns(labels=labels).drop("correct"),
            Recipe(name="some_bce", reward_type="mc"),
            settings.training,
            str(MODEL_FOLDERS["backbone"]),
            folder,
            seed=0,
            features=learned,
        )
        return score_features(load_reward_head(folder), judged)

    return predictions


@pytest.fixture(scope="module")
def by_truth(predict, trajectories):
    return predict(trajectories["correct"].cast(pl.List(pl.Float64)))


def f1(predictions: pl.DataFrame, problems: pl.DataFrame):
    return processbench_average(predictions, problems, "official", SAMPLES, 0)


def step_auc(predictions: pl.DataFrame, problems: pl.DataFrame) -> float:
    steps = judged_steps(predictions, problems)
    return float(roc_auc_score(steps["is_right"], steps["probability"]))


def uniform_labels(trajectories: pl.DataFrame, seed: int) -> pl.Series:
    rng = np.random.default_rng(seed)
    return pl.Series([rng.uniform(size=len(steps)).tolist() for steps in trajectories["steps"]])


def test_a_head_on_true_labels_finds_first_errors(by_truth, problems):
    assert step_auc(by_truth, problems) >= 0.85
    assert 100 * f1(by_truth, problems).value >= 50


def test_a_head_on_uniform_labels_is_at_chance(predict, trajectories, problems):
    chance = processbench_chance(problems, "official", 0).filter(subset="average")["f1"].item()
    intervals = [f1(predict(uniform_labels(trajectories, seed)), problems).estimate() for seed in range(3)]
    # a draw may be unlucky: three of them are not all
    assert sum(one.low <= chance <= one.high for one in intervals) >= 2
    assert all(one.low <= chance for one in intervals)


def test_a_head_on_surprisal_stays_below_one_on_true_labels(by_truth, predict, trajectories, problems):
    reader = load_language_model("miniature:labeler", dtype="float32", device="cpu")
    by_surprisal = predict(surprisal_labels(trajectories, reader))
    difference = f1(by_truth, problems).minus(f1(by_surprisal, problems))
    assert difference.low > 0


def surprisal_labels(trajectories, reader) -> pl.Series:
    """Soft labels (Eq. 7) of the mean log-probability of each step's tokens under the labeler."""
    rewards = []
    for question, steps in trajectories.select("question", "steps").iter_rows():
        prompt, *ids = reader.tokenizer([render_question(question), *map(render_step, steps)])["input_ids"]
        values = token_logprobs(reader, tuple(prompt), list(chain(*ids)))
        ends = np.cumsum([0, *map(len, ids)])
        rewards.append([float(values[start:end].mean()) for start, end in pairwise(ends)])
    every = np.concatenate(rewards)
    median = np.median(every)
    spread = np.median(abs(every - median))
    return pl.Series([[float(1 / (1 + np.exp((median - value) / spread))) for value in own] for own in rewards])
