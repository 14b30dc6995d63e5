"""A small made-up world in the shapes of `tables.py`: a reward type's scores are as good as its `SHARPNESS`."""

import numpy as np
import polars as pl
import pytest

from cpmi_dagster.benchmarks.readers import CATEGORIES
from cpmi_dagster.benchmarks.registry import SUBSETS
from cpmi_dagster.contracts.tables import AnswerLogprobs
from cpmi_dagster.prm.settings import Objective, Recipe
from cpmi_dagster.reports.artifacts import ARTIFACTS, build_artifact
from cpmi_dagster.reports.figures import ReportInputs

SHARPNESS: dict[str, float] = {
    "mc": 0.8, "pav": 1.0, "cpmi": 1.4, "cpmi_merge1": 1.6, "rand_merge": 0.1, "gold_only": 0.3, "neg_only": 0.9,
}  # fmt: skip
OTHER_OBJECTIVES: list[tuple[str, Objective]] = [("mc", "mse"), ("cpmi", "mse"), ("mc", "pqm"), ("cpmi", "pqm")]
RECIPES = (
    *(Recipe(name=f"{reward}_bce", reward_type=reward) for reward in SHARPNESS),
    *(Recipe(name=f"{reward}_{how}", reward_type=reward, objective=how) for reward, how in OTHER_OBJECTIVES),
)
STEPS = 5
QUESTION_SETS = ("gsm8k", "math500", "mmlu_stem", "omni_math", "folio", "logiqa2", "logicnli")
RULE_LIFTS = {"mean": 0.1, "min": 0.08, "last": 0.05, "product": 0.08, "weighted_vote": 0.1, "majority": 0.0,
              "pass_at_n": 0.0, "pass_at_1": 0.0}  # fmt: skip
COSTS = {
    "mc": (1.0, 900), "pav": (1.3, 1900), "cpmi": (0.15, 20), "cpmi_merge1": (0.33, 200), "cpmi_merge2": (0.5, 380),
    "cpmi_merge3": (0.68, 560), "pav_merge1": (0.4, 420), "gold_only": (0.15, 0), "rand_merge": (0.2, 180),
}  # fmt: skip


@pytest.fixture(scope="session")
def inputs() -> ReportInputs:
    """Everything measured, as a full run would leave it."""
    rng = np.random.default_rng(7)
    problems = pl.concat([_processbench_problems(rng), _prmbench_problems(rng)], how="diagonal")
    predictions = _predictions(problems, rng)
    of_prmbench = pl.col("benchmark") == "prmbench"
    frames = {
        "sources/benchmark_problems": problems,
        "benchmarks/processbench_predictions": predictions.filter(~of_prmbench).drop("category"),
        "benchmarks/prmbench_predictions": predictions.filter(of_prmbench).drop("benchmark"),
        "benchmarks/best_of_n_choices": _choices(rng),
        "labels/labeling_costs": _costs(rng),
        "models/process_reward_models": _models(),
        **_labelled(rng),
    }
    return ReportInputs(frames, RECIPES, "miniature:labeler", bootstrap_samples=40, seed=0)


@pytest.fixture(scope="session")
def comparisons(inputs: ReportInputs) -> dict[str, pl.DataFrame]:
    """Every artifact built from the made-up world."""
    return {name: build_artifact(artifact, inputs, "miniature") for name, artifact in ARTIFACTS.items()}


def _processbench_problems(rng: np.random.Generator) -> pl.DataFrame:
    return pl.DataFrame([
        {"benchmark": benchmark, "problem_id": f"{benchmark}-{number}", "question": f"{benchmark} question {number}",
         "steps": ["step"] * STEPS, "first_error": int(rng.integers(STEPS)) if number % 2 else -1}
        for benchmark in SUBSETS for number in range(24)
    ])  # fmt: skip


def _prmbench_problems(rng: np.random.Generator) -> pl.DataFrame:
    rows = [
        {"benchmark": "prmbench", "problem_id": f"p{number}:{category.classification}", "question": f"q {number}",
         "steps": ["step"] * STEPS, "category": category.classification,
         "error_steps": [] if category.short_name == "MS" else [int(rng.integers(STEPS))]}
        for category in CATEGORIES for number in range(12)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema_overrides={"error_steps": pl.List(pl.Int64)})


def _predictions(problems: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Logistic scores around plus (right step) or minus (wrong step) the recipe's sharpness."""
    step, first = pl.col("step_index"), pl.col("first_error")
    wrong = step.is_in(pl.col("error_steps")).fill_null((first >= 0) & (step >= first))
    sharpness = _sharpness()
    steps = problems.join(pl.DataFrame({"step_index": range(STEPS)}), how="cross").join(sharpness, how="cross")
    logit = pl.when(wrong).then(-pl.col("sharp")).otherwise(pl.col("sharp")) + pl.Series(rng.normal(size=len(steps)))
    probability = (1 / (1 + (-logit).exp())).alias("probability")
    return steps.select("recipe", "benchmark", "category", "problem_id", "step_index", probability)


def _sharpness() -> pl.DataFrame:
    return pl.DataFrame([{"recipe": recipe.name, "sharp": SHARPNESS[recipe.reward_type]} for recipe in RECIPES])


def _choices(rng: np.random.Generator) -> pl.DataFrame:
    questions = pl.DataFrame({"benchmark": QUESTION_SETS}).join(
        pl.DataFrame({"problem_id": [str(number) for number in range(16)]}), how="cross"
    )
    questions = questions.with_columns(hardness=pl.Series(rng.random(len(questions))))
    rules = pl.DataFrame({"aggregation": list(RULE_LIFTS), "lift": list(RULE_LIFTS.values())})
    choices = questions.join(pl.DataFrame({"n": [1, 2, 4, 8]}), how="cross").join(rules, how="cross")
    right = pl.col("hardness") < 0.5 + pl.col("lift") * pl.col("sharp") * pl.col("n").log(2)
    return choices.join(_sharpness(), how="cross").with_columns(candidate=0, correct=right.cast(pl.Float64))


def _costs(rng: np.random.Generator) -> pl.DataFrame:
    return pl.DataFrame([
        {"shard": f"{shard:03d}", "method": method, "model": "miniature:labeler", "trajectories": 80,
         "wall_seconds": 80 * seconds * float(rng.uniform(0.9, 1.1)), "forward_tokens": 80 * (tokens * 2 + 4000),
         "generated_tokens": int(80 * tokens * rng.uniform(0.95, 1.05)), "processor_seconds": 90.0 * seconds}
        for shard in range(12) for method, (seconds, tokens) in COSTS.items()
    ])  # fmt: skip


def _models() -> pl.DataFrame:
    return pl.DataFrame([
        {"recipe": recipe.name, "reward_type": recipe.reward_type, "objective": recipe.objective, "training_curve": [
            {"step": step, "epoch": step / 40, "split": split, "loss": 0.7 / (1 + SHARPNESS[recipe.reward_type] * step)}
            for step in range(0, 161, 40) for split in ("train", "validation")
        ], "scores": [
            {"trajectory_id": f"t{number:09d}", "step_index": step, "probability": (number * 7 + step) % 10 / 10,
             "label": (number * 7 + step * 3) % 10 / 10, "held_out": number % 4 == 0}
            for number in range(80) for step in range(STEPS)
        ]}
        for recipe in RECIPES
    ])  # fmt: skip


def _scored(ids: list[str], truth: np.ndarray, rng: np.random.Generator) -> dict[str, pl.DataFrame]:
    """Log-probabilities of a gold answer and two negatives under two templates: right steps raise the gold answer."""
    rows = [
        (name, template, context, step, rank, min(-0.1, gold + float(rng.normal() - 6)), 5)
        for number, name in enumerate(ids)
        for template in range(2)
        for context, step in [("question", -1), *(("step", step) for step in range(STEPS))]
        for rank in range(3)
        for gold in [2.0 if step >= 0 and rank == 0 and truth[number, step] else 0.0]
    ]
    logprobs = AnswerLogprobs.cast(pl.DataFrame(rows, schema=AnswerLogprobs.column_names(), orient="row"))
    return {"labels/answer_logprobs": logprobs}


def _labelled(rng: np.random.Generator) -> dict[str, pl.DataFrame]:
    """80 trajectories of 5 steps: truth, noisy rewards of several types, and statistics."""
    truth = rng.random((80, STEPS)) > 0.4
    ids = [f"t{number:09d}" for number in range(80)]
    trajectories = pl.DataFrame({
        "trajectory_id": ids, "question_id": [f"q{number // 2}" for number in range(80)], "row_number": range(80),
        "source_id": [f"own-{number}" for number in range(80)],
        "steps": [["s"] * STEPS] * 80, "shepherd_labels": truth.tolist(), "question": ["q"] * 80,
        "gold_answer": ["1"] * 80, "final_answer": [str(int(right)) for right in truth[:, -1]],
    })  # fmt: skip
    rewards = [
        {"trajectory_id": ids[number], "step_index": step, "reward_type": reward_type,
         "reward": float(truth[number, step] * sharpness + rng.normal())}
        for reward_type, sharpness in {**SHARPNESS, "cpmi_m1": 1.2, "cpmi_m2": 1.3, "step_surprisal": 0.7}.items()
        for number in range(80) for step in range(STEPS)
    ]  # fmt: skip
    statistics = pl.DataFrame({
        "statistic": ["trajectories", "gsm8k_share", "mixed_share", "steps"], "actual": [80.0, 0.5, 0.6875, 400.0],
    })  # fmt: skip
    return {
        **_scored(ids, truth, rng),
        "alignment/trajectories": trajectories,
        "labels/step_rewards": pl.DataFrame(rewards),
        "sources/step_truth": pl.DataFrame({"row_number": range(80), "correct": truth.tolist()}),
        "dataset/dataset_statistics": statistics,
    }
