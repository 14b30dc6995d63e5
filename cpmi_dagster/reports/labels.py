"""Quality of labels on judged steps, and statistics of the data set.

row "CPMI", column "Without last steps"        ROC-AUC of the raw rewards against the truth, last steps left out
row "CPMI", column "Label AUC"                 the same over all steps
row "CPMI", column "First steps"               the same, by position
row "CPMI", column "Lowest third by p(gold)"   without last steps, of the questions that the labeler knows least
row "CPMI", column "First wrong step found"    share of solutions with an error whose lowest label is on it
row "Right so far", column "Brier score"       mean squared error of a probability that all is right so far
row "CPMI", column "Difference to MC"          paired difference of the AUC over all steps, over the same questions
row "CPMI", column "Difference to best control"  likewise, to the free control with the highest AUC on other questions
row "CPMI", column "Difference to MC, without last steps"    and so on
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial

import numpy as np
import polars as pl

from cpmi_dagster.answers.extraction import extract_answer, without_thought_tags
from cpmi_dagster.answers.forms import Quantity, read_form
from cpmi_dagster.answers.plain_text import plain_text
from cpmi_dagster.answers.values import real_value
from cpmi_dagster.benchmarks.label_quality import (
    IS_LAST,
    PLACES,
    STEP,
    first_wrong_steps,
    label_aucs,
    labelled_steps,
    paired_differences,
    true_steps,
    with_truth_so_far,
)
from cpmi_dagster.benchmarks.resampling import Estimate, Resampled, bootstrap_mean, too_few
from cpmi_dagster.contracts.keys import LOGPROBS, STATISTICS, STEP_REWARDS, TRAJECTORIES, TRUTH
from cpmi_dagster.reports.best_label import FREE_LABELS, Folds
from cpmi_dagster.reports.figures import Figure, ReportInputs, once
from cpmi_dagster.reports.paper import BASELINE_TYPE, CHANCE_ROW, RecipeRow
from cpmi_dagster.rewards.controls import CORPUS_LABELS
from cpmi_dagster.rewards.registry import REWARD_TYPES, listing_place, reward_label
from cpmi_dagster.scoring.conditionings import candidate_logprobs
from cpmi_dagster.trajectories.choices import is_letter

TRUE_LABELS = [name for name, entry in REWARD_TYPES.items() if "truth" in entry.demand.inputs]
LABEL_AUC = "Label AUC"
WITHOUT_LAST = "Without last steps"
WITHOUT_STATED = "Without steps that state the final answer"
"""Without last steps either."""
TO_BASELINE = "Difference to MC"
TO_CONTROL = "Difference to best control"
INNER = ", without last steps"
"""Behind the columns of differences between AUCs without last steps."""
CORPUS_AUC = "AUC against the corpus's labels"
FOUND = "First wrong step found"
SO_FAR = [name for name, entry in REWARD_TYPES.items() if entry.is_so_far]
BRIER, CONSTANT_BRIER = "Brier score", "Brier score of a constant"
BY_POSITION = {f"{place.capitalize()} steps": is_there for place, is_there in PLACES.items()}
BY_KNOWLEDGE = ("Lowest third by p(gold)", "Middle third by p(gold)", "Highest third by p(gold)")
"""Columns of label AUC without last steps, by the probability of the gold answer among itself and the hard negatives
before any step is read."""
IN_WRONG = "In wrong solutions"
"""AUC without last steps of the solutions whose final answer is wrong, which no label can tell by the final answer."""
BY_GOLD = {kind: f"Gold answer: {kind}" for kind in ("whole number", "not whole", "with a unit", "letter", "other")}
"""Columns of label AUC without last steps, by the kind of the gold answer."""
COUNT_ROWS = {
    "trajectories": "Total samples",
    "unlabelled_trajectories": "Samples without labels of their source",
    "questions": "Questions",
    "most_trajectories_per_question": "Most trajectories of a question",
    "steps": "Steps",
    "mean_steps": "Steps of a trajectory, mean",
    "max_steps": "Steps of the longest trajectory",
}
"""Row label by statistic."""
PART_ROWS = {
    "Task Source (GSM8K : MATH)": ("gsm8k_share", 2, ("GSM8K", "MATH")),
    "Composition (mixed : pure)": ("mixed_share", 10, ("mixed", "pure")),
}
"""By row label: the share of the first part, the sum of the paper's parts, and their columns."""


def steps_with_truth(inputs: ReportInputs, types: Collection[str] | None = None) -> pl.DataFrame:
    """`labelled_steps` of the profile; empty if too little truth is known. True steps are not judged as labels.

    Args:
        types: reward types; all by default.
    """
    judged = inputs.table(STEP_REWARDS).filter(~pl.col("reward_type").is_in(TRUE_LABELS))
    judged = judged if types is None else judged.filter(pl.col("reward_type").is_in(types))
    tables = (judged, inputs.table(TRAJECTORIES), inputs.table(TRUTH))
    if any(table.is_empty() for table in tables) or min(right_and_wrong(inputs)) < inputs.fewest_judged:
        return pl.DataFrame()
    return labelled_steps(*tables)


@once
def judged_steps(inputs: ReportInputs, are_labelled: bool = True) -> pl.DataFrame:
    """`true_steps` of the trajectories with labels, or of those without, less the steps that nobody has judged."""
    if (truth := inputs.table(TRUTH)).is_empty():
        truth = truth.select("row_number", "correct")
    how, rewards = "semi" if are_labelled else "anti", inputs.table(STEP_REWARDS)
    trajectories = inputs.table(TRAJECTORIES).join(rewards, on="trajectory_id", how=how)
    return true_steps(trajectories, truth).drop_nulls("correct")


def right_and_wrong(inputs: ReportInputs) -> tuple[int, int]:
    """How many of the steps with labels are truly right, and how many wrong."""
    correct = judged_steps(inputs)["correct"]
    return int(correct.sum()), int((~correct).sum())


def in_order(names: Iterable[str]) -> list[str]:
    """Reward types in the order in which tables list them."""
    frame = pl.DataFrame({"name": list(names)}, schema={"name": pl.String})
    return frame.sort(listing_place("name"), maintain_order=True)["name"].to_list()


def label_rows(inputs: ReportInputs) -> list[RecipeRow]:
    """The row of every reward type that has labels."""
    names = inputs.table(STEP_REWARDS)["reward_type"].unique(maintain_order=True)
    return [RecipeRow(reward_label(name), name) for name in in_order(names)]


def column_of(figures: Mapping[str, Resampled], column: str) -> Iterator[Figure]:
    """A figure of every reward type, in its row of a column."""
    for name in in_order(figures):
        yield reward_label(name), column, figures[name].estimate()


def measure_label_quality(inputs: ReportInputs) -> Iterator[Figure]:
    """How well every reward type ranks true right steps above wrong ones, and those that the corpus calls so.

    Without last steps, over all steps, by position, and by what the labeler knows of the answer; how often the lowest
    label of a solution is on its first wrong step.
    """
    if (steps := steps_with_truth(inputs)).height:
        measure = partial(label_aucs, samples=inputs.bootstrap_samples, seed=inputs.seed)
        for column, suffix, counted in ((WITHOUT_LAST, INNER, steps.filter(~IS_LAST)), (LABEL_AUC, "", steps)):
            aucs = measure(counted)
            yield from column_of(aucs, column)
            if BASELINE_TYPE in aucs:
                apart = paired_differences(counted, aucs, BASELINE_TYPE, measure)
                yield from ((reward_label(name), TO_BASELINE + suffix, apart[name]) for name in in_order(apart))
            folds = Folds.of(counted, label_aucs, *inputs.draws)
            for name in in_order(aucs):
                if both := folds.compare([name], [free for free in FREE_LABELS if free != name]):
                    yield reward_label(name), TO_CONTROL + suffix, both[0].minus(both[1])
        for column, is_there in BY_POSITION.items():
            yield from column_of(measure(steps.filter(is_there)), column)
        inner = steps.filter(~IS_LAST)
        wrong = inner.join(final_answers(inputs).filter(~pl.col("correct")), on="trajectory_id", how="semi")
        judged = inputs.table(TRAJECTORIES).join(inner, on="trajectory_id", how="semi")
        unstated = inner.join(stating_steps(inputs, judged), on=STEP, how="anti")
        if unstated.height < inner.height:
            yield from column_of(measure(unstated), WITHOUT_STATED)
        of_parts = {IN_WRONG: measure(wrong), **aucs_by_knowledge(inputs, steps), **_aucs_by_gold(inputs, inner)}
        for column, aucs in of_parts.items():
            if any(not too_few(each.units, each.unit) for each in aucs.values()):
                yield from column_of(aucs, column)
        firsts = first_wrong_steps(steps.filter(~pl.col("reward_type").is_in(SO_FAR)), *inputs.draws)
        yield from column_of({name: figure.found for name, figure in firsts.items()}, FOUND)
        if blind := max((figure.blind for figure in firsts.values()), key=lambda each: each.n, default=None):
            yield CHANCE_ROW, FOUND, blind.estimate()
        yield from _squared_errors(with_truth_so_far(steps.filter(pl.col("reward_type").is_in(SO_FAR))), inputs)
    # the corpus's own labels in the place of the truth, as in the authors' notebook
    rewards, trajectories = inputs.table(STEP_REWARDS), inputs.table(TRAJECTORIES)
    labels = trajectories.select("row_number", correct="shepherd_labels").drop_nulls()
    names = rewards["reward_type"].unique(maintain_order=True) if labels.height else []
    against_corpus: dict[str, Resampled] = {}
    # one type after another: the steps of all of them at once take gigabytes
    for name in names:
        if name not in (CORPUS_LABELS, *TRUE_LABELS):
            steps = labelled_steps(rewards.filter(reward_type=name), trajectories, labels)
            against_corpus |= label_aucs(steps.filter(reward_type=name), *inputs.draws)
    yield from column_of(against_corpus, CORPUS_AUC)


def _squared_errors(steps: pl.DataFrame, inputs: ReportInputs) -> Iterator[Figure]:
    """Brier scores of probabilities that all is right so far, beside that of their mean truth."""
    for (name,), rows in steps.group_by("reward_type", maintain_order=True):
        truth = rows["correct"].cast(pl.Float64)
        for column, probability in ((BRIER, rows["reward"]), (CONSTANT_BRIER, truth.mean())):
            errors = (truth - probability) ** 2
            yield reward_label(str(name)), column, bootstrap_mean(errors, *inputs.draws, rows["question_id"]).estimate()


@once
def gold_probabilities(inputs: ReportInputs) -> pl.DataFrame:
    """p(gold among candidates | question) of each trajectory, mean over templates; read shard by shard.

    Returns:
        trajectory_id, knowledge in [0, 1]: 1 / (M + 1) if the labeler knows nothing.
    """
    return pl.concat(
        candidate_logprobs(logprobs.filter(pl.col("context") == "question"))
        .filter(pl.col("answer_rank") == 0)
        .group_by("trajectory_id", maintain_order=True)
        .agg(knowledge=pl.col("among_candidates").exp().mean())
        for logprobs in inputs.by_shard(LOGPROBS)
    )


def aucs_by_knowledge(inputs: ReportInputs, steps: pl.DataFrame) -> dict[str, dict[str, Resampled]]:
    """Label AUC without last steps in each third of the questions by `gold_probabilities`.

    Args:
        steps: rows of `labelled_steps`.

    Returns:
        By column, from the third that the labeler knows least, then by reward type; empty if it scored no answers.
    """
    known = steps.filter(~IS_LAST).join(gold_probabilities(inputs), on="trajectory_id")
    if known.is_empty():
        return {}
    solutions = known.unique("trajectory_id", maintain_order=True)
    questions = solutions.group_by("question_id", maintain_order=True).agg(pl.col("knowledge").mean())
    bounds = np.quantile(questions["knowledge"].to_numpy(), [1 / 3, 2 / 3])
    third = pl.sum_horizontal(pl.col("knowledge") > bound for bound in bounds.tolist())
    by_question = known.drop("knowledge").join(questions, on="question_id", maintain_order="left")
    return {
        column: label_aucs(by_question.filter(third == number), inputs.bootstrap_samples, inputs.seed + number)
        for number, column in enumerate(BY_KNOWLEDGE)
    }


def _aucs_by_gold(inputs: ReportInputs, steps: pl.DataFrame) -> dict[str, dict[str, Resampled]]:
    """Label AUC of some rows of `labelled_steps` for each kind of gold answers, by column; empty if all are of one."""
    golds = inputs.table(TRAJECTORIES).select("trajectory_id", "gold_answer").drop_nulls()
    kinds = {gold: kind_of(gold) for gold in golds["gold_answer"].unique()}
    kind = pl.col("gold_answer").replace_strict(kinds, return_dtype=pl.String)
    of_kind = steps.join(golds.select("trajectory_id", kind=kind), on="trajectory_id", maintain_order="left")
    if of_kind["kind"].n_unique() < 2:
        return {}
    return {column: label_aucs(of_kind.filter(kind=name), *inputs.draws) for name, column in BY_GOLD.items()}


def kind_of(gold_answer: str) -> str:
    """A key of `BY_GOLD`."""
    if is_letter(gold_answer):
        return "letter"
    form = read_form(plain_text(gold_answer))
    if not isinstance(form, Quantity):
        return "other"
    if form.unit or form.is_percent:
        return "with a unit"
    number = real_value(form.value) if form.value.numbers else None
    return "other" if number is None else "whole number" if number.is_integer() else "not whole"


def stating_steps(inputs: ReportInputs, solutions: pl.DataFrame) -> pl.DataFrame:
    """trajectory_id, step_index: the steps that state the final answer of their solution.

    Args:
        solutions: columns trajectory_id, steps, final_answer.
    """
    stating = [
        (name, number)
        for name, final, steps in solutions.select("trajectory_id", "final_answer", "steps").drop_nulls().iter_rows()
        for number, step in enumerate(steps)
        if (stated := extract_answer(without_thought_tags(step))) is not None
        and inputs.comparison.is_clearly_same(final, stated)
    ]
    return pl.DataFrame(stating, {"trajectory_id": pl.String, "step_index": pl.Int64}, orient="row")


@once
def final_answers(inputs: ReportInputs) -> pl.DataFrame:
    """trajectory_id, question_id, step_count, correct: labelled solutions, and whether their final answer is right."""
    labelled = inputs.table(TRAJECTORIES).join(inputs.table(STEP_REWARDS), on="trajectory_id", how="semi")
    stated = labelled.drop_nulls(["gold_answer", "final_answer"])
    right = inputs.comparison.each(stated["gold_answer"].to_list(), stated["final_answer"].to_list())
    solutions = stated.select("trajectory_id", "question_id", step_count=pl.col("steps").list.len())
    return solutions.with_columns(correct=pl.Series(right, dtype=pl.Boolean))


def measure_dataset_statistics(inputs: ReportInputs) -> Iterator[Figure]:
    """Counts of the data set, and its shares in the unit of the paper's ratios."""
    statistics: dict[str, float] = dict(inputs.table(STATISTICS).select("statistic", "actual").iter_rows())
    count = int(statistics.get("trajectories", 0))
    for name, row in COUNT_ROWS.items():
        if name in statistics:
            yield row, "Count", Estimate(statistics[name], n=count)
    for row, (name, whole, columns) in PART_ROWS.items():
        if name in statistics:
            for column, share in zip(columns, (statistics[name], 1 - statistics[name]), strict=True):
                yield row, column, Estimate(share * whole, n=count)
