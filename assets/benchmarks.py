"""The policy's candidate solutions, hidden states of all solutions, and step probabilities by models and judges."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import dagster as dg
import polars as pl

from cpmi_dagster.assets.models import read_features
from cpmi_dagster.benchmarks import best_of_n
from cpmi_dagster.benchmarks.candidates import sample_candidates
from cpmi_dagster.benchmarks.judges import judge_predictions as predictions_of_judge
from cpmi_dagster.benchmarks.judges import read_judged_lines
from cpmi_dagster.benchmarks.processbench import judged_steps
from cpmi_dagster.benchmarks.registry import PRMBENCH, STEP_BENCHMARKS, SUBSETS
from cpmi_dagster.benchmarks.settings import Judge
from cpmi_dagster.contracts.keys import (
    CANDIDATE_FEATURES,
    CANDIDATES,
    CHOICES,
    JUDGES,
    MODELS,
    PRMBENCH_PREDICTIONS,
    PROBLEM_FEATURES,
    PROBLEMS,
    PROCESSBENCH,
)
from cpmi_dagster.contracts.tables import TABLES, JudgePredictions
from cpmi_dagster.errors import BenchmarkError
from cpmi_dagster.models.model_files import check_trained
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.profiles.sources import DataSource
from cpmi_dagster.resources.dag.stage import NO_HEAD_ALONE, model_stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.lake.parts import fact_of_judge
from cpmi_dagster.resources.workers.chunks import StageOutput

NO_QUESTION_SETS = "empty: benchmarks.best_of_n names no question set"
PROBLEM = ("benchmark", "category", "problem_id")
SCORING_SETTINGS = ("benchmarks.prediction_batch_tokens",)


@model_stage(
    CANDIDATES,
    code_version="6",
    inputs=[PROBLEMS],
    settings=["benchmarks.candidates", "benchmarks.sampling", "answers.identity"],
    models=["policy"],
    lineage={"correct": ["sources/benchmark_problems.answer"]},
)
def candidate_solutions(run: StageRun, benchmark: str) -> StageOutput:
    """N solutions of every problem of a question set, sampled once for all N and all recipes."""
    settings = run.settings.benchmarks
    problems = run.read(PROBLEMS).filter(pl.col("benchmark") == benchmark)
    best_of_n.check_gold_answers(problems)
    engine = run.models.engine("policy", settings.batch_sequences)
    advance = run.track(benchmark, problems.height)
    comparison = run.settings.answers.comparison
    frame, cost = sample_candidates(
        problems, engine, settings.candidates, settings.sampling, run.settings.seed, advance, comparison
    )
    pass_at_1 = int(frame["correct"].sum()) / max(frame.height, 1)
    return StageOutput(frame, model=engine.identity, cost=cost, metadata={"pass_at_1": pass_at_1})


@model_stage(
    PROBLEM_FEATURES,
    inputs=[PROBLEMS],
    settings=["reads_features"],
    models=["backbone"],
    lineage={"feature": ["sources/benchmark_problems.question", "sources/benchmark_problems.steps"]},
)
def problem_features(run: StageRun) -> StageOutput:
    """The frozen backbone's hidden state at the end of every ProcessBench and PRMBench step."""
    problems = run.read(PROBLEMS).filter(pl.col("steps").is_not_null())
    return _features(run, PROBLEM_FEATURES, "steps", problems.select(*PROBLEM, "question", "steps"))


@model_stage(
    CANDIDATE_FEATURES,
    inputs=[PROBLEMS, CANDIDATES],
    settings=["reads_features"],
    models=["backbone"],
    lineage={"feature": ["sources/benchmark_problems.question", "benchmarks/candidate_solutions.steps"]},
)
def candidate_features(run: StageRun, benchmark: str) -> StageOutput:
    """The frozen backbone's hidden state at the end of every step of the candidates."""
    return _features(run, CANDIDATE_FEATURES, benchmark, _candidates(run, benchmark))


def _features(run: StageRun, key: str, name: str, solutions: pl.DataFrame) -> StageOutput:
    if not run.settings.reads_features:
        return StageOutput(TABLES[key].schema.create_empty(), notes=[NO_HEAD_ALONE])
    read = partial(read_features, run, None)
    return run.in_chunks(name, solutions, run.settings.scoring.chunk_trajectories, read)


def _candidates(run: StageRun, benchmark: str | None = None) -> pl.DataFrame:
    """The candidates' key columns, questions and steps."""
    questions = run.read(PROBLEMS, columns=["benchmark", "problem_id", "question"])
    candidates = run.read(CANDIDATES, benchmark).select("benchmark", "problem_id", "candidate", "steps")
    return candidates.join(questions, on=["benchmark", "problem_id"], maintain_order="left")


predicts = partial(
    model_stage,
    inputs=[PROBLEMS, PROBLEM_FEATURES, MODELS],
    settings=SCORING_SETTINGS,
    lineage={"probability": ["models/process_reward_models.path", "sources/benchmark_problems.steps"]},
    eager=True,
)


@predicts(PROCESSBENCH)
def processbench_predictions(run: StageRun, recipe: str) -> StageOutput:
    """Probability that each ProcessBench step is right."""
    from cpmi_dagster.reports.figure_style import to_markdown
    from cpmi_dagster.reports.plots import draw_calibration

    problems = run.read(PROBLEMS).filter(pl.col("benchmark").is_in(SUBSETS))
    made = _predictions(run, recipe, problems.select("benchmark", "problem_id", "question", "steps"), PROBLEM_FEATURES)
    steps = judged_steps(made.frame(PROCESSBENCH), problems)
    shown = {"calibration": dg.MetadataValue.md(to_markdown(draw_calibration(steps)))} if steps.height else {}
    return replace(made, metadata=shown)


@predicts(PRMBENCH_PREDICTIONS)
def prmbench_predictions(run: StageRun, recipe: str) -> StageOutput:
    """The probability that each PRMBench step is valid."""
    problems = run.read(PROBLEMS).filter(pl.col("benchmark") == PRMBENCH)
    return _predictions(run, recipe, problems.select("category", "problem_id", "question", "steps"), PROBLEM_FEATURES)


def _judge_files(settings: Settings) -> dict[str, DataSource]:
    """Every file of every judge, by what it is read as."""
    return {
        fact_of_judge(name, number, file.benchmark): DataSource(path=file.path)
        for name, judge in settings.benchmarks.judges.items()
        for number, file in enumerate(judge.files)
    }


def _judge_models(settings: Settings) -> dict[str, LanguageModel]:
    """Every judge's model, by what it is read as and judges."""
    return {
        fact_of_judge(name, judge.form or "model", ",".join(judge.benchmarks)): judge.weights
        for name, judge in settings.benchmarks.judges.items()
        if judge.weights
    }


@model_stage(
    JUDGES,
    code_version="2",
    inputs=[PROBLEMS],
    settings=SCORING_SETTINGS,
    named_models=_judge_models,
    sources=_judge_files,
    lineage={"probability": ["sources/benchmark_problems.steps"]},
    eager=True,
)
def judge_predictions(run: StageRun) -> StageOutput:
    """Step probabilities of external judges, from their files or models; empty unless the profile names one."""
    judges = {name: own for name, own in run.settings.benchmarks.judges.items() if f"judge {name}" in run.parts}
    problems = run.read(PROBLEMS).filter(pl.col("benchmark").is_in(STEP_BENCHMARKS)) if judges else pl.DataFrame()
    frames: list[pl.DataFrame] = [JudgePredictions.create_empty()]
    identities = []
    for name, judge in judges.items():
        if judge.weights:
            identity, said = _judged_by_model(run, name, judge, problems)
            identities.append(identity)
        else:
            lines = [line for file in judge.files for line in read_judged_lines(Path(file.path), file.benchmark)]
            said = predictions_of_judge(lines, problems)
        frames.append(said.select(pl.lit(name).alias("judge"), pl.all()))
    return StageOutput(pl.concat(frames), model=", ".join(identities))


def _judged_by_model(run: StageRun, name: str, judge: Judge, problems: pl.DataFrame) -> tuple[str, pl.DataFrame]:
    """The identity of a judge's model, and what it says of the problems of its benchmarks."""
    from cpmi_dagster.prm.judge_models import load_judge
    from cpmi_dagster.prm.scoring import score_steps

    assert judge.weights
    if judge.benchmarks:
        problems = problems.filter(pl.col("benchmark").is_in(judge.benchmarks))
    if unknown := sorted(set(judge.benchmarks) - set(problems["benchmark"])):
        raise BenchmarkError(
            f"benchmarks.judges: `{name}` judges `{unknown[0]}`, of which there are no problems with steps; correct it"
        )
    weights, advance = run.models.pinned(judge.weights), run.track(name, problems.height)
    model = load_judge(weights.name, run.models.device_of(weights), weights.dtype, judge.form, weights.revision)
    solutions = problems.select("benchmark", "problem_id", "question", "steps")
    scored = score_steps(model, solutions, run.settings.benchmarks.prediction_batch_tokens, progress=advance)
    return model.identity, scored.drop("question", "steps", strict=False)


@model_stage(
    CHOICES,
    code_version="5",
    inputs=[PROBLEMS, CANDIDATES, CANDIDATE_FEATURES, MODELS],
    settings=[*SCORING_SETTINGS, "benchmarks.best_of_n", "answers.identity"],
    lineage={"correct": ["benchmarks/candidate_solutions.correct"]},
    eager=True,
)
def best_of_n_choices(run: StageRun, recipe: str) -> StageOutput:
    """The candidate with the highest mean step probability among the first N, and what other rules would choose."""
    if not run.settings.benchmarks.best_of_n:
        return StageOutput(TABLES[CHOICES].schema.create_empty(), notes=[NO_QUESTION_SETS])
    candidates = run.read(CANDIDATES)
    probabilities = _scored(run, recipe, _candidates(run), CANDIDATE_FEATURES)
    ns, comparison = best_of_n.powers_of_two(run.settings.benchmarks.candidates), run.settings.answers.comparison
    choices = best_of_n.choose(candidates, probabilities, ns, comparison)
    ties = {"tied_choices": best_of_n.ties(choices)}
    return StageOutput(choices.with_columns(recipe=pl.lit(recipe)), model=_identity(run, recipe), metadata=ties)


def _predictions(run: StageRun, recipe: str, problems: pl.DataFrame, features: str) -> StageOutput:
    scored = _scored(run, recipe, problems, features)
    return StageOutput(scored.with_columns(recipe=pl.lit(recipe)), model=_identity(run, recipe))


def _scored(run: StageRun, recipe: str, solutions: pl.DataFrame, features: str) -> pl.DataFrame:
    """The solutions' key columns with step_index and probability, by the recipe's model.

    Args:
        features: the table with their hidden states, which the head of a frozen backbone reads.
    """
    from cpmi_dagster.prm.features import check_read, load_reward_head, score_features
    from cpmi_dagster.prm.model import load_reward_model
    from cpmi_dagster.prm.scoring import score_steps

    advance = run.track(recipe, solutions.height)
    trained = run.read(MODELS, recipe).row(0, named=True)
    path = run.lake.home / trained["path"]
    check_trained(path, trained["weights_fingerprint"])
    if run.settings.recipe(recipe).trained_with(run.settings.training).backbone == "frozen":
        own = [name for name in solutions.columns if name not in ("question", "steps")]
        states = run.read(features).join(solutions, on=own, how="semi", nulls_equal=True)
        check_read(solutions, states, own, features)
        advance(solutions.height)
        return score_features(load_reward_head(path), states.select(*own, "step_index", "feature"))
    model = load_reward_model(path, device=run.models.device("backbone"))
    scored = score_steps(model, solutions, run.settings.benchmarks.prediction_batch_tokens, progress=advance)
    return scored.drop("question", "steps", strict=False)


def _identity(run: StageRun, recipe: str) -> str:
    return f"{recipe}@{run.read(MODELS, recipe)['weights_fingerprint'][0][:12]}"


STAGES = (
    candidate_solutions,
    problem_features,
    candidate_features,
    processbench_predictions,
    prmbench_predictions,
    judge_predictions,
    best_of_n_choices,
)
