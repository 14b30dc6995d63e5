"""Answers the questions of docs/evidence.md from finished homes: the ladder of labelers, and heads on their labels.

    python -m scripts.evidence .cpmi/evidence human-steps human-steps-0.5b human-steps-1.5b

    label (human-steps-1.5b)    AUC                 Without last steps  First wrong step found
    CPMI (incremental)          0.66 [0.58, 0.75]   0.64 [0.57, 0.73]   0.33 [0.22, 0.46]

    question                                        Ours   Other   Difference           p       p (Holm)
    (a) CPMI (incremental), best free label         0.64   0.83    -0.19 [-0.22, -0.15]  0.002

Rungs go from the smallest labeler to the largest; (a), (b) and (d) are about the last. Homes may label different
solutions: a difference is over the steps that both label. For (f), reward models on labels of the last rung,

    python -m scripts.evidence .cpmi/evidence human-steps-1.5b --solutions example_model_solutions.jsonl.gz
    CPMI_HOME=.cpmi/evidence/heads/home cpmi run -p .cpmi/evidence/heads/heads.yaml

label 400 solutions that come with GSM8K (grade_school_math/data in openai/grade-school-math), each of another question
and none of ProcessBench's. `--heads heads-mc --count 150 --labels mc right_so_far final_answer uniform` asks for fewer
solutions and other labels, in a folder beside it. A table of the heads of each folder `heads*` with a finished home
follows those of the ladder.
"""

import argparse
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import yaml
from rich.console import Console
from rich.table import Table

from cpmi_dagster.alignment import align_questions
from cpmi_dagster.benchmarks.label_quality import (
    IS_LAST,
    common_steps,
    first_errors_found,
    label_aucs,
)
from cpmi_dagster.benchmarks.metrics import bootstrap_auc
from cpmi_dagster.benchmarks.predictions import with_probabilities
from cpmi_dagster.benchmarks.processbench import read_solutions
from cpmi_dagster.benchmarks.resampling import Estimate, Resampled, holm, shown
from cpmi_dagster.contracts.keys import PROBLEMS, PROCESSBENCH, STEP_REWARDS, TRAJECTORIES, TRUTH
from cpmi_dagster.files.bounded_reading import open_text
from cpmi_dagster.files.whole_files import write_whole
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.reports.best_label import FREE_LABELS, Folds, best_free
from cpmi_dagster.reports.figures import ReportInputs
from cpmi_dagster.reports.labels import in_order, steps_with_truth
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.rewards.registry import reward_label
from scripts.label_regression import regression_auc, steps_with_labels

OURS = ("cpmi_incremental", "cpmi")
SURPRISAL, ROLLOUTS, FLOOR, TO_BEAT = "step_surprisal", "mc", "uniform", "final_answer"
FITTED = "right_so_far"
LOOKED_AT = ("first_error", "step_length", *OURS)
HEADS = (*OURS, FITTED, SURPRISAL, TO_BEAT, "final_answer_position", "step_length", FLOOR)
AUTHORS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
CALCULATOR, ANSWER = re.compile(r"<<[^>]*>>"), "A: "
SOLUTIONS, SEED = 400, 0


class Rung(NamedTuple):
    """A finished home: the name of its profile, the inputs of its figures, and its judged steps."""

    name: str
    inputs: ReportInputs
    steps: pl.DataFrame

    @property
    def inner(self) -> pl.DataFrame:
        """The judged steps without last ones."""
        return self.steps.filter(~IS_LAST)


class Answer(NamedTuple):
    """A question, both figures and their difference."""

    question: str
    ours: Resampled
    other: Resampled

    @property
    def difference(self) -> Estimate:
        """Ours minus the other, paired."""
        return self.ours.minus(self.other)


def rung_of(settings: Settings) -> Rung:
    """Reads a finished home."""
    lake = Lake.of(settings)
    frames = {key: lake.read(key) for key in (STEP_REWARDS, TRAJECTORIES, TRUTH)}
    inputs = ReportInputs(frames, bootstrap_samples=settings.benchmarks.bootstrap_samples, seed=settings.seed)
    return Rung(settings.profile, inputs, steps_with_truth(inputs))


def answers(rungs: Sequence[Rung]) -> Iterator[Answer]:
    """The questions of docs/evidence.md, the primary one first; those whose labels a home lacks are left out."""
    largest, draws = rungs[-1], rungs[-1].inputs.draws
    inner, present = largest.inner, set(largest.steps["reward_type"])
    ours = [name for name in OURS if name in present]
    for name in ours:
        yield from beside_free(f"(a) {reward_label(name)}, best free label", Folds.of(inner, label_aucs, *draws), name)
    for name in ours:
        yield from paired(f"(a) {reward_label(name)}, step surprisal", inner, inner, (name, SURPRISAL), draws)
    for name in ours:
        question = f"(a) First wrong step found by {reward_label(name)}, by the best free label"
        yield from beside_free(question, Folds.of(largest.steps, first_errors_found, *draws), name)
    base = [*({SURPRISAL} & present), *filter(None, [best_free(label_aucs(inner, *draws))])]
    labelled = steps_with_labels(inner, [*base, *ours])
    for name in ours:
        without, with_it = (regression_auc(labelled, names, *draws) for names in (base, [*base, name]))
        if without and with_it:
            yield Answer(f"(b) {reward_label(name)} added to {' + '.join(map(reward_label, base))}", with_it, without)
    last = len(rungs) - 1
    for smaller, larger in dict.fromkeys(((0, last), (last - 1, last), (0, last - 1))):
        if 0 <= smaller < larger:
            upper, lower = rungs[larger], rungs[smaller]
            yield from paired(f"(c) {upper.name}, {lower.name}", upper.inner, lower.inner, (OURS[0], OURS[0]), draws)
    for name in ours:
        question = f"(d) {reward_label(name)}, MC, all steps"
        yield from paired(question, largest.steps, largest.steps, (name, ROLLOUTS), draws)
    for name in LOOKED_AT:
        question = f"(d) First wrong step found by {reward_label(name)}, by MC"
        yield from paired(question, largest.steps, largest.steps, (name, ROLLOUTS), draws, first_errors_found)


def beside_free(question: str, folds: Folds, name: str) -> Iterator[Answer]:
    """A label beside the best one that costs nothing, which is chosen on other questions."""
    if both := folds.compare([name], FREE_LABELS):
        yield Answer(question, *both)


def paired(
    question: str,
    ours: pl.DataFrame,
    other: pl.DataFrame,
    names: tuple[str, str],
    draws: tuple[int, int],
    measured: Callable[[pl.DataFrame, int, int], dict[str, Resampled]] = label_aucs,
) -> Iterator[Answer]:
    """AUCs, or another figure, of a reward type in each of two homes, over steps that both label, if there are any."""
    named = [
        steps.filter(reward_type=name).with_columns(reward_type=pl.lit(side))
        for steps, name, side in zip((ours, other), names, ("ours", "other"), strict=True)
    ]
    figures = measured(common_steps(pl.concat(named, how="diagonal"), "ours", "other"), *draws)
    if len(figures) == 2:
        yield Answer(question, figures["ours"], figures["other"])


def label_table(rung: Rung) -> Table:
    """Every label of a home: AUC, the same without last steps, first wrong steps found."""
    table = Table(title=f"{rung.name}: {rung.steps['trajectory_id'].n_unique():,} solutions")
    for column in ("label", "AUC", "Without last steps", "First wrong step found"):
        table.add_column(column)
    aucs = (label_aucs(steps, *rung.inputs.draws) for steps in (rung.steps, rung.inner))
    measured = (*aucs, first_errors_found(rung.steps, *rung.inputs.draws))
    for name in in_order(measured[0]):
        table.add_row(reward_label(name), *(shown(each[name].estimate()) if name in each else "" for each in measured))
    return table


def answer_table(answers: Sequence[Answer]) -> Table:
    """Differences with p-values, and with Holm's for all but the first."""
    table = Table(title="Questions of docs/evidence.md")
    for column in ("question", "ours", "other", "difference", "p", "p (Holm)", "n"):
        table.add_column(column)
    differences = [each.difference for each in answers]
    adjusted = ["", *(f"{value:.3f}" for value in holm([each.p_value for each in differences[1:]]))]
    for each, difference, holms in zip(answers, differences, adjusted, strict=True):
        cells = (f"{each.ours.value:.3f}", f"{each.other.value:.3f}", shown(difference), f"{difference.p_value:.3f}")
        table.add_row(each.question, *cells, holms, f"{difference.n:,}")
    return table


class HeadFigures(NamedTuple):
    """A reward model on ProcessBench.

    Attributes:
        f1: cross-fitted, by benchmark, as a share.
        auc: of step scores up to the first error.
        inner: the same without last steps.
    """

    f1: dict[str, Resampled]
    auc: Resampled
    inner: Resampled


def figures_of_head(predictions: pl.DataFrame, problems: pl.DataFrame, samples: int, seed: int) -> HeadFigures:
    """The figures of one reward model.

    Args:
        predictions: `ProcessBenchPredictions` columns of one recipe.
        problems: `BenchmarkProblems` rows.
    """
    judged, f1 = with_probabilities(predictions, problems), {}
    for (name,), rows in judged.group_by("benchmark", maintain_order=True):
        solutions = read_solutions(rows, samples, seed)
        f1[str(name)] = solutions.cross_fitted_scores(seed).resampled("f1")
    keys, last = ["benchmark", "problem_id"], pl.col("steps").list.len() - 1
    steps = predictions.join(problems.select(*keys, "question", "first_error", last=last), on=keys)
    steps = steps.filter((pl.col("first_error") < 0) | (pl.col("step_index") <= pl.col("first_error")))
    steps = steps.with_columns(is_right=pl.col("step_index") != pl.col("first_error"))

    def auc(part: pl.DataFrame) -> Resampled:
        scores, correct, questions = (part[of].to_numpy() for of in ("probability", "is_right", "question"))
        return bootstrap_auc(scores, correct, questions, samples, seed)

    return HeadFigures(f1, auc(steps), auc(steps.filter(pl.col("step_index") < pl.col("last"))))


def heads_of(settings: Settings) -> dict[str, HeadFigures]:
    """The figures of a finished home's reward models, by the label that each learned."""
    lake, draws = Lake.of(settings), (settings.benchmarks.bootstrap_samples, settings.seed)
    predictions, problems = lake.read(PROCESSBENCH), lake.read(PROBLEMS)
    of = {recipe.reward_type: predictions.filter(recipe=recipe.name) for recipe in settings.recipes}
    return {label: figures_of_head(rows, problems, *draws) for label, rows in of.items()}


def heads_answers(heads: Mapping[str, HeadFigures]) -> Iterator[Answer]:
    """Question (f): reward models on our labels against those on uniform labels, final answers and rollouts."""
    for other in (FLOOR, TO_BEAT, ROLLOUTS):
        for name in (*OURS, FITTED):
            if name in heads and other in heads:
                question = f"(f) head on {reward_label(name)}, on {reward_label(other)}"
                yield Answer(question, heads[name].auc, heads[other].auc)


def heads_table(folder: str, heads: Mapping[str, HeadFigures]) -> Table:
    """A row for each reward model."""
    table, names = Table(title=folder), list(next(iter(heads.values())).f1)
    for column in ("reward model on", *(f"{name} F1" for name in names), "AUC", "without last steps"):
        table.add_column(column)
    for label, head in heads.items():
        figures = (*(head.f1[name] for name in names), head.auc, head.inner)
        table.add_row(reward_label(label), *(shown(each.estimate()) for each in figures))
    return table


def parsed(row: Mapping[str, Any], author: str) -> tuple[list[str], str] | None:
    """Steps and gold answer of a solution; a line is a step. None without a final answer or a step before it."""
    *lines, last = filter(None, map(str.strip, CALCULATOR.sub("", row[author]["solution"]).splitlines()))
    gold = row["ground_truth"].splitlines()[-1]
    if not lines or not last.startswith(ANSWER) or not gold.startswith(ANSWER):
        return None
    lines[-1] += f" The answer is: {last.removeprefix(ANSWER)}"
    return lines, gold.removeprefix(ANSWER)


def solutions_of(file: Path, judged: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """One solution to each of some questions that are not among the judged ones, its author drawn by the seed."""
    with open_text(file) as lines:
        rows = [json.loads(line) | {"number": number} for number, line in enumerate(lines)]
    asked = align_questions(pl.DataFrame({"question": [row["question"] for row in rows]}), judged.unique("question"))
    others = [row for row, match in zip(rows, asked["reference_row"], strict=True) if match is None]
    drawn = random.Random(SEED)
    drawn.shuffle(others)
    for row in others:
        author = drawn.choice(AUTHORS)
        if solution := parsed(row, author):
            steps, gold = solution
            yield {"id": f"{author}/{row['number']}", "question": row["question"], "steps": steps, "gold_answer": gold}


def heads_profile(settings: Settings, name: str, heads: str, labels: Sequence[str]) -> dict[str, Any]:
    """The rung's profile with the solutions, a head a label as the demo trains them, and ProcessBench."""
    gsm8k, math, *_ = (source.model_dump(exclude_defaults=True) for source in settings.sources.step_truth)
    sources = {"trajectories": {"path": "./solutions.jsonl"}, "step_truth": None, "references": []}
    demo = load_settings("miniature").training.model_dump(mode="json")
    kept = ("backbone", "head_learning_rate", "epochs", "batch_size", "gradient_accumulation")
    return {
        "extends": name,
        "profile": heads,
        "sources": {**sources, "benchmarks": {"processbench_gsm8k": gsm8k, "processbench_math": math}},
        "rewards": {"types": list(labels)},
        "training": {key: demo[key] for key in kept},
        "recipes": [{"name": f"{label}_bce", "reward_type": label} for label in labels],
        "rollouts": {"sample": None},
    }


def main() -> None:
    """Write the heads' solutions and profile, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("homes", type=Path, help="folder of the homes, each named as its profile")
    parser.add_argument("profiles", nargs="+", help="profiles or their files, the smallest labeler first")
    parser.add_argument("--solutions", type=Path, help="example_model_solutions.jsonl: write what the heads learn from")
    parser.add_argument("--count", type=int, default=SOLUTIONS, help="solutions that the heads learn from")
    parser.add_argument("--labels", nargs="+", default=HEADS, help="reward types that heads learn")
    parser.add_argument("--heads", default="heads", help="folder and profile of the heads, among the homes")
    chosen = parser.parse_args()
    rungs = [load_settings(name, chosen.homes / Path(name).name.removesuffix(".yaml")) for name in chosen.profiles]
    if chosen.solutions:
        folder = chosen.homes / chosen.heads
        folder.mkdir(parents=True, exist_ok=True)
        rows = list(solutions_of(chosen.solutions, Lake.of(rungs[-1]).read(TRAJECTORIES)))[: chosen.count]
        write_whole(folder / "solutions.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        path = Path(chosen.profiles[-1])
        name = str(path.resolve()) if path.suffix == ".yaml" else chosen.profiles[-1]
        profile = heads_profile(rungs[-1], name, chosen.heads, chosen.labels)
        write_whole(folder / f"{chosen.heads}.yaml", yaml.safe_dump(profile, sort_keys=False))
        return
    finished, console = [rung_of(settings) for settings in rungs], Console(width=160)
    for rung in finished:
        console.print(label_table(rung))
    asked = list(answers(finished))
    for home in sorted(chosen.homes.glob("heads*/home")):
        name = home.parent.name
        heads = heads_of(load_settings(str(home.parent / f"{name}.yaml"), home))
        console.print(heads_table(name, heads))
        asked += heads_answers(heads)
    console.print(answer_table(asked))


if __name__ == "__main__":
    main()
