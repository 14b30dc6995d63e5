r"""Labelled trajectories as other programs read them, one row each, in one of three forms.

    trl            prompt "2 + 3?"   completions ["2 + 3 = 5."]   labels [true]
    openrlhf       input "2 + 3? Step 1: 2 + 3 = 5. ки"           value ["+"]
    math-shepherd  input "2 + 3? Step 1: 2 + 3 = 5. ки"           label "2 + 3? Step 1: 2 + 3 = 5. +"

After these come the same columns in every form: soft labels, rewards, gold answer, ids (`SHARED_COLUMNS`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

from cpmi_dagster.errors import CpmiError
from cpmi_dagster.exports import FormName
from cpmi_dagster.exports.hard_labels import HardLabels
from cpmi_dagster.rewards.dataset import KEY, negative_lists, step_lists
from cpmi_dagster.trajectories.row_fields import MARKS
from cpmi_dagster.trajectories.step_rows import TrlRow
from cpmi_dagster.trajectories.step_segments import MARKER

DEFAULT_FORM: FormName = "trl"
TEXTS = pl.List(pl.String())
NUMBERS = pl.List(pl.Float64())
FLAGS = pl.List(pl.Boolean())

SHARED_COLUMNS: Mapping[str, tuple[pl.DataType, str]] = {
    "soft_labels": (NUMBERS, "soft label of each step, in [0, 1]"),
    "rewards": (NUMBERS, "reward of each step as measured, before it was normalised"),
    "gold_answer": (pl.String(), "gold answer of the question"),
    "hard_negatives": (TEXTS, "wrong answers that the gold answer was contrasted with, by rank; none where not needed"),
    "source_labels": (FLAGS, "label of each step in the source, true = right; null where it has none"),
    "trajectory_id": (pl.String(), "`t` and the row number of the source"),
    "source_id": (pl.String(), "id of the row in the source; null where it has none"),
    "question_id": (pl.String(), "hash of the normalised question"),
    "task": (pl.String(), "what the source calls the kind of question"),
}


@dataclass(frozen=True)
class Form:
    """A form of labelled rows.

    Attributes:
        columns: the form's own columns, their types and meanings.
        read_by: whom it is for, and with which options, as Markdown.
        own: from question, steps and hard labels of a row, the values of these columns in order.
    """

    columns: Mapping[str, tuple[pl.DataType, str]]
    read_by: str
    own: Callable[[str, list[str], list[bool]], tuple[object, ...]]

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """All columns and their types."""
        return {name: dtype for name, (dtype, _) in {**self.columns, **SHARED_COLUMNS}.items()}

    def meanings(self, *, is_probability: bool, is_contrast: bool) -> dict[str, str]:
        """All columns and what they hold.

        Args:
            is_probability: whether the rewards are the soft labels as they are.
            is_contrast: whether the reward contrasts the gold answer with the hard negatives.
        """
        found = {name: meaning for name, (_, meaning) in {**self.columns, **SHARED_COLUMNS}.items()}
        if is_probability:
            found["rewards"] = "the same as `soft_labels`, since this reward is a probability"
        if not is_contrast:
            found["hard_negatives"] = "wrong answers sampled for the question, by rank; this reward does not use them"
        return found


def _marked(question: str, steps: list[str], labels: list[bool]) -> tuple[str, str]:
    """The text with a marker behind every step, and with the labels in place of the markers."""
    row = TrlRow(prompt=question, completions=steps, labels=[MARKS[label] for label in labels]).raw()
    return row.input, row.label


INPUT = (pl.String(), f"question and steps, each step closed by the marker `{MARKER}`")
FORMS: dict[FormName, Form] = {
    "trl": Form(
        {
            "prompt": (pl.String(), "question"),
            "completions": (TEXTS, "steps in order"),
            "labels": (FLAGS, "hard label of each step, true = right"),
        },
        "TRL's stepwise supervision, and most programs that train process reward models",
        lambda question, steps, labels: (question, steps, labels),
    ),
    "openrlhf": Form(
        {"input": INPUT, "value": (TEXTS, "hard label of each marker, `+` or `-`")},
        f"OpenRLHF's `train_prm`, with `--input_key input --label_key value --placeholder_token {MARKER} "
        "--reward_tokens + -`; `--label_key soft_labels` trains on the soft labels",
        lambda question, steps, labels: (_marked(question, steps, labels)[0], [MARKS[label] for label in labels]),
    ),
    "math-shepherd": Form(
        {"input": INPUT, "label": (pl.String(), "the same text with `+` or `-` in place of each marker")},
        "what reads Math-Shepherd, this project included",
        _marked,
    ),
}


@dataclass(frozen=True)
class ExportedRows:
    """Rows in a form, and how many trajectories could not be written in it: their text holds its marker."""

    rows: pl.DataFrame
    left_out: int


def labelled_trajectories(
    trajectories: pl.DataFrame,
    negatives: pl.DataFrame,
    rewards: pl.DataFrame,
    soft_labels: pl.DataFrame,
    reward_type: str,
) -> pl.DataFrame:
    """Trajectories with the labels of one reward type as lists.

    Args:
        trajectories: columns of alignment.trajectories, the selected rows only.
        negatives: columns of labels.hard_negatives.
        rewards: columns of labels.step_rewards.
        soft_labels: columns of dataset.soft_labels.

    Returns:
        question, steps and `SHARED_COLUMNS`, by trajectory_id; trajectories without such labels are not in it.

    Raises:
        CpmiError: rewards and soft labels are not of the same steps, since one of the tables was made again.
    """
    soft = step_lists(soft_labels, "soft_label", reward_type).rename({"soft_label": "soft_labels"})
    raw = step_lists(rewards, "reward", reward_type).rename({"reward": "rewards"})
    rows = (
        trajectories.join(soft, on=KEY)
        .join(raw, on=KEY, how="left")
        .join(negative_lists(negatives), on=KEY, how="left")
        .with_columns(pl.col("hard_negatives").fill_null([]))
        .rename({"shepherd_labels": "source_labels"})
        .select("question", "steps", *SHARED_COLUMNS)
        .sort(KEY)
    )
    steps = pl.col("steps").list.len()
    fits = (pl.col("rewards").list.len() == steps) & (pl.col("soft_labels").list.len() == steps)
    if (stale := rows.filter(~fits.fill_null(False))).height or rows.height < soft.height:
        example = f", for example {stale[KEY][0]}" if stale.height else ""
        raise CpmiError(
            f"rewards and soft labels of {stale.height or soft.height - rows.height:,} trajectories do not come "
            f"from the same run{example}; run `cpmi run` first"
        )
    return rows


def exported_rows(labelled: pl.DataFrame, form: FormName, hard: HardLabels) -> ExportedRows:
    """Labelled trajectories in a form.

    Args:
        labelled: from `labelled_trajectories`.
        form: a key of `FORMS`.
    """
    chosen = FORMS[form]
    is_marked = form != DEFAULT_FORM
    holds_marker = pl.concat_str("question", pl.col("steps").list.join("\n"), separator="\n").str.contains(
        MARKER, literal=True
    )
    kept = labelled.filter(~holds_marker) if is_marked else labelled
    texts = kept.select("question", "steps", hard.is_right).iter_rows()
    own = pl.DataFrame(
        [chosen.own(*row) for row in texts],
        schema={name: dtype for name, (dtype, _) in chosen.columns.items()},
        orient="row",
    )
    rows = pl.concat([own, kept.select(*SHARED_COLUMNS)], how="horizontal")
    return ExportedRows(rows.cast(pl.Schema(chosen.schema)), labelled.height - kept.height)
