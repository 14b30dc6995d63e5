"""What the labeler reads for step surprisal: log p(step i | question, steps before it), without any answer."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import polars as pl

from cpmi_dagster.contracts.contexts import SCORED_CONTROLS
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.tables import ControlLogprobs, HardNegatives
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.admission import Wanted, admit
from cpmi_dagster.scoring.logprobs import ScoredAnswers, admitted_logprobs
from cpmi_dagster.scoring.settings import Scoring


class ControlScores(NamedTuple):
    """Rows of `labels.control_logprobs`, what they cost, and a sentence on every trajectory without some."""

    logprobs: pl.DataFrame
    cost: Cost
    notes: list[str]


def control_logprobs(
    trajectories: pl.DataFrame,
    model: LoadedModel,
    scoring: Scoring,
    progress: Callable[[int], None] | None = None,
    wanted: Wanted | None = None,
) -> ControlScores:
    """Score the steps themselves, after the question and the steps before them.

    Args:
        trajectories: columns trajectory_id, question, steps, gold_answer.
        progress: called with the number of trajectories just finished.
        wanted: what is scored, each of rank 0; all by default.

    Raises:
        ModelError: as `answer_logprobs`.
    """
    [control] = SCORED_CONTROLS
    scored = step_logprobs(trajectories, model, scoring, progress, wanted)
    logprobs = ControlLogprobs.cast(scored.logprobs.with_columns(control=pl.lit(control)))
    notes = [
        f"{trajectory_id} has no `{control}`: {reason}"
        for trajectory_id, reason in scored.rejected["trajectory_id", "reason"].iter_rows()
    ]
    return ControlScores(logprobs.sort(ControlLogprobs.primary_key()), scored.cost, notes)


def step_logprobs(
    trajectories: pl.DataFrame,
    model: LoadedModel,
    scoring: Scoring,
    progress: Callable[[int], None] | None = None,
    wanted: Wanted | None = None,
) -> ScoredAnswers:
    """As `answer_logprobs`, of the steps themselves in place of answers; see `control_logprobs`."""
    admit_part = partial(
        admit,
        negatives=HardNegatives.create_empty(),
        tokenizer=model.tokenizer,
        context_length=model.context_length,
        scoring=scoring,
        wanted=wanted,
        contrasted=False,
        of_steps=True,
    )
    return admitted_logprobs(trajectories, admit_part, model, scoring, progress)
