"""Answer the questions of docs/evidence.md from finished homes, one for each labeler of the ladder.

    python -m scripts.evidence_ladder .cpmi/evidence human-steps human-steps-0.5b human-steps-1.5b

    label (human-steps-1.5b)    AUC                 Without last steps  First wrong step found
    CPMI (incremental)          0.66 [0.58, 0.75]   0.64 [0.57, 0.73]   0.33 [0.22, 0.46]

    question                                        Ours   Other   Difference           p       p (Holm)
    (a) CPMI (incremental), best free label         0.64   0.83    -0.19 [-0.22, -0.15]  0.002

Rungs go from the smallest labeler to the largest; (a), (b), (d) and (e) are asked of the last. A profile whose hard
negatives are sampled follows `--negatives`, profile and home of reward models on real text `--heads` (f). Homes may
label different solutions: figures are over the steps of both. Of the last rung two more tables follow, for each origin
of its gold answers (GSM8K, MATH), and the differences that were looked at after the run.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl
from rich.console import Console
from rich.table import Table

from cpmi_dagster.benchmarks.label_increment import regression_auc, steps_with_labels
from cpmi_dagster.benchmarks.label_quality import IS_LAST, STEP, common_steps, label_aucs
from cpmi_dagster.benchmarks.resampling import Difference, Resampled, holm, shown
from cpmi_dagster.contracts.keys import COSTS, LOGPROBS, STEP_REWARDS, TRAJECTORIES, TRUTH
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.reports.evidence import THIRDS, aucs_by_knowledge
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.labels import best_anew, best_free_control, first_errors_found, in_order, steps_with_truth
from cpmi_dagster.reports.paper import format_figure
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.rewards.registry import REWARD_TYPES, reward_label
from scripts.heads_table import FLOOR, TO_BEAT, ModelFigures, figures_of_models

OURS = ("cpmi_incremental", "cpmi")
SURPRISAL, ROLLOUTS, QUESTION = "step_surprisal", "mc", "cpmi_question_negatives"
LOG_RATIO = "Log-ratio to the smallest"
ANSWERLESS = ("step_length", "position")
"""Free labels that do not know whether the final answer is right."""
FREE_TYPES = {name for name, entry in REWARD_TYPES.items() if entry.is_free}


class Rung(NamedTuple):
    """A finished home: its profile's name, what its figures are measured from, and its judged steps."""

    name: str
    inputs: ReportInputs
    steps: pl.DataFrame
    costs: pl.DataFrame


class Answer(NamedTuple):
    """A question, both figures and their difference."""

    question: str
    ours: Resampled
    other: Resampled
    apart: Difference


def rung_of(settings: Settings) -> Rung:
    """What a finished home of a profile holds."""
    lake = Lake.of(settings)
    frames = {key: lake.read(key) for key in (STEP_REWARDS, TRAJECTORIES, TRUTH, LOGPROBS)}
    samples = settings.benchmarks.bootstrap_samples
    inputs = ReportInputs(frames, bootstrap_samples=samples, seed=settings.seed)
    return Rung(settings.profile, inputs, steps_with_truth(inputs), lake.read(COSTS))


def with_log_ratio(large: Rung, small: Rung) -> Rung:
    """A rung, and what its labeler says of a step's text less what a smaller one does: a label that takes both."""
    own, other = (rung.steps.filter(reward_type=SURPRISAL) for rung in (large, small))
    both = own.join(other.select(*STEP, smaller="reward"), on=STEP)
    ratio = both.with_columns(reward_type=pl.lit(LOG_RATIO), reward=pl.col("reward") - pl.col("smaller"))
    return large._replace(steps=pl.concat([large.steps, ratio.select(large.steps.columns)], how="vertical_relaxed"))


def answers(rungs: Sequence[Rung], sampled: Rung | None = None) -> Iterator[Answer]:
    """The endpoints of docs/evidence.md, the primary one first; those whose labels a home lacks are left out."""
    largest = rungs[-1]
    inner, present = largest.steps.filter(~IS_LAST), set(largest.steps["reward_type"])
    ours, draws = [name for name in OURS if name in present], largest.inputs.draws
    aucs, found = label_aucs(inner, *draws), first_errors_found(largest.steps, largest.inputs)
    for name in ours:
        yield _against(f"(a) {reward_label(name)}, best free label", aucs[name], _best_free(aucs))
    for name in ours:
        if SURPRISAL in present:
            yield from _paired(f"(a) {reward_label(name)}, step surprisal", inner, inner, (name, SURPRISAL), draws)
    for name in ours:
        question = f"(a) First wrong step found by {reward_label(name)}, by the best free label"
        yield _against(question, found[name], _best_free(found))
    base = [*({SURPRISAL} & present), *filter(None, [best_free_control(aucs)])]
    yield from _added("(b) ", inner, base, ours, draws)
    last = len(rungs) - 1
    for smaller, larger in dict.fromkeys(((0, last), (last - 1, last), (0, last - 1))):
        one, other = rungs[larger], rungs[smaller]
        if 0 <= smaller < larger and OURS[0] in present:
            question, without_last = f"(c) {one.name}, {other.name}", other.steps.filter(~IS_LAST)
            yield from _paired(question, one.steps.filter(~IS_LAST), without_last, (OURS[0], OURS[0]), draws)
    thirds = aucs_by_knowledge(largest.inputs, largest.steps.filter(reward_type=OURS[0]))
    if thirds and all(OURS[0] in third for third in thirds):
        most, least = (thirds[place][OURS[0]] for place in (-1, 0))
        question = f"(c) {largest.name}, {THIRDS[-1].lower()} by p(gold), {THIRDS[0].lower()}"
        yield Answer(question, most, least, most.minus_unpaired(least))
    for name in ours:
        if ROLLOUTS in present:
            pair = (name, ROLLOUTS)
            yield from _paired(f"(d) {reward_label(name)}, MC, all steps", largest.steps, largest.steps, pair, draws)
    if sampled:
        for name, sight in (("cpmi", "the solution"), (QUESTION, "the question")):
            question = f"(e) CPMI, negatives sampled from {sight}, by rules"
            yield from _paired(question, sampled.steps.filter(~IS_LAST), inner, (name, "cpmi"), draws)


def heads_answers(found: Mapping[str, ModelFigures]) -> Iterator[Answer]:
    """Question (f): reward models on our labels against those on uniform labels and on final answers."""
    for other in (FLOOR, TO_BEAT):
        for name in OURS:
            question = f"(f) head on {reward_label(name)}, on {reward_label(other)}"
            yield _against(question, found[name].auc, found[other].auc)


def looked_at_afterwards(rung: Rung) -> Iterator[Answer]:
    """Differences that no question asks for: between conditionings, and to labels that know no final answer."""
    inner, draws = rung.steps.filter(~IS_LAST), rung.inputs.draws
    present = set(rung.steps["reward_type"])
    ours = [name for name in OURS if name in present]
    if len(ours) == len(OURS):
        yield from _paired(" less ".join(map(reward_label, ours)), inner, inner, OURS, draws)
        found = first_errors_found(rung.steps, rung.inputs)
        yield _against("First wrong step found, the same", *(found[name] for name in ours))
    for base in (ANSWERLESS, (SURPRISAL, *ANSWERLESS)):
        if present.issuperset(base):
            yield from _added("", inner, base, ours, draws)


def _added(
    letter: str, steps: pl.DataFrame, base: Sequence[str], ours: Sequence[str], draws: tuple[int, int]
) -> Iterator[Answer]:
    """What each of our labels adds to some others."""
    labelled = steps_with_labels(steps, [*base, *ours])
    for name in ours:
        without, with_it = (regression_auc(labelled, names, *draws) for names in (base, [*base, name]))
        if without and with_it:
            question = f"{letter}{reward_label(name)} added to {' + '.join(map(reward_label, base))}"
            yield _against(question, with_it, without)


def _best_free(figures: dict[str, Resampled]) -> Resampled:
    """The best free label, chosen anew in every resample."""
    return best_anew([figure for name, figure in figures.items() if name in FREE_TYPES])


def _against(question: str, ours: Resampled, other: Resampled) -> Answer:
    return Answer(question, ours, other, ours.minus(other))


def _paired(
    question: str, one: pl.DataFrame, other: pl.DataFrame, names: tuple[str, str], draws: tuple[int, int]
) -> Iterator[Answer]:
    """AUCs of a reward type in one home and of one in another, over the steps that both label."""
    named = [
        steps.filter(reward_type=name).with_columns(reward_type=pl.lit(side))
        for steps, name, side in zip((one, other), names, ("ours", "other"), strict=True)
    ]
    aucs = label_aucs(common_steps(pl.concat(named, how="diagonal"), "ours", "other"), *draws)
    if len(aucs) == 2:
        yield _against(question, aucs["ours"], aucs["other"])


def by_task(rung: Rung) -> Iterator[Rung]:
    """A rung with the solutions of each origin alone, where there are several."""
    tasks = rung.inputs.table(TRAJECTORIES).select("trajectory_id", "task")
    parts = rung.steps.join(tasks, on="trajectory_id", maintain_order="left").partition_by("task", maintain_order=True)
    for steps in parts if len(parts) > 1 else []:
        yield rung._replace(name=f"{rung.name}, {steps['task'][0]}", steps=steps.drop("task"))


def label_table(rung: Rung) -> Table:
    """Every label of a home: AUC, the same without last steps, first wrong steps found."""
    count = rung.steps["trajectory_id"].n_unique()
    table = Table(title=f"{rung.name}: {count:,} solutions, {_most_tokens(rung.costs):,} tokens at most for a label")
    for column in ("label", "AUC", "Without last steps", "First wrong step found"):
        table.add_column(column)
    measured = (
        label_aucs(rung.steps, *rung.inputs.draws),
        label_aucs(rung.steps.filter(~IS_LAST), *rung.inputs.draws),
        first_errors_found(rung.steps, rung.inputs),
    )
    for name in in_order(measured[0]):
        cells = [shown(figures[name].estimate()) if name in figures else "" for figures in measured]
        table.add_row(reward_label(name), *cells)
    return table


def _most_tokens(costs: pl.DataFrame) -> int:
    """Tokens read for the method that takes most, of all shards together."""
    return max(costs.group_by("method").agg(pl.col("forward_tokens").sum())["forward_tokens"], default=0)


def answer_table(found: Sequence[Answer], title: str, is_asked: bool) -> Table:
    """Differences with p-values; of what was asked before the run, with Holm's for all but the first."""
    table = Table(title=title)
    for column in ("question", "ours", "other", "difference", "p", *(["p (Holm)"] if is_asked else []), "n"):
        table.add_column(column)
    p_values = [each.apart.p_value for each in found[1:]]
    adjusted = [[""], *([format_figure(value, 3)] for value in holm(p_values))] if is_asked else [[] for _ in found]
    for (question, ours, other, apart), holms in zip(found, adjusted, strict=True):
        cells = (f"{ours.value:.3f}", f"{other.value:.3f}", shown(apart), format_figure(apart.p_value, 3), *holms)
        table.add_row(question, *cells, f"{apart.n:,}")
    return table


def main() -> None:
    """Print the table of every rung, then the answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("homes", type=Path, help="folder of the homes, each named as its profile")
    parser.add_argument("profiles", nargs="+", help="profiles or their files, the smallest labeler first")
    parser.add_argument("--negatives", metavar="PROFILE", help="the largest labeler with sampled negatives")
    parser.add_argument("--heads", nargs=2, metavar=("PROFILE", "HOME"), help="as scripts/heads_on_solutions.py has it")
    chosen = parser.parse_args()

    def rung(profile: str) -> Rung:
        return rung_of(load_settings(profile, chosen.homes / Path(profile).name.removesuffix(".yaml")))

    rungs = [rung(profile) for profile in chosen.profiles]
    console = Console(width=160)
    if len(rungs) > 1:
        rungs[-1] = with_log_ratio(rungs[-1], rungs[0])
    for each in (*rungs, *by_task(rungs[-1])):
        console.print(label_table(each))
    asked = list(answers(rungs, rung(chosen.negatives) if chosen.negatives else None))
    if chosen.heads:
        profile, home = chosen.heads
        asked += heads_answers(dict(figures_of_models(load_settings(profile, home))))
    console.print(answer_table(asked, "Questions of docs/evidence.md", is_asked=True))
    afterwards = list(looked_at_afterwards(rungs[-1]))
    console.print(answer_table(afterwards, "Looked at after the run", is_asked=False))


if __name__ == "__main__":
    main()
