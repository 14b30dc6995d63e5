"""Scores of a trained reward model for the solutions of its training set, beside their labels.

trajectory_id  step_index  probability  label  held_out
t000000017     0           0.81         0.91   true        of a validation question
t000000021     0           0.78         0.60   false
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl

from cpmi_dagster.contracts.seeded import uniform_number
from cpmi_dagster.prm.examples import validation_questions
from cpmi_dagster.prm.features import load_reward_head, score_features
from cpmi_dagster.prm.inputs import encode_solutions
from cpmi_dagster.prm.model import load_reward_model
from cpmi_dagster.prm.scoring import score_steps
from cpmi_dagster.prm.settings import Training

MOST_SCORED = 2_000
"""Most solutions that are scored, since a large set takes long to read: those held out, then a random draw."""


def own_scores(
    model: Path,
    examples: pl.DataFrame,
    training: Training,
    seed: int,
    features: pl.DataFrame | None,
    batch_tokens: int,
    device: str,
) -> pl.DataFrame:
    """Step probabilities of at most `MOST_SCORED` solutions, beside their soft labels.

    Args:
        model: folder of the trained model.
        examples, features: as for `train_reward_model`.
        seed: seed of the validation split, and of the draw.
        batch_tokens: most tokens read at once.

    Returns:
        trajectory_id, step_index, probability, label, held_out; without steps beyond `training.max_tokens`.
    """
    held_out = validation_questions(examples["question_id"], training.validation_share, seed)
    drawn = [uniform_number(seed, ["own_scores", name]) for name in examples["trajectory_id"]]
    marked = examples.with_columns(held_out=pl.col("question_id").is_in(list(held_out)), drawn=pl.Series(drawn))
    chosen = marked.sort(~pl.col("held_out"), "drawn").head(MOST_SCORED).sort("trajectory_id")
    if features is None:
        loaded = load_reward_model(model, device=device)
        limit = min(training.max_tokens, loaded.context_length)
        fitting = replace(loaded, encoder=partial(encode_solutions, max_tokens=limit))
        scores = score_steps(fitting, chosen.select("trajectory_id", "question", "steps"), batch_tokens)
    else:
        known = features.select("trajectory_id", "step_index", "feature")
        scores = score_features(load_reward_head(model), known.join(chosen, on="trajectory_id", how="semi"))
    labelled = scores.join(
        chosen.select("trajectory_id", "labels", "held_out"), on="trajectory_id", maintain_order="left"
    )
    return labelled.select(
        "trajectory_id",
        "step_index",
        "probability",
        pl.col("labels").list.get(pl.col("step_index")).alias("label"),
        "held_out",
    )
