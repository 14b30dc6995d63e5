"""Candidate solutions of the policy, and step probabilities by reward models and judges."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from cpmi_dagster.assets.models import read_features
from cpmi_dagster.benchmarks import best_of_n
from cpmi_dagster.benchmarks.best_of_n import sample_candidates
from cpmi_dagster.benchmarks.predictions import external_predictions, read_prediction_lines
from cpmi_dagster.benchmarks.registry import PRMBENCH, STEP_BENCHMARKS, SUBSETS
from cpmi_dagster.benchmarks.settings import Judge
from cpmi_dagster.contracts.keys import (
    CANDIDATES,
    CHOICES,
    JUDGES,
    MODELS,
    PRMBENCH_PREDICTIONS,
    PROBLEMS,
    PROCESSBENCH,
)
from cpmi_dagster.contracts.tables import JudgePredictions
from cpmi_dagster.errors import BenchmarkError
from cpmi_dagster.models.model_files import check_trained
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.profiles.sources import DataSource
from cpmi_dagster.resources.answers.questions import STEPS_KEY, cached_step_values, step_values
from cpmi_dagster.resources.dag.stage import StageOutput, model_stage
from cpmi_dagster.resources.dag.stage_run import Home, StageRun

if TYPE_CHECKING:
    from cpmi_dagster.prm.model import LoadedRewardModel

SCORING_SETTINGS = ("benchmarks.prediction_batch_tokens",)


@model_stage(
    CANDIDATES,
    code_version="10",
    inputs=[PROBLEMS],
    depends_on=lambda key, benchmark, _: pl.col("benchmark") == benchmark,
    settings=["benchmarks.candidates", "benchmarks.sampling", "answers.identity", "answers.built_in"],
    summary=lambda home, _: _pass_at_1(home),
    models=["policy"],
    lineage={"correct": ["sources/benchmark_problems.answer"]},
)
def candidate_solutions(run: StageRun) -> StageOutput:
    """Samples candidates once for all recipes and all n."""
    settings = run.settings.benchmarks
    problems = run.read(PROBLEMS).filter(pl.col("benchmark") == run.partition)
    best_of_n.check_gold_answers(problems)
    engine = run.engine("policy", settings.sampling, settings.batch_sequences)
    advance, comparison = run.track(problems.height), run.settings.answers.comparison
    frame, _ = sample_candidates(
        problems, engine, settings.candidates, settings.sampling, run.settings.seed, advance, comparison
    )
    return StageOutput(frame, engine.identity, engine.spent)


def _pass_at_1(home: Home) -> dict[str, float]:
    """The share of right candidates by question set."""
    candidates = home.lake.read(CANDIDATES, columns=["benchmark", "correct"])
    shares = candidates.group_by("benchmark").agg(pl.col("correct").mean()).sort("benchmark")
    return {f"pass_at_1 {name}": share for name, share in shares.iter_rows()}


predicts = partial(
    model_stage,
    inputs=[PROBLEMS, MODELS],
    settings=SCORING_SETTINGS,
    lineage={"probability": ["models/process_reward_models.path", "sources/benchmark_problems.steps"]},
)


@predicts(PROCESSBENCH)
def processbench_predictions(run: StageRun) -> StageOutput:
    """Scores each step after the question and the steps before it."""
    problems = run.read(PROBLEMS).filter(pl.col("benchmark").is_in(SUBSETS))
    return _predictions(run, problems.select("benchmark", "problem_id", "question", "steps"))


@predicts(PRMBENCH_PREDICTIONS)
def prmbench_predictions(run: StageRun) -> StageOutput:
    """Scores each step as for ProcessBench."""
    problems = run.read(PROBLEMS).filter(pl.col("benchmark") == PRMBENCH)
    return _predictions(run, problems.select("category", "problem_id", "question", "steps"))


def _judge_files(settings: Settings) -> dict[str, DataSource]:
    """Files of judges by judge, number and benchmark: `Mine 0 prmbench`."""
    return {
        f"{name} {number} {file.benchmark or ''}": DataSource(path=file.path)
        for name, judge in settings.benchmarks.judges.items()
        for number, file in enumerate(judge.files)
    }


def _judge_models(settings: Settings) -> dict[str, LanguageModel]:
    """Models of judges by judge, form and benchmarks."""
    return {
        f"{name} {judge.form or 'model'} {','.join(judge.benchmarks)}": judge.weights
        for name, judge in settings.benchmarks.judges.items()
        if judge.weights
    }


@model_stage(
    JUDGES,
    code_version="3",
    inputs=[PROBLEMS],
    settings=SCORING_SETTINGS,
    named_models=_judge_models,
    sources=_judge_files,
    lineage={"probability": ["sources/benchmark_problems.steps"]},
)
def judge_predictions(run: StageRun) -> StageOutput:
    """Reads the files of judges, or scores the steps with their models."""
    judges = run.settings.benchmarks.judges
    problems = run.read(PROBLEMS).filter(pl.col("benchmark").is_in(STEP_BENCHMARKS))
    frames: list[pl.DataFrame] = [JudgePredictions.create_empty()]
    identities = []
    for name, judge in judges.items():
        if judge.weights:
            identity, scored = _judged_by_model(run, name, judge, problems)
            identities.append(identity)
        else:
            lines = [line for file in judge.files for line in read_prediction_lines(Path(file.path), file.benchmark)]
            scored = external_predictions(lines, problems)
        frames.append(scored.select(pl.lit(name).alias("judge"), pl.all()))
    return StageOutput(pl.concat(frames), model=", ".join(identities))


def _judged_by_model(run: StageRun, name: str, judge: Judge, problems: pl.DataFrame) -> tuple[str, pl.DataFrame]:
    """Identity of a judge's model, and its predictions for the problems of its benchmarks."""
    from cpmi_dagster.prm.published import load_prm
    from cpmi_dagster.prm.scoring import score_steps

    assert judge.weights
    if judge.benchmarks:
        problems = problems.filter(pl.col("benchmark").is_in(judge.benchmarks))
    if unknown := sorted(set(judge.benchmarks) - set(problems["benchmark"])):
        raise BenchmarkError(
            f"benchmarks.judges: `{name}` judges `{unknown[0]}`, of which there are no problems with steps; correct it"
        )
    weights, advance = run.models.pinned(judge.weights), run.track(problems.height, name)

    @cache
    def model() -> "LoadedRewardModel":
        return load_prm(weights.name, run.models.device_of(weights), weights.dtype, judge.form, weights.revision)

    def read(part: pl.DataFrame, advance: Callable[[int], None]) -> pl.DataFrame:
        return score_steps(model(), part, run.settings.benchmarks.prediction_batch_tokens, advance)

    answers = run.answer_cache(judge.weights, STEPS_KEY, step_values(pl.Float64()), {"form": judge.form})
    solutions = problems.select("benchmark", "problem_id", "question", "steps")
    scored = cached_step_values(
        answers, solutions, "probability", read, run.settings.scoring.chunk_trajectories, advance
    )
    return run.models.facts_of(judge.weights)[0], scored


@model_stage(
    CHOICES,
    code_version="7",
    inputs=[PROBLEMS, CANDIDATES, MODELS],
    settings=[*SCORING_SETTINGS, "benchmarks.best_of_n", "answers.identity"],
    lineage={"correct": ["benchmarks/candidate_solutions.correct"]},
)
def best_of_n_choices(run: StageRun) -> StageOutput:
    """Chooses by the mean step probability (the paper's rule) and by other rules, for n = 1, 2, 4, …"""
    candidates = run.read(CANDIDATES)
    questions = run.read(PROBLEMS, columns=["benchmark", "problem_id", "question"])
    solutions = candidates.select("benchmark", "problem_id", "candidate", "steps")
    solutions = solutions.join(questions, on=["benchmark", "problem_id"], maintain_order="left")
    probabilities = _scored(run, solutions)
    ns, comparison = best_of_n.powers_of_two(run.settings.benchmarks.candidates), run.settings.answers.comparison
    choices = best_of_n.choose(candidates, probabilities, ns, comparison)
    ties = {"tied_choices": best_of_n.ties(choices)}
    return StageOutput(choices.with_columns(recipe=pl.lit(run.partition)), model=_identity(run), metadata=ties)


def _predictions(run: StageRun, problems: pl.DataFrame) -> StageOutput:
    scored = _scored(run, problems)
    return StageOutput(scored.with_columns(recipe=pl.lit(run.partition)), model=_identity(run))


def _scored(run: StageRun, solutions: pl.DataFrame) -> pl.DataFrame:
    """The key columns of solutions, step_index and probability by the recipe's model."""
    from cpmi_dagster.prm.model import load_reward_head, load_reward_model
    from cpmi_dagster.prm.scoring import score_features, score_steps

    recipe, settings = str(run.partition), run.settings
    trained = run.read(MODELS).row(0, named=True)
    path, weights = run.lake.home / trained["path"], trained["weights_fingerprint"]
    check_trained(path, weights)
    if settings.recipe(recipe).trained_with(settings.training).backbone == "frozen":
        return score_features(load_reward_head(path), read_features(run, solutions, None, None))

    @cache
    def model() -> "LoadedRewardModel":
        return load_reward_model(path, device=run.models.device("backbone"))

    def read(part: pl.DataFrame, advance: Callable[[int], None]) -> pl.DataFrame:
        return score_steps(model(), part, settings.benchmarks.prediction_batch_tokens, advance)

    answers = run.answer_cache_of({"model": weights, "recipe": recipe}, STEPS_KEY, step_values(pl.Float64()))
    chunk, advance = settings.scoring.chunk_trajectories, run.track(solutions.height)
    return cached_step_values(answers, solutions, "probability", read, chunk, advance)


def _identity(run: StageRun) -> str:
    return f"{run.partition}@{run.read(MODELS)['weights_fingerprint'][0][:12]}"


STAGES = (
    candidate_solutions,
    processbench_predictions,
    prmbench_predictions,
    judge_predictions,
    best_of_n_choices,
)
