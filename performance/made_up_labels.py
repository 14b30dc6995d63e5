"""Labels that no model made, within their contracts: what follows labeling can then be measured at any size.

Each function has the arguments and tables of its namesake in `assets.labels`; numbers come from a hash of their
key. The gold answer is a little likelier than the others, and rollouts are right in half of the cases.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import polars as pl

from cpmi_dagster.assets import labels
from cpmi_dagster.contracts.contexts import contexts_of
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.keys import REJECTED_TRAJECTORIES
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.lake.parts import portions_of
from cpmi_dagster.resources.workers.chunks import StageOutput

LOWEST = -12.0
"""Of a log-probability, in nats."""
SAMPLED = "Of the {} eggs half are sold. " + "The rest is packed in crates of 12. " * 11 + "The answer is: {}"
TOKENS_OF_ROLLOUT = 150


@contextmanager
def no_models() -> Iterator[None]:
    """Within the block the stages of `assets.labels` make labels up; hard negatives are the usual edits."""
    with ExitStack() as stack:
        for function in (score_chunk, score_controls, roll_out):
            stack.enter_context(patch.object(labels, function.__name__, function))
        yield


def score_chunk(run: StageRun, scoring, negatives, chunk: pl.DataFrame, advance, **_) -> StageOutput:
    """Log-probabilities under every context, template and answer."""
    kept = ["trajectory_id", "context", "step_index"]
    rows = _contexts(chunk, scoring.conditionings).select(kept).join(_answers(negatives, chunk), on="trajectory_id")
    frames = {
        run.tables[0]: _scored(rows, scoring.templates, run.tables[0]),
        REJECTED_TRAJECTORIES: TABLES[REJECTED_TRAJECTORIES].schema.create_empty(),
    }
    advance(chunk.height)
    return StageOutput(frames, run.models.identity("labeler"), _cost(rows.height * scoring.templates))


def score_controls(run: StageRun, scoring, chunk: pl.DataFrame, advance) -> StageOutput:
    """Log-probabilities of the steps."""
    steps = _contexts(chunk, ["incremental"]).filter(pl.col("step_index") < pl.col("steps").list.len() - 1)
    rows = steps.with_columns(answer_rank=pl.lit(0, pl.Int64), control=pl.lit("step_surprisal"))
    advance(chunk.height)
    frame = _scored(rows, scoring.templates, "labels/control_logprobs")
    return StageOutput(frame, run.models.identity("labeler"), _cost(frame.height))


def roll_out(run: StageRun, role, chunk: pl.DataFrame, advance) -> StageOutput:
    """Rollouts of the prefixes."""
    parts = [
        chunk.select("trajectory_id", "gold_answer", prefix_length=pl.int_ranges(portion.shortest, longest + 1))
        .explode("prefix_length", empty_as_null=False)
        .join(pl.DataFrame({"rollout": range(portion.first, portion.first + portion.count)}), how="cross")
        for portion in portions_of(run.parts)
        for longest in [pl.min_horizontal(pl.col("steps").list.len(), portion.longest)]
    ]
    rows = pl.concat(parts).with_columns(correct=pl.struct("trajectory_id", "prefix_length", "rollout").hash() % 2 == 0)
    answer = pl.when("correct").then("gold_answer").otherwise(pl.col("gold_answer") + "1")
    text = pl.format(SAMPLED, pl.struct("trajectory_id", "prefix_length", "rollout").hash(), answer)
    frame = rows.with_columns(answer=answer, generated_tokens=TOKENS_OF_ROLLOUT, truncated=False, text=text)
    schema = TABLES[run.tables[0]].schema
    advance(chunk.height)
    cost = _cost(frame.height * TOKENS_OF_ROLLOUT, frame.height * TOKENS_OF_ROLLOUT)
    return StageOutput(schema.cast(frame.select(schema.column_names())), run.models.identity(role), cost)


def _contexts(chunk: pl.DataFrame, conditionings) -> pl.DataFrame:
    """One row per trajectory and context."""
    rows = [
        (count, context.kind, context.step_index)
        for count in chunk["steps"].list.len().unique()
        for context in contexts_of(conditionings, count)
    ]
    schema = {"count": pl.UInt32(), "context": pl.String(), "step_index": pl.Int64()}
    counted = chunk.with_columns(count=pl.col("steps").list.len())
    return counted.join(pl.DataFrame(rows, schema=schema, orient="row"), on="count")


def _answers(negatives: pl.DataFrame, chunk: pl.DataFrame) -> pl.DataFrame:
    """trajectory_id, answer_rank: the gold answer and the hard negatives."""
    gold = chunk.select("trajectory_id", answer_rank=pl.lit(0, pl.Int64))
    return pl.concat([gold, negatives.select("trajectory_id", answer_rank="rank")])


def _scored(rows: pl.DataFrame, templates: int, key: str) -> pl.DataFrame:
    """The rows under every template, with log-probabilities; columns of a table."""
    schema = TABLES[key].schema
    rows = rows.join(pl.DataFrame({"template": range(templates)}), how="cross")
    drawn = (pl.struct("trajectory_id", "template", "context", "step_index", "answer_rank").hash() % 10_000) / 10_000
    gold = pl.when(pl.col("answer_rank") == 0).then(0.8).otherwise(1.0)
    scored = rows.with_columns(logprob_sum=LOWEST * drawn * gold, token_count=pl.lit(6, pl.Int64))
    return schema.cast(scored.select(schema.column_names()))


def _cost(forward: int, generated: int = 0) -> Cost:
    return Cost(wall_seconds=forward / 10_000, forward_tokens=forward, generated_tokens=generated)
