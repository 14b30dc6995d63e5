r"""Labelled trajectories as other programs read them, one row each, with hard labels from a threshold on.

    trl            prompt "2 + 3?"   completions ["2 + 3 = 5."]   labels [true]
    math-shepherd  input "2 + 3? Step 1: 2 + 3 = 5. ки"           label "2 + 3? Step 1: 2 + 3 = 5. +"

Both forms have the `SHARED_COLUMNS` too, and of further reward types `rewards_mc` and `soft_labels_mc`. A step is right
from the threshold of its reward on (0 of a difference, 0.5 of a probability), from a number, or from the reward on that
agrees best with steps that people have judged:

    cpmi           -0.4 -0.1  0.2  0.9    by default                               - - + +
    cpmi           -0.4 -0.1  0.2  0.9    0.5                                      - - - +
    cpmi           -0.4 -0.1  0.2  0.9    calibrated, if people call - + + +       - + + +
    cpmi_merge1     0.25 -0.1 0.2  0.9    0.5 at the first step, then as above     - - + +
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.label_quality import FEWEST_OF_EACH
from cpmi_dagster.benchmarks.thresholds import candidate_thresholds
from cpmi_dagster.errors import UsageError
from cpmi_dagster.exports import FormName
from cpmi_dagster.files.text import counted
from cpmi_dagster.math_shepherd import render_row
from cpmi_dagster.rewards.dataset import KEY
from cpmi_dagster.rewards.registry import REWARD_TYPES
from cpmi_dagster.rewards.reward_type import PROBABILITY
from cpmi_dagster.trajectories.steps import MARKER

DEFAULT_FORM: FormName = "trl"
FORMS: Mapping[FormName, Mapping[str, str]] = {
    "trl": {"prompt": "question", "completions": "steps in order", "labels": "hard label of each step, true = right"},
    "math-shepherd": {
        "input": f"question and steps, each step closed by the marker `{MARKER}`",
        "label": "the same text with `+` or `-` in place of each marker",
    },
}
"""The columns of each form with their meanings."""
SHARED_COLUMNS = {
    "soft_labels": "soft label of each step, in [0, 1]",
    "rewards": "reward of each step as measured",
    "gold_answer": "gold answer of the question",
    "hard_negatives": "wrong answers sampled for the question, by rank",
    "source_labels": "label of each step in the source, true = right; null if it has none",
    "trajectory_id": "`t` and the row number of the source",
    "source_id": "id of the row in the source; null if it has none",
    "question_id": "hash of the normalised question",
    "task": "what the source calls the kind of question",
}
NAMES = {"question": "prompt", "steps": "completions", "shepherd_labels": "source_labels"}
CALIBRATED: Literal["calibrated"] = "calibrated"
FAR = 0.2
"""Difference between the shares of steps that a threshold and people call right, above which that is said."""
UNJUDGED = pl.DataFrame(schema={KEY: pl.String(), "correct": pl.List(pl.Boolean())})
Rule = float | Literal["calibrated"] | None


class Threshold(NamedTuple):
    """The least reward of a right step, and why; a merge has another one at its first steps."""

    least: float
    why: str
    first_steps: int = 0
    first_least: float = 0.0

    @property
    def is_right(self) -> pl.Expr:
        """The hard labels of a trajectory as a list, from its column `rewards`."""
        first = pl.col("rewards").list.head(self.first_steps).list.eval(pl.element() >= self.first_least)
        return pl.concat_list(
            first, pl.col("rewards").list.slice(self.first_steps).list.eval(pl.element() >= self.least)
        )

    def words(self, labelled: pl.DataFrame) -> str:
        """Which steps are right, and what share of these, as a sentence."""
        share = labelled.select(self.is_right.explode(empty_as_null=False)).to_series().mean()
        first = f"; of steps up to {self.first_steps}, at least {self.first_least:g}" if self.first_steps else ""
        rule = f"those with a reward of at least {self.least:g}, {self.why}{first}"
        return f"Hard labels call {share:.1%} of the steps right: {rule}."


def parse_rule(text: str | None) -> Rule:
    """The rule of `0.3` or `calibrated`; None is the threshold of the rewards' own scale.

    Raises:
        UsageError: it is neither.
    """
    if text is None or text == CALIBRATED:
        return text
    with suppress(ValueError):
        if isfinite(number := float(text)):
            return number
    raise UsageError(f"--threshold {text}: give a number, or calibrated")


def choose_threshold(
    labelled: pl.DataFrame, reward_type: str, is_probability: bool, rule: Rule, judged: pl.DataFrame
) -> Threshold:
    """The threshold of a set's hard labels by a rule; the first steps of a merge keep that of their own scale.

    Args:
        labelled: columns trajectory_id and rewards, a list.
        is_probability: the rewards are soft labels as they are.
        judged: columns trajectory_id and correct, a list with null for steps that nobody has judged.

    Raises:
        UsageError: the rewards have no scale of their own, or `calibrated` lacks judged steps that are right or wrong.
    """
    entry = REWARD_TYPES.get(reward_type)
    scale = entry.scale if entry else PROBABILITY if is_probability else None
    merge = None if is_probability or entry is None else entry.merge
    first_scale = REWARD_TYPES[merge.first].scale if merge else None
    first = (merge.steps, first_scale.right_from or 0.0) if merge and first_scale else (0, 0.0)
    if rule is None:
        if scale is None or scale.right_from is None:
            raise UsageError(
                f"no reward of `{reward_type}` says by itself that a step is right; give --threshold NUMBER or "
                "calibrated"
            )
        return Threshold(scale.right_from, f"since it is {scale.words}", *first)
    if isinstance(rule, float):
        return Threshold(rule, "the number given", *first)
    lists = pl.col("rewards", "correct").list.slice(first[0])
    steps = labelled.join(judged.select(KEY, "correct"), on=KEY).select(lists)
    steps = steps.explode("rewards", "correct", empty_as_null=False).drop_nulls("correct")
    right, wrong = (np.sort(steps.filter(correct=known)["rewards"].to_numpy()) for known in (True, False))
    if not len(right) or not len(wrong):
        raise UsageError(
            f"--threshold calibrated takes steps judged right and steps judged wrong, and there are {len(right):,} and "
            f"{len(wrong):,}; name judged steps as `sources.step_truth` and run `cpmi run`, or give a number"
        )
    thresholds = candidate_thresholds(steps["rewards"])
    passed = 1 - np.searchsorted(right, thresholds) / len(right)
    accuracy = (passed + np.searchsorted(wrong, thresholds) / len(wrong)) / 2
    best = int(accuracy.argmax())
    why = f"with the best balanced accuracy, {accuracy[best]:.1%}, on the {steps.height:,} judged steps of this set"
    if min(len(right), len(wrong)) < FEWEST_OF_EACH:
        why += f" (a guess: {len(right):,} are judged right and {len(wrong):,} wrong)"
    called, known = float(np.mean(steps["rewards"].to_numpy() >= thresholds[best])), len(right) / steps.height
    if abs(called - known) > FAR:
        why += f" (far from people: it calls {called:.0%} of these right, and they {known:.0%})"
    return Threshold(float(thresholds[best]), why, *first)


def further_columns(reward_types: Sequence[str]) -> dict[str, str]:
    """The columns of reward types beside the first one, with their meanings."""
    return {
        f"{column}_{name}": f"{SHARED_COLUMNS[column]}, by `{name}`; null if it has none"
        for name in reward_types
        for column in ("soft_labels", "rewards")
    }


def with_further_rewards(
    labelled: pl.DataFrame, step_rewards: pl.DataFrame, soft_labels: pl.DataFrame, reward_types: Sequence[str]
) -> pl.DataFrame:
    """Labelled trajectories with the `further_columns`: lists as long as the steps, null for steps without a value.

    Args:
        labelled: from `rewards.dataset.labelled_trajectories`.
        step_rewards: columns of labels.step_rewards.
        soft_labels: columns of dataset.soft_labels.
    """
    steps = labelled.select(KEY, step_index=pl.int_ranges(pl.col("steps").list.len())).explode("step_index")
    for name in reward_types:
        for values, column in ((soft_labels, "soft_label"), (step_rewards, "reward")):
            known = values.filter(reward_type=name).select(KEY, "step_index", column)
            lists = steps.join(known, on=[KEY, "step_index"], how="left", maintain_order="left")
            of_type = lists.group_by(KEY, maintain_order=True).agg(pl.col(column).alias(f"{column}s_{name}"))
            has_values = pl.col(KEY).is_in(known[KEY].unique().implode())
            labelled = labelled.join(of_type.filter(has_values), on=KEY, how="left", maintain_order="left")
    return labelled


def exported_rows(
    labelled: pl.DataFrame, form: FormName, threshold: Threshold, further: Collection[str] = ()
) -> pl.DataFrame:
    """Labelled trajectories in a form; those whose text holds the marker cannot be written as marked text.

    Args:
        labelled: from `rewards.dataset.labelled_trajectories`, or `with_further_rewards`.
        further: columns of it that are kept beside those of the form.
    """
    rows = labelled.with_columns(labels=threshold.is_right).rename(NAMES)
    if form == "math-shepherd":
        texts = pl.concat_str("prompt", pl.col("completions").list.join("\n"), separator="\n")
        rows = rows.filter(~texts.str.contains(MARKER, literal=True))
        marked = [render_row(*row) for row in rows.select("prompt", "completions", "labels").iter_rows()]
        rows = rows.with_columns(pl.DataFrame(marked, schema=list(FORMS[form]), orient="row"))
    return rows.select(*FORMS[form], *SHARED_COLUMNS, *further)


def split_by_question(rows: pl.DataFrame, test_share: float) -> dict[str, pl.DataFrame]:
    """Rows by the name of their part; a hash of the question says in which part all of its rows are.

    A question stays in its part if rows are added.

    Args:
        rows: with a column question_id.
        test_share: about this share of the questions is in `test`, the others in `train`; 0 for no `test`.

    Raises:
        UsageError: a part would be empty.
    """
    if not test_share:
        return {"train": rows}

    def is_test(question_id: str) -> bool:
        digest = sha256(f"test {question_id}".encode()).digest()
        return int.from_bytes(digest[:8], "big") < test_share * 2**64

    ids = rows["question_id"].unique(maintain_order=True)
    tested = pl.col("question_id").is_in(ids.filter([is_test(each) for each in ids]).implode())
    parts = {"train": rows.filter(~tested), "test": rows.filter(tested)}
    if empty := [name for name, part in parts.items() if part.is_empty()]:
        raise UsageError(
            f"--test-share {test_share:g} leaves {empty[0]} empty, of {counted(len(ids), 'question')}; give another "
            "share, or none"
        )
    return parts


def write_rows(rows: pl.DataFrame, path: Path) -> None:
    """Write a file with Parquet's plain types; Polars' own types would become features of their own in `datasets`."""
    path.parent.mkdir(exist_ok=True)
    rows.write_parquet(path, use_pyarrow=True, pyarrow_options={"store_schema": False})
