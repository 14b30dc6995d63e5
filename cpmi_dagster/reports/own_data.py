"""The opening of a report of own data: the verdict, what was labelled, its cost, its wrong answers.

Train on CPMI?   Not known: 12 of the 20 solutions that an answer needs are judged.
Labelled         38 of 40 solutions of 14 questions, 179 steps
Final answers    24 right, 12 wrong, 2 not known
Cost             CPMI: 38 solutions, 6.1 s, 0.16 s a solution
Wrong answers    chat-04   gold 17   “18”, “15”, “17000”   “17000”: far from the gold answer
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl

from cpmi_dagster.answers.forms import Quantity, read_form
from cpmi_dagster.answers.plain_text import plain_text
from cpmi_dagster.answers.values import real_value
from cpmi_dagster.contracts.keys import COSTS, NEGATIVES, STEP_REWARDS, TRAJECTORIES
from cpmi_dagster.files.text import counted
from cpmi_dagster.reports import label_trust
from cpmi_dagster.reports.best_label import best_of
from cpmi_dagster.reports.figures import ReportInputs, figures_by_column, format_estimate, unless_few
from cpmi_dagster.reports.labels import WITHOUT_LAST, in_order
from cpmi_dagster.reports.summary import describe_models
from cpmi_dagster.reports.verdict import Verdict, judge_label
from cpmi_dagster.rewards.registry import reward_label
from cpmi_dagster.trajectories.choices import is_letter

MOST_READ, SHOWN = 2_000, 8
"""Solutions whose wrong answers are looked over, and how many of them the report shows."""
FAR = 100
"""Ratio to the gold answer, or of it, above which a wrong answer gives itself away; both count as 1 at least."""
OWN_NAME = pl.coalesce("source_id", "trajectory_id")
"""What a reader calls a solution: by the id of their own row, if it has one."""


class OwnData(NamedTuple):
    """The opening of a report of own data; columns of frames are headings as shown.

    Attributes:
        label: the reward type that is judged, by its name in tables.
        facts: what was labelled, by what it is.
        negatives: the wrong answers of some solutions, those with odd ones first.
        odd: wrong answers that a reader would see through, of how many that were looked over.
    """

    label: str
    verdict: Verdict
    facts: dict[str, str]
    costs: pl.DataFrame
    negatives: pl.DataFrame
    odd: tuple[int, int]


def own_data(
    inputs: ReportInputs,
    frames: Mapping[str, pl.DataFrame],
    trained: Sequence[str],
    rejected: int,
    option: str = "",
    is_pilot: bool = False,
) -> OwnData:
    """The opening of the report.

    Args:
        frames: comparison frames by artifact.
        trained: reward types that the profile trains on; the verdict is on the first.
        rejected: rows of the source that are no solution.
        option: of commands, as `render_report` takes it.
        is_pilot: as for `judge_label`.
    """
    reward_type, *others = trained
    verdict, looked_over = judge_label(frames, reward_type, option, is_pilot), odd_negatives(inputs)
    answers = {f"Train on {reward_label(name)}?": judge_label(frames, name).answered for name in others}
    odd = (int(looked_over["count"].sum()), int(looked_over["wrong"].list.len().sum()))
    odd_first = looked_over.sort(pl.col("count") == 0, maintain_order=True).head(SHOWN)
    return OwnData(
        label=reward_label(reward_type),
        verdict=verdict,
        facts={**answers, **_facts(inputs, frames, verdict, reward_type, rejected, is_pilot)},
        costs=_costs(inputs),
        negatives=odd_first.select(
            solution="name",
            gold_answer="gold",
            wrong_answers=pl.col("wrong").list.eval(pl.format("“{}”", pl.element())).list.join(", "),
            odd="odd",
        ),
        odd=odd,
    )


def _facts(
    inputs: ReportInputs,
    frames: Mapping[str, pl.DataFrame],
    verdict: Verdict,
    reward_type: str,
    rejected: int,
    is_pilot: bool,
) -> dict[str, str]:
    rewards, trajectories = inputs.table(STEP_REWARDS), inputs.table(TRAJECTORIES)
    labelled = trajectories.join(rewards.filter(reward_type=reward_type), on="trajectory_id", how="semi")
    others = trajectories.join(rewards, on="trajectory_id", how="semi").height - labelled.height
    questions, steps = labelled["question_id"].n_unique(), int(labelled["steps"].list.len().sum())
    solutions = counted(trajectories.height, "solution")
    labels = ", ".join(reward_label(name) for name in in_order(rewards["reward_type"].unique()))
    measured = figures_by_column(frames.get("label_quality"))[WITHOUT_LAST]
    aucs = {name: auc for name, auc in measured.items() if unless_few(auc)}
    best = best_of(aucs, aucs)
    facts = {
        "Labelled": f"{labelled.height:,} of {solutions} of {counted(questions, 'question')}, {counted(steps, 'step')}"
        + (f"; {others:,} more have other labels, but none of {reward_label(reward_type)}" if others else "")
        + ("; a pilot, the others follow in a run without --limit" if is_pilot else ""),
        "Final answers": describe_final_answers(frames),
        "Rows of the file that are no solution": f"{rejected:,}" if rejected else "",
        "Labels": labels,
        "Judged": f"{counted(verdict.judged, 'solution')}" if verdict.judged else "no solution yet",
        "Best label that costs nothing": verdict.free
        or f"not known: {'too few' if verdict.judged else 'no'} solutions are judged",
        "Best of all labels": best and f"{best}, AUC without last steps {format_estimate(aucs[best], 3)}",
    }
    models = {f"Reward model {name}": words for name, words in describe_models(frames.get("reward_models")).items()}
    return {name: words for name, words in (facts | models).items() if words}


def describe_final_answers(frames: Mapping[str, pl.DataFrame]) -> str:
    """How many final answers are right, wrong and not known: `24 right, 12 wrong, 2 not known`; empty without any."""
    counts = figures_by_column(frames.get("label_trust"))
    kinds = (label_trust.RIGHT, label_trust.WRONG, label_trust.UNKNOWN)
    known = {kind: counts[kind].get(label_trust.SOLUTIONS) for kind in kinds}
    return ", ".join(f"{count.value:,.0f} {kind.lower()}" for kind, count in known.items() if count)


def _costs(inputs: ReportInputs) -> pl.DataFrame:
    """Solutions, seconds and tokens by label; those that cost nothing have no row."""
    columns = ("trajectories", "wall_seconds", "processor_seconds", "forward_tokens", "generated_tokens")
    costs = inputs.table(COSTS).group_by("method", maintain_order=True).agg(pl.col(columns).sum())
    order = {name: place for place, name in enumerate(in_order(costs["method"]))}
    labels = pl.Series([reward_label(name) for name in costs["method"]], dtype=pl.String)
    return costs.sort(pl.col("method").replace_strict(order, return_dtype=pl.Int64)).select(
        label=labels,
        solutions="trajectories",
        seconds="wall_seconds",
        processor_seconds="processor_seconds",
        seconds_a_solution=pl.col("wall_seconds") / pl.max_horizontal("trajectories", 1),
        tokens_read="forward_tokens",
        tokens_generated="generated_tokens",
    )


def odd_negatives(inputs: ReportInputs) -> pl.DataFrame:
    """The wrong answers of each solution, and what is odd about some of them.

    Returns:
        name, gold, wrong (list), count of odd ones, odd (`“2”, “7”: far from the gold answer`): of one solution
        a question, at most `MOST_READ` of them.
    """
    wrong = inputs.table(NEGATIVES).sort("rank").group_by("trajectory_id").agg(wrong="answer")
    solutions = inputs.table(TRAJECTORIES).unique("question_id", keep="first", maintain_order=True).head(MOST_READ)
    both = solutions.join(wrong, on="trajectory_id", maintain_order="left")
    odd = []
    for gold, final, answers in both.select("gold_answer", "final_answer", "wrong").iter_rows():
        by_words: dict[str, list[str]] = {}
        for place, each in enumerate(answers):
            # a solution's own answer is what a reader of it takes for right
            is_own = final is not None and inputs.comparison.same(final, each)
            is_copy = any(inputs.comparison.same(earlier, each) for earlier in answers[:place])
            words = "a copy of another" if is_copy else "" if is_own else oddity(gold, each)
            by_words.setdefault(words, []).append(each)
        by_words.pop("", None)
        # answers hold commas
        texts = [f"{', '.join(f'“{answer}”' for answer in each)}: {words}" for words, each in by_words.items()]
        odd.append((sum(map(len, by_words.values())), "; ".join(texts)))
    counts = pl.DataFrame(odd, {"count": pl.Int64, "odd": pl.String}, orient="row")
    return pl.concat([both.select(name=OWN_NAME, gold="gold_answer", wrong="wrong"), counts], how="horizontal")


def oddity(gold: str, wrong: str) -> str:
    """Why a wrong answer gives itself away; empty if it does not."""
    if (gold_letter := is_letter(gold)) != is_letter(wrong):
        return (
            f"{'no' if gold_letter else 'a'} letter of an option, {'as' if gold_letter else 'unlike'} the gold answer"
        )
    right_form, wrong_form = (read_form(plain_text(answer)) for answer in (gold, wrong))
    if right_form is not None and (wrong_form is None or _kind(right_form) != _kind(wrong_form)):
        return "of another kind than the gold answer"
    if isinstance(right_form, Quantity) and isinstance(wrong_form, Quantity):
        has_unit, wrong_has = (bool(form.unit or form.is_percent) for form in (right_form, wrong_form))
        if has_unit != wrong_has:
            return "without the unit of the gold answer" if has_unit else "with a unit, unlike the gold answer"
    quantities = [form for form in (right_form, wrong_form) if isinstance(form, Quantity) and form.value.numbers]
    numbers = [number for form in quantities if (number := real_value(form.value)) is not None]
    if len(numbers) == 2:
        right, other = numbers
        smaller, larger = sorted(max(1.0, abs(number)) for number in numbers)
        if larger > FAR * smaller:
            return "far from the gold answer"
        if right.is_integer() != other.is_integer():
            return "not whole, as the gold answer is" if right.is_integer() else "whole, unlike the gold answer"
    return ""


def _kind(form: object) -> str:
    return "quantity" if isinstance(form, Quantity) else str(getattr(form, "kind", ""))
