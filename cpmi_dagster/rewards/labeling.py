"""Label rows in one call, without a home, as `cpmi label` does.

>>> label([{"uid": 7, "problem": "1 + 1?", "response": "1 + 1 = 2.\\nSo 3.", "answer": 2}], "miniature:labeler")
[{"uid": 7, "problem": "1 + 1?", "response": "1 + 1 = 2.\\nSo 3.", "answer": 2, "steps": ["1 + 1 = 2.", "So 3."],
  "rewards": {"cpmi": [0.42, -1.10]}, "soft_labels": {"cpmi": [0.73, 0.27]}, "reason": None}]
"""

import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import polars as pl
from tqdm.auto import tqdm

from cpmi_dagster.contracts.contexts import PAPERS, Conditioning
from cpmi_dagster.contracts.keys import CONTROL_LOGPROBS, LOGPROBS
from cpmi_dagster.contracts.tables import AnswerLogprobs, ControlLogprobs, RejectedTrajectories
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.text import counted
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.rewards.dataset import step_lists
from cpmi_dagster.rewards.hazard import read_weights, shipped_weights
from cpmi_dagster.rewards.labelled_rows import add_labels
from cpmi_dagster.rewards.registry import REWARD_TYPES, demand_of, reward_type
from cpmi_dagster.rewards.reward_type import Demand, LabelInputs
from cpmi_dagster.rewards.settings import Rewards, SoftLabels
from cpmi_dagster.rewards.soft_labels import soft_labels
from cpmi_dagster.rewards.step_rewards import notes_on_unlabelled, step_rewards
from cpmi_dagster.scoring.logprobs import answer_logprobs, control_logprobs
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.scoring.trajectories import (
    LabelerOptions,
    Prepared,
    check_options,
    prepare_trajectories,
    sampled_negatives,
    settings_of,
)
from cpmi_dagster.trajectories.given_rows import give_back, read_table
from cpmi_dagster.trajectories.rows import originals, separate_duplicates

SECONDS_BETWEEN_LINES = 60.0
"""Between two states of the progress outside a terminal."""
DEFAULT_REWARDS = ("cpmi", "first_error", "right_so_far")
logger = logging.getLogger(__name__)


class LabelOptions(LabelerOptions, total=False):
    """Options of labelling: those of `LabelerOptions`, and weights.

    Attributes:
        weights: file that `cpmi calibrate` wrote, for `first_error` and `right_so_far`; by default the one that ships.
    """

    weights: str | Path


@dataclass(frozen=True)
class LabelledSteps:
    """Labels, and the trajectories that have none.

    Attributes:
        labels: trajectory_id, reward_type, and lists by step: reward (in the type's own unit), soft_label (in [0, 1]).
        rejected: trajectory_id, stage, reason.
        notes: a sentence on every trajectory that lacks a reward type.
    """

    labels: pl.DataFrame
    rejected: pl.DataFrame
    notes: list[str]


def label(
    rows: Any,
    model: str | Path | LoadedModel,
    rewards: Sequence[str] = DEFAULT_REWARDS,
    default_conditioning: Conditioning = PAPERS,
    **options: Unpack[LabelOptions],
) -> Any:
    """The rows with rewards and soft labels of every step: what `cpmi label` writes for a file of them.

    Only a row's `negative_answers` are read here alone: with them, nothing is sampled for it. A bar on stderr shows the
    progress; outside a terminal it is written once a minute at most.

    Args:
        rows: a list of dicts, a pandas or polars frame, or a `datasets.Dataset`, in any form that `cpmi label` reads:
            question and steps, question and solution, a chat, …, with a gold answer.
        model: the labeler: local folder, GGUF file, hub id, `miniature:labeler`, or a loaded model.
        rewards: names of reward types that need only trajectory and labeler.
        default_conditioning: which steps stand between question and answer, for types whose name does not say it.
        options: see `LabelOptions`.

    Returns:
        The rows in their order and type, with their own columns (one with a name of ours becomes `input_…`) and steps
        (as split), rewards (by reward type, a value per step), soft_labels (Eq. 7, over all these rows), and reason,
        if the row cannot be read or lacks a label. `explode_steps` makes a row per step of them.

    Raises:
        SettingsError: a reward type or option does not exist, or the type needs more than trajectory and labeler.
        ScoringError: the rows are no table.
        ModelError: the model cannot be loaded, or cannot read token trees.

    Examples:
        >>> from cpmi_dagster import label
        >>> hats = {
        ...     "uid": 7,
        ...     "question": "Ann has 3 hats and buys 2. How many has she?",
        ...     "response": "3 + 2 = 5.\\n\\nOne is lost: 5 - 1 = 4. The answer is: 4",
        ...     "answer": 5,
        ... }
        >>> [row] = label([hats], "miniature:labeler")
        >>> row["uid"], row["steps"]
        (7, ['3 + 2 = 5.', 'One is lost: 5 - 1 = 4. The answer is: 4'])
        >>> right, wrong = row["rewards"]["cpmi"]
        >>> right > wrong
        True
    """
    demand, types = labeler_demand(rewards, default_conditioning, options), list(dict.fromkeys(rewards))
    rows = list(rows) if isinstance(rows, Iterator) else rows
    given = read_table(rows)
    trajectories, repeated = separate_duplicates(given.trajectories)
    every = 0.1 if sys.stderr.isatty() else SECONDS_BETWEEN_LINES
    passes = demand.needs[LOGPROBS] + demand.needs[CONTROL_LOGPROBS]
    with tqdm(total=passes * trajectories.height, desc="labelling", mininterval=every) as bar:

        def advance(count: int) -> None:
            bar.update(count)

        options.setdefault("progress", advance)
        labelled = label_in_full(trajectories, model, rewards, default_conditioning, **options)
    unread = pl.concat([given.rejected.select(repeated.columns), repeated])
    first = originals(given.trajectories)
    numbered = ((row, first.get(number, number)) for number, row in enumerate(given.rows))
    labelled_rows = list(
        add_labels(numbered, trajectories, unread, labelled.rejected, labelled.labels, types, labelled.notes)
    )
    if lacking := sum(row["reason"] is not None for row in labelled_rows):
        total = counted(len(labelled_rows), "row")
        logger.warning("%s of %s without all labels: `reason` says why", f"{lacking:,}", total)
    values = pl.Struct(dict.fromkeys(types, pl.List(pl.Float64)))
    return give_back(rows, labelled_rows, {"rewards": values, "soft_labels": values, "reason": pl.String})


def label_in_full(
    trajectories: pl.DataFrame,
    model: str | Path | LoadedModel,
    rewards: Sequence[str] = ("cpmi",),
    default_conditioning: Conditioning = PAPERS,
    **options: Unpack[LabelOptions],
) -> LabelledSteps:
    """Rewards and soft labels of every step, as a run of the DAG with the same trajectory ids and seed makes them.

    Args:
        trajectories: trajectory_id, question, steps, final_answer, gold_answer, negative_answers; the others as for
            `label`.

    Raises:
        SettingsError, ModelError: as `label`.
    """
    demand, types = labeler_demand(rewards, default_conditioning, options), list(dict.fromkeys(rewards))
    prepared = prepare_trajectories(trajectories, model, options, with_negatives=demand.negatives != 0)
    inputs, rejected, notes = _label_inputs(trajectories, prepared, demand, default_conditioning, options)
    computed = step_rewards(inputs, types)
    labels = step_lists(computed.with_columns(soft_labels(computed, SoftLabels())["soft_label"]))
    notes += notes_on_unlabelled(computed, inputs, types)
    return LabelledSteps(labels, rejected, notes)


def labeler_demand(rewards: Sequence[str], conditioning: Conditioning, options: LabelOptions) -> Demand:
    """What the reward types need; a type that needs more than trajectory and labeler is a `SettingsError`."""
    check_options(options, LabelOptions)
    settings_of(Rewards, {"types": (), "default_conditioning": conditioning})
    count = sampled_negatives(options).count
    for entry in map(reward_type, rewards):
        if not entry.is_of_labeler:
            enough = ", ".join(name for name, other in REWARD_TYPES.items() if other.is_of_labeler)
            raise SettingsError(
                f"`{entry.name}` needs more than a trajectory and its labeler; make it with `cpmi run`, or give one of "
                f"{enough}"
            )
        if (entry.demand.negatives or 0) > count:
            raise SettingsError(
                f"`{entry.name}` needs {entry.demand.negatives} hard negatives, and `negatives` is {count}; raise it, "
                "or leave the type out"
            )
    return demand_of(rewards, conditioning, count)


def _label_inputs(
    trajectories: pl.DataFrame,
    prepared: Prepared,
    demand: Demand,
    conditioning: Conditioning,
    options: LabelOptions,
) -> tuple[LabelInputs, pl.DataFrame, list[str]]:
    """What the rewards are computed from, rejected trajectories, and notes on missing controls."""
    model, negatives = prepared
    progress, with_negatives = options.get("progress"), demand.negatives != 0
    logprobs, rejected = AnswerLogprobs.create_empty(), RejectedTrajectories.create_empty()
    scoring = settings_of(Scoring, {**options, "conditionings": demand.conditionings})
    if demand.needs[LOGPROBS]:
        scored = answer_logprobs(trajectories, negatives, model, scoring, progress, with_negatives=with_negatives)
        logprobs, rejected = scored.logprobs, scored.rejected
    step_logprobs, notes = ControlLogprobs.create_empty(), []
    if demand.needs[CONTROL_LOGPROBS]:
        step_logprobs, _, notes = control_logprobs(trajectories, model, scoring, progress)
    seed = options.get("seed", 0)
    weights = read_weights(Path(options["weights"])) if "weights" in options else shipped_weights()
    inputs = LabelInputs(
        trajectories,
        logprobs,
        step_logprobs=step_logprobs,
        conditioning=conditioning,
        seed=seed,
        weights=weights,
    )
    return inputs, rejected, notes
