"""Made-up labels within their contracts, to measure what follows labeling at any size.

Each function replaces its namesake in `assets.labels`; numbers come from a hash of their key. The gold answer is a
little likelier than the others, and half of the rollouts are right.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import polars as pl

from cpmi_dagster.assets import labels
from cpmi_dagster.contracts.contexts import contexts_of
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.keys import LOGPROBS
from cpmi_dagster.contracts.tables import TABLES, RejectedTrajectories
from cpmi_dagster.resources.dag.stage import StageOutput
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.scoring.logprobs import ScoredAnswers

LOWEST = -12.0
"""The least log-probability, in nats."""
SAMPLED = "Of the {} eggs half are sold. " + "The rest is packed in crates of 12. " * 11 + "The answer is: {}"
TOKENS_OF_ROLLOUT = 150


@contextmanager
def no_models() -> Iterator[None]:
    """Within the block, stages of `assets.labels` make labels up; hard negatives are the usual edits."""
    with ExitStack() as stack:
        for function in (_scored, _rollouts):
            stack.enter_context(patch.object(labels, function.__name__, function))
        yield


def _scored(run: StageRun, negatives: pl.DataFrame, chosen: tuple[str, ...], of_steps=False, **_) -> ScoredAnswers:
    """Log-probabilities under every context and template, of every answer or of the steps."""
    trajectories, templates = run.selected(), run.settings.scoring.templates
    rows = _contexts(trajectories, chosen).select("trajectory_id", "context", "step_index", "steps")
    if of_steps:
        rows = rows.filter(pl.col("step_index") < pl.col("steps").list.len() - 1).with_columns(
            answer_rank=pl.lit(0, pl.Int64)
        )
    else:
        rows = rows.join(_answers(negatives, trajectories), on="trajectory_id")
    run.track(trajectories.height)(trajectories.height)
    logprobs = _valued(rows.drop("steps"), templates)
    return ScoredAnswers(logprobs, RejectedTrajectories.create_empty(), _cost(logprobs.height), logprobs)


def _rollouts(run: StageRun, role, shortest: int, longest: int | None, count: int) -> StageOutput:
    """Rollouts of the prefixes of all selected trajectories."""
    trajectories = run.selected()
    last = pl.min_horizontal(pl.col("steps").list.len(), longest)
    rows = (
        trajectories.select("trajectory_id", "gold_answer", prefix_length=pl.int_ranges(shortest, last + 1))
        .filter(pl.col("prefix_length").list.len() > 0)
        .explode("prefix_length")
        .join(pl.DataFrame({"rollout": range(count)}), how="cross")
    )
    drawn = pl.struct("trajectory_id", "prefix_length", "rollout").hash()
    rows = rows.with_columns(correct=drawn % 2 == 0)
    answer = pl.when("correct").then("gold_answer").otherwise(pl.col("gold_answer") + "1")
    text = pl.format(SAMPLED, drawn, answer)
    frame = rows.with_columns(answer=answer, generated_tokens=TOKENS_OF_ROLLOUT, truncated=False, text=text)
    schema = TABLES[run.stage.table].schema
    run.track(trajectories.height)(trajectories.height)
    cost = _cost(frame.height * TOKENS_OF_ROLLOUT, frame.height * TOKENS_OF_ROLLOUT)
    return StageOutput(schema.cast(frame.select(schema.column_names())), run.models.identity(role), cost)


def _contexts(trajectories: pl.DataFrame, conditionings) -> pl.DataFrame:
    """One row per trajectory and context."""
    rows = [
        (count, context.kind, context.step_index)
        for count in trajectories["steps"].list.len().unique()
        for context in contexts_of(conditionings, count)
    ]
    schema = {"count": pl.UInt32(), "context": pl.String(), "step_index": pl.Int64()}
    counted = trajectories.with_columns(count=pl.col("steps").list.len())
    return counted.join(pl.DataFrame(rows, schema=schema, orient="row"), on="count")


def _answers(negatives: pl.DataFrame, trajectories: pl.DataFrame) -> pl.DataFrame:
    """trajectory_id, answer_rank: the gold answer and the hard negatives."""
    gold = trajectories.select("trajectory_id", answer_rank=pl.lit(0, pl.Int64))
    return pl.concat([gold, negatives.select("trajectory_id", answer_rank="rank")])


def _valued(rows: pl.DataFrame, templates: int) -> pl.DataFrame:
    """The rows under every template, with log-probabilities; columns of `labels.answer_logprobs`."""
    schema = TABLES[LOGPROBS].schema
    rows = rows.join(pl.DataFrame({"template": range(templates)}), how="cross")
    drawn = (pl.struct("trajectory_id", "template", "context", "step_index", "answer_rank").hash() % 10_000) / 10_000
    gold = pl.when(pl.col("answer_rank") == 0).then(0.8).otherwise(1.0)
    scored = rows.with_columns(logprob_sum=LOWEST * drawn * gold, token_count=pl.lit(6, pl.Int64))
    return schema.cast(scored.select(schema.column_names()))


def _cost(forward: int, generated: int = 0) -> Cost:
    return Cost(wall_seconds=forward / 10_000, forward_tokens=forward, generated_tokens=generated)
