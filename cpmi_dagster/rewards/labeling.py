"""Label trajectories in one call, without a home, as the DAG does.

>>> label([{"question": "1 + 1?", "steps": ["1 + 1 = 2.", "So 3."], "gold_answer": "2"}], "miniature:labeler")
id  step_index  step        reward_type  reward  soft_label
0   0           1 + 1 = 2.  cpmi           0.42        0.73
0   1           So 3.       cpmi          -1.10        0.27
"""

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import polars as pl
from tqdm.auto import tqdm

from cpmi_dagster.answers.extraction import extract_answer
from cpmi_dagster.contracts.contexts import PAPERS, Conditioning
from cpmi_dagster.contracts.keys import CONTROLS, LOGPROBS
from cpmi_dagster.contracts.tables import AnswerLogprobs, ControlLogprobs
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.negatives.settings import Negatives
from cpmi_dagster.rewards.registry import REWARD_TYPES, demand_of, reward_type
from cpmi_dagster.rewards.reward_type import Demand, Evidence
from cpmi_dagster.rewards.settings import Rewards, SoftLabels
from cpmi_dagster.rewards.soft_labels import soft_labels
from cpmi_dagster.rewards.step_rewards import notes_on_unlabelled, step_rewards
from cpmi_dagster.scoring.given_rows import as_frame
from cpmi_dagster.scoring.logprobs import answer_logprobs, control_logprobs
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.scoring.trajectories import Prepared, ReadingOptions, check_options, prepare_trajectories, settings_of

SECONDS_BETWEEN_LINES = 60.0
"""Between two states of the progress outside a terminal."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LabelledSteps:
    """Labels, and the trajectories that have none.

    Attributes:
        labels: id, step_index, step (its text), reward_type, reward (in the type's own unit), soft_label (in [0, 1]).
        rejected: id, stage, reason.
        notes: a sentence on every trajectory that lacks a reward type.
    """

    labels: pl.DataFrame
    rejected: pl.DataFrame
    notes: list[str]


def label(
    trajectories: Any,
    model: str | Path | LoadedModel,
    rewards: Sequence[str] = ("cpmi",),
    default_conditioning: Conditioning = PAPERS,
    **options: Unpack[ReadingOptions],
) -> pl.DataFrame:
    """Rewards and soft labels of every step, as a run of the DAG with the same ids and seed makes them.

    A bar on stderr shows the progress; outside a terminal it is written once a minute at most. A trajectory that cannot
    be labelled is named in a warning and never stops the others; `label_in_full` returns the reasons.

    Args:
        trajectories: a list of dicts, a pandas or polars frame, or a `datasets.Dataset`, with question, steps (list of
            texts), gold_answer and, optionally, id and negative_answers (list). With negative answers nothing is
            sampled; if there are none, the model samples them.
        model: the labeler: local folder, GGUF file, hub id, `miniature:labeler`, or a loaded model.
        rewards: names of reward types that need only trajectory and labeler.
        default_conditioning: which steps stand between question and answer, for types whose name does not say it.
        options: see `ReadingOptions`.

    Returns:
        id, step_index (from 0), step, reward_type, reward, soft_label (Eq. 7, over all trajectories that are given);
        one row per step and reward type, in the order given.

    Raises:
        SettingsError: a reward type or option does not exist, or the type needs more than trajectory and labeler.
        ScoringError: a column is missing or of the wrong type, or an id is null or repeated.
        ModelError: the model cannot be loaded, or cannot read token trees.

    Examples:
        >>> from cpmi_dagster import label
        >>> hats = {
        ...     "question": "Ann has 3 hats and buys 2. How many has she?",
        ...     "steps": ["3 + 2 = 5.", "One is lost: 5 - 1 = 4. The answer is: 4"],
        ...     "gold_answer": "5",
        ...     "negative_answers": ["6", "1"],
        ... }
        >>> labels = label([hats], "miniature:labeler")
        >>> labels.columns
        ['id', 'step_index', 'step', 'reward_type', 'reward', 'soft_label']
        >>> right, wrong = labels["reward"]
        >>> right > wrong
        True
    """
    frame, demand = as_frame(trajectories), labeler_demand(rewards, default_conditioning, options)
    every = 0.1 if sys.stderr.isatty() else SECONDS_BETWEEN_LINES
    with tqdm(total=_passes(demand) * frame.height, desc="labelling", mininterval=every) as bar:

        def advance(count: int) -> None:
            bar.update(count)

        options.setdefault("progress", advance)
        labelled = label_in_full(frame, model, rewards, default_conditioning, **options)
    for sentence in (*labelled.rejected["reason"], *labelled.notes):
        logger.warning(sentence)
    return labelled.labels


def label_in_full(
    trajectories: Any,
    model: str | Path | LoadedModel,
    rewards: Sequence[str] = ("cpmi",),
    default_conditioning: Conditioning = PAPERS,
    **options: Unpack[ReadingOptions],
) -> LabelledSteps:
    """`label` without a progress bar, with the rejected trajectories; the same errors."""
    demand, types = labeler_demand(rewards, default_conditioning, options), list(dict.fromkeys(rewards))
    trajectories = as_frame(trajectories)
    if not demand.conditionings and "gold_answer" not in trajectories.columns:
        trajectories = trajectories.with_columns(gold_answer=pl.lit(None, pl.String))
    given = prepare_trajectories(trajectories, model, options, contrasted=demand.negatives != 0)
    evidence, rejected, notes = _evidence(given, demand, default_conditioning, options)
    computed = step_rewards(evidence, types)
    labels = computed.with_columns(soft_labels(computed, SoftLabels())["soft_label"])
    steps = given.frame.with_row_index("row").select(
        "row", "trajectory_id", step_index=pl.int_ranges(pl.col("steps").list.len()), step="steps"
    )
    rows = steps.explode("step_index", "step").join(labels, on=["trajectory_id", "step_index"])
    rows = rows.sort("row", pl.col("reward_type").cast(pl.Enum(types)), "step_index").drop("row")
    to_id = {"trajectory_id": "id"}
    notes += notes_on_unlabelled(computed, given.frame.height, types)
    return LabelledSteps(rows.rename(to_id), rejected.rename(to_id), notes)


def labeler_demand(rewards: Sequence[str], conditioning: Conditioning, options: ReadingOptions) -> Demand:
    """What the reward types need; a type that needs more than trajectory and labeler is a `SettingsError`."""
    check_options(options, ReadingOptions)
    settings_of(Rewards, {"types": (), "default_conditioning": conditioning})
    count = options.get("negatives", Negatives().count)
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


def _passes(demand: Demand) -> int:
    """The number of passes of the labeler over the trajectories."""
    return demand.asks_for[LOGPROBS] + demand.asks_for[CONTROLS]


def _evidence(
    given: Prepared, demand: Demand, conditioning: Conditioning, options: ReadingOptions
) -> tuple[Evidence, pl.DataFrame, list[str]]:
    """Evidence for the rewards, rejected trajectories, and notes on missing controls."""
    progress, logprobs, rejected = options.get("progress"), AnswerLogprobs.create_empty(), given.rejected
    scoring = settings_of(Scoring, {**options, "conditionings": demand.conditionings})
    if progress:
        progress(rejected.height * _passes(demand))
    if demand.asks_for[LOGPROBS]:
        contrasted = demand.negatives != 0
        scored = answer_logprobs(given.frame, given.negatives, given.model, scoring, progress, contrasted=contrasted)
        logprobs, rejected = scored.logprobs, pl.concat([rejected, scored.rejected])
    step_logprobs, notes = ControlLogprobs.create_empty(), []
    if demand.asks_for[CONTROLS]:
        step_logprobs, _, notes = control_logprobs(given.frame, given.model, scoring, progress)
    final_answers = [extract_answer(steps[-1]) for steps in given.frame["steps"]]
    evidence = Evidence(
        given.frame.with_columns(final_answer=pl.Series(final_answers, dtype=pl.String)),
        logprobs,
        step_logprobs=step_logprobs,
        conditioning=conditioning,
        seed=options.get("seed", 0),
    )
    return evidence, rejected, notes
