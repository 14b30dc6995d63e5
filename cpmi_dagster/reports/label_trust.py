"""What can be said of labels without step truth: `label_trust`, and the steps to look at first.

    row                                       column                            measured
    Knowledge: Half, 0.05 to 0.95             Share of questions                0.62   [0.55, 0.69]
    Final answers: CPMI                       Mean step, without last steps     0.74   [0.69, 0.79]
    Agreement: Step surprisal                 CPMI                              0.21   [0.15, 0.27]
    Counts: Solutions by final answer         Right                             48
    Counts: Solutions by final answer         Not known                         4     no gold answer, or none stated
    Counts: Judged steps                      Wrong                             2
    Counts: Judged solutions                  Right                             1
    Counts: Judged solutions                  Labelled                          40
    Counts: Judged solutions, CPMI            Labelled                          36    since 4 have no gold answer
    Counts: Final answer before the last step Solutions                         34    of the first 2,000 with labels
    Counts: Solutions without labels          Solutions                         32    left out by a pilot, for instance
    Counts: Solutions without labels          Judged                            12

Only if the labeler half knows the answer can CPMI tell steps apart; whether it does, judged steps say. A label that
says something of the steps should rank solutions with a right final answer above those with a wrong one, also before
the last step states it. Two labels that agree are not two independent witnesses. Counts are of the solutions that have
labels beside that of the last step, and of the steps with labels that `sources.step_truth` judges; a judged solution is
one of them with a judged step that is not the last one, and it is right if no judged step is wrong. A label of fewer
solutions has a row of its own. If a step before the last one states the final answer too, as in chats that repeat it
after `</think>`, figures without last steps know it.
"""

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement

import polars as pl

from cpmi_dagster.benchmarks.label_quality import IS_LAST, STEP, label_aucs
from cpmi_dagster.benchmarks.metrics import bootstrap_correlations
from cpmi_dagster.benchmarks.resampling import Estimate, Resampled, bootstrap_mean
from cpmi_dagster.contracts.keys import STEP_REWARDS, TRAJECTORIES
from cpmi_dagster.reports.figures import Figure, ReportInputs
from cpmi_dagster.reports.labels import (
    TRUE_LABELS,
    column_of,
    final_answers,
    gold_probabilities,
    in_order,
    judged_steps,
    right_and_wrong,
    stating_steps,
)
from cpmi_dagster.reports.paper import BASELINE_TYPE, METHOD_TYPE
from cpmi_dagster.rewards.registry import REWARD_TYPES, reward_label

KNOWLEDGE, ANSWERS, AGREEMENT, COUNTS = "Knowledge", "Final answers", "Agreement", "Counts"
GROUPINGS = {
    KNOWLEDGE: "What the labeler knows of the answers before any step",
    ANSWERS: "AUC of solutions with a right final answer against those with a wrong one",
    AGREEMENT: "Agreement of labels: Spearman's rank correlation over steps",
    COUNTS: "What there is to compare labels with",
}
"""What begins the label of a row, and the title of its rows."""
COUNTED = {KNOWLEDGE: "questions", ANSWERS: "solutions", AGREEMENT: "steps", COUNTS: ""}
"""What the n of figures counts, by the same beginnings."""
LEAST, MOST = 0.05, 0.95
"""Probabilities of the gold answer between which it can still rise, and fall, as CPMI needs it."""
TOO_LITTLE, HALF, ALREADY = (
    f"{KNOWLEDGE}: Too little, to {LEAST}",
    f"{KNOWLEDGE}: Half, {LEAST} to {MOST}",
    f"{KNOWLEDGE}: Already, from {MOST}",
)
QUESTIONS = "Share of questions"
SOLUTIONS, JUDGED = f"{COUNTS}: Solutions by final answer", f"{COUNTS}: Judged steps"
JUDGED_SOLUTIONS = f"{COUNTS}: Judged solutions"
EARLY, NUMBER = f"{COUNTS}: Final answer before the last step", "Solutions"
UNLABELLED = f"{COUNTS}: Solutions without labels"
RIGHT, WRONG, UNKNOWN, LABELLED, OF_JUDGED = "Right", "Wrong", "Not known", "Labelled", "Judged"
MEAN, LOWEST, INNER = "Mean step", "Lowest step", ", without last steps"
BY_FINAL_ANSWER = [name for name, entry in REWARD_TYPES.items() if {"final_answer", "labels"} & {*entry.demand.inputs}]
"""Reward types that tell final answers apart by definition."""
SHOWN_BESIDE = (BASELINE_TYPE, METHOD_TYPE, "cpmi_incremental", "step_length", "step_surprisal", "first_error")
"""Reward types whose place is shown beside the steps that people judged wrong."""
MOST_SUSPICIOUS = 20
LOOKED_AT = "first_error"
"""The label whose lowest steps are to be looked at first, if the profile has it."""
MOST_READ = 2_000
"""Solutions whose steps are searched for the final answer."""


def measure_label_trust(inputs: ReportInputs) -> Iterator[Figure]:
    """What the labeler knows, whether labels tell right final answers from wrong ones, and whether they agree."""
    rewards = inputs.table(STEP_REWARDS).filter(~pl.col("reward_type").is_in(TRUE_LABELS))
    yield from _knowledge(inputs)
    yield from _final_answers(inputs, rewards)
    yield from _agreement(inputs, rewards)
    yield from _counts(JUDGED, *right_and_wrong(inputs))
    yield from _judged_solutions(inputs, rewards)
    yield from _early_answers(inputs, rewards)
    yield from _unlabelled(inputs)


def judged_solutions_of(label: str) -> str:
    """The row of the solutions that a label labels, which there is if they are fewer than all."""
    return f"{JUDGED_SOLUTIONS}, {label}"


def _judged_solutions(inputs: ReportInputs, rewards: pl.DataFrame) -> Iterator[Figure]:
    """Solutions with labels beside that of the last step, and those of them with a judged step."""
    judged = judged_steps(inputs).group_by("trajectory_id").agg(pl.col("correct").all(), inner=(~IS_LAST).any())
    inner = without_last_steps(inputs, rewards).select("trajectory_id", "reward_type").unique()
    labels = {reward_label(name): inner.filter(reward_type=name) for name in in_order(inner["reward_type"].unique())}
    solutions = inner.unique("trajectory_id")
    rows = {judged_solutions_of(name): of for name, of in labels.items() if of.height < solutions.height}
    for row, labelled in {JUDGED_SOLUTIONS: solutions, **rows}.items():
        yield row, LABELLED, Estimate(labelled.height)
        correct = judged.filter("inner").join(labelled, on="trajectory_id", how="semi")["correct"]
        yield from _counts(row, int(correct.sum()), int((~correct).sum()))


def _counts(row: str, right: int, wrong: int) -> Iterator[Figure]:
    """Both counts of a row; nothing if there is nothing to count."""
    if right + wrong:
        yield row, RIGHT, Estimate(right)
        yield row, WRONG, Estimate(wrong)


def _knowledge(inputs: ReportInputs) -> Iterator[Figure]:
    """Shares of questions by the probability of the gold answer, as mean over a question's solutions."""
    known = gold_probabilities(inputs).join(_questions_of(inputs), on="trajectory_id")
    by_question = known.group_by("question_id", maintain_order=True).agg(pl.col("knowledge").mean())["knowledge"]
    for row, is_there in (
        (TOO_LITTLE, by_question <= LEAST),
        (HALF, (by_question > LEAST) & (by_question < MOST)),
        (ALREADY, by_question >= MOST),
    ):
        if len(by_question):
            yield row, QUESTIONS, bootstrap_mean(is_there, *inputs.draws).estimate()


def _final_answers(inputs: ReportInputs, rewards: pl.DataFrame) -> Iterator[Figure]:
    """AUC of a solution's mean and lowest reward; solutions that state no final answer are left out."""
    solutions = final_answers(inputs)
    alone = rewards.filter(~pl.col("reward_type").is_in(BY_FINAL_ANSWER))
    aucs: dict[str, dict[str, Resampled]] = {MEAN + INNER: {}, LOWEST + INNER: {}, MEAN: {}, LOWEST: {}}
    # one type after the other: all at once take gigabytes at full size
    for name in alone["reward_type"].unique(maintain_order=True):
        judged = alone.filter(reward_type=name).join(solutions, on="trajectory_id")
        for suffix, steps in ((INNER, judged.filter(~IS_LAST)), ("", judged)):
            by_solution = steps.group_by("reward_type", *solutions.columns, maintain_order=True)
            for column, reward in ((MEAN, pl.col("reward").mean()), (LOWEST, pl.col("reward").min())):
                aucs[column + suffix] |= label_aucs(by_solution.agg(reward), *inputs.draws)
    for column, of_types in aucs.items():
        for row, name, figure in column_of(of_types, column):
            yield f"{ANSWERS}: {row}", name, figure
    inner = (
        inputs.table(TRAJECTORIES).filter(pl.col("steps").list.len() > 1).join(alone, on="trajectory_id", how="semi")
    )
    compared = solutions.join(inner, on="trajectory_id", how="semi")["correct"]
    yield from _counts(SOLUTIONS, int(compared.sum()), int((~compared).sum()))
    if unknown := inner.height - len(compared):
        yield SOLUTIONS, UNKNOWN, Estimate(unknown)


def without_last_steps(inputs: ReportInputs, rewards: pl.DataFrame) -> pl.DataFrame:
    """The rewards of steps but last ones, with the step_count of their solutions."""
    counts = inputs.table(TRAJECTORIES).select("trajectory_id", step_count=pl.col("steps").list.len())
    return rewards.join(counts, on="trajectory_id").filter(~IS_LAST)


def _early_answers(inputs: ReportInputs, rewards: pl.DataFrame) -> Iterator[Figure]:
    """Solutions with a step before the last one that states the final answer too, of those with such a step."""
    labelled = inputs.table(TRAJECTORIES).join(rewards, on="trajectory_id", how="semi")
    solutions = labelled.filter(pl.col("steps").list.len() > 1).drop_nulls("final_answer").head(MOST_READ)
    before_last = solutions.with_columns(pl.col("steps").list.head(pl.col("steps").list.len() - 1))
    early = stating_steps(inputs, before_last)["trajectory_id"].n_unique()
    if solutions.height:
        yield EARLY, NUMBER, Estimate(early, n=solutions.height)


def _unlabelled(inputs: ReportInputs) -> Iterator[Figure]:
    """Solutions that no label labels, and those of them with a judged step that is not the last one."""
    without = inputs.table(TRAJECTORIES).join(inputs.table(STEP_REWARDS), on="trajectory_id", how="anti").height
    if without:
        judged = judged_steps(inputs, are_labelled=False).filter(~IS_LAST)["trajectory_id"].n_unique()
        yield UNLABELLED, NUMBER, Estimate(without)
        yield UNLABELLED, OF_JUDGED, Estimate(judged)


def _agreement(inputs: ReportInputs, rewards: pl.DataFrame) -> Iterator[Figure]:
    """Spearman's correlation of each pair over the steps that both label; without merges, which are parts of others."""
    names = [
        name
        for name in in_order(rewards["reward_type"].unique())
        if name not in REWARD_TYPES or not REWARD_TYPES[name].merge
    ]
    of_questions = rewards.join(_questions_of(inputs), on="trajectory_id")
    wide = of_questions.pivot("reward_type", index=[*STEP, "question_id"], values="reward", on_columns=names)
    by_steps: dict[bytes, list[str]] = {}
    for name in names:
        by_steps.setdefault(wide[name].is_null().to_numpy().tobytes(), []).append(name)
    figures: dict[frozenset[str], Estimate] = {}
    # ranks are of the steps that both label: the same for all pairs of labels of these steps and those
    for some, others in combinations_with_replacement(by_steps.values(), 2):
        both = wide.drop_nulls([some[0], others[0]])
        varied = [name for name in dict.fromkeys([*some, *others]) if both[name].n_unique() > 1]
        places = [
            (one, other)
            for one, other in combinations(range(len(varied)), 2)
            if some is others or (varied[one] in some) != (varied[other] in some)
        ]
        if places:
            ranks = both.select(pl.col(varied).rank()).to_numpy()
            alike = bootstrap_correlations(ranks, places, both["question_id"], *inputs.draws)
            pairs = (frozenset((varied[one], varied[other])) for one, other in places)
            figures |= {pair: each.estimate() for pair, each in zip(pairs, alike, strict=True)}
    for other, name in combinations(names, 2):
        if pair := figures.get(frozenset((name, other))):
            yield f"{AGREEMENT}: {reward_label(name)}", reward_label(other), pair


def _questions_of(inputs: ReportInputs) -> pl.DataFrame:
    """trajectory_id, question_id."""
    return inputs.table(TRAJECTORIES).select("trajectory_id", "question_id")


def suspicious_steps(inputs: ReportInputs) -> pl.DataFrame:
    """The steps to look at first, of all steps but last ones: those with the lowest `first_error`.

    Without it, those with the lowest mean rank over CPMI and labels that read no gold answer.

    Returns:
        trajectory_id, step_index, source_id, question, step, and a column of rewards by reward type; from the most
        suspicious.
    """
    rewards = inputs.table(STEP_REWARDS)
    without = [METHOD_TYPE, *(name for name, entry in REWARD_TYPES.items() if entry.reads_no_gold)]
    judges = [LOOKED_AT] if LOOKED_AT in rewards["reward_type"].unique() else without
    steps = without_last_steps(inputs, rewards.filter(pl.col("reward_type").is_in(judges)))
    ranked = steps.with_columns(rank=pl.col("reward").rank().over("reward_type"))
    worst = ranked.group_by(STEP).agg(pl.col("rank").mean()).sort("rank", *STEP).head(MOST_SUSPICIOUS)
    return _shown(inputs, worst.drop("rank"), rewards, in_order(steps["reward_type"].unique()))


def judged_wrong(inputs: ReportInputs) -> pl.DataFrame:
    """First wrong steps by people, with the place of each label among those of the solution's steps: `1 of 6`, lowest.

    Returns:
        Columns of `suspicious_steps`, with places for rewards; first those that labels have missed most.
    """
    steps = judged_steps(inputs)
    first = steps.filter(~pl.col("correct")).group_by("trajectory_id").agg(pl.col("step_index").min())
    places = inputs.table(STEP_REWARDS).filter(pl.col("reward_type").is_in(SHOWN_BESIDE))
    of_solution = ["trajectory_id", "reward_type"]
    # of equal labels the earliest step comes first, as where it is counted which are found
    places = places.sort(STEP).with_columns(
        place=pl.col("reward").rank("ordinal").over(of_solution), count=pl.len().over(of_solution)
    )
    wrong = first.join(places, on=STEP).with_columns(missed=(pl.col("place") - 1) / pl.col("count"))
    worst = wrong.group_by(STEP).agg(pl.col("missed").mean()).sort("missed", *STEP, descending=[True, False, False])
    names = in_order(wrong["reward_type"].unique())
    cells = wrong.with_columns(reward=pl.format("{} of {}", "place", "count"))
    return _shown(inputs, worst.drop("missed").head(MOST_SUSPICIOUS), cells, names)


def _shown(inputs: ReportInputs, chosen: pl.DataFrame, rewards: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """Steps with their texts, and a column of `reward` for each reward type."""
    trajectories = inputs.table(TRAJECTORIES).select("trajectory_id", "source_id", "question", "steps")
    shown = chosen.join(trajectories, on="trajectory_id", maintain_order="left").select(
        *STEP, "source_id", "question", step=pl.col("steps").list.get(pl.col("step_index"))
    )
    for name in names:
        of_type = rewards.filter(reward_type=name).select(*STEP, pl.col("reward").alias(name))
        shown = shown.join(of_type, on=STEP, how="left", maintain_order="left")
    return shown
