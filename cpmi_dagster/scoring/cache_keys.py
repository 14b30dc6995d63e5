"""The keys of log-probabilities in the cache of answers, a row each, by hashes of rendered texts; no model is needed.

id "t1", question "How many ...?", steps ["48 / 2 = 24", "48 + 24 = 72"], gold "72"

trajectory_id  template  context  step_index  answer_rank  prompt  answer  work
t1             0         prefix   0           0            0x9c…   0x41…   23.5  after step 0; "The answer is: 72"

`work` is what the row adds to its token tree, in characters: the answer, and its share of the context's new step.
Equal texts of two trajectories have equal hashes, so an answer is reused wherever its question occurs.
"""

import json
from collections.abc import Sequence

import polars as pl

from cpmi_dagster.contracts.contexts import QUESTION, Context
from cpmi_dagster.contracts.seeded import text_hash
from cpmi_dagster.contracts.tables import AnswerLogprobs
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.scoring.tokenization import GOLD_RANK, RenderedTrajectory, Wanted

KEY = AnswerLogprobs.primary_key()
WORK = "work"
PROMPT_KEY = [name for name in KEY if name != "answer_rank"]
PROMPTS = AnswerLogprobs.create_empty().select(PROMPT_KEY).schema | {"prompt": pl.UInt64(), "added": pl.Int64()}
TARGETS = {
    "trajectory_id": pl.String,
    "step_index": pl.Int64,
    "answer_rank": pl.Int64,
    "answer": pl.UInt64,
    WORK: pl.Float64,
}


def logprob_keys(trajectories: Sequence[RenderedTrajectory]) -> pl.DataFrame:
    """The keys of the log-probabilities that `answer_logprobs` gives, of answers or of steps.

    Returns:
        The key of `labels.answer_logprobs`, by which rows are sorted; `prompt`, hash of question and steps of the
        context; `answer`, hash of the answer line, or of the step after the context; `work`.
    """
    of_steps = any(texts.of_steps for texts in trajectories)
    # a step is scored under one context, an answer under all
    targets = [
        (texts.trajectory_id, step, rank, text_hash(target), len(target))
        for texts in trajectories
        for step, by_rank in (
            enumerate(({GOLD_RANK: step} for step in texts.steps), start=-1) if of_steps else [(None, texts.targets)]
        )
        for rank, target in by_rank.items()
    ]
    joined_on = ["trajectory_id", "step_index"] if of_steps else ["trajectory_id"]
    others = pl.DataFrame(targets, TARGETS, orient="row").select(*joined_on, "answer_rank", "answer", WORK)
    keys = _prompts(trajectories).join(others, on=joined_on)
    # the step before was read as the answer of its own row
    step_share = pl.when(pl.col("context") == QUESTION.kind).then("added").otherwise(0)
    keys = keys.with_columns(pl.col(WORK) + (step_share if of_steps else pl.col("added") / pl.len().over(PROMPT_KEY)))
    return keys.select(*KEY, "prompt", "answer", WORK).sort(KEY)


def trajectory_keys(trajectories: pl.DataFrame, scoring: Scoring) -> pl.DataFrame:
    """The hash of all texts of each trajectory, complete or not, which decide whether it is rejected.

    Args:
        trajectories: columns of `join_negatives`.

    Returns:
        trajectory_id, and `whole`: hash of layout, question, steps, gold answer and negatives by rank.
    """
    # JSON distinguishes a missing text from an empty one
    wholes = [
        (name, text_hash(scoring.layout, *(json.dumps(value, ensure_ascii=False) for value in texts)))
        for name, *texts in trajectories.iter_rows()
    ]
    return pl.DataFrame(wholes, {"trajectory_id": pl.String, "whole": pl.UInt64}, orient="row")


def read_wanted(keys: pl.DataFrame) -> dict[str, Wanted]:
    """What to score of each trajectory, by its id, from rows of `logprob_keys`."""
    wanted: dict[str, set[tuple[int, Context, int]]] = {}
    for name, template, kind, step, rank in keys.select(KEY).iter_rows():
        wanted.setdefault(name, set()).add((template, Context(kind, step), rank))
    return {name: frozenset(triples) for name, triples in wanted.items()}


def _prompts(trajectories: Sequence[RenderedTrajectory]) -> pl.DataFrame:
    """Columns of `PROMPTS`: the hash of every prompt, and the characters that it adds."""
    prompts = [
        (
            texts.trajectory_id,
            template,
            *context,
            text_hash(prompt, *texts.context_steps(context)),
            _added_characters(prompt, texts.steps, context),
        )
        for texts in trajectories
        for context in texts.contexts
        for template, prompt in enumerate(texts.prompts)
    ]
    return pl.DataFrame(prompts, PROMPTS, orient="row")


def _added_characters(prompt: str, steps: Sequence[str], context: Context) -> int:
    """The characters that a context adds to the tree of its question, which has the shorter prefixes."""
    match context.kind:
        case "question":
            return len(prompt)
        case "prefix" | "step":
            return len(steps[context.step_index])
        case "all_but":
            return sum(map(len, steps[context.step_index + 1 :]))
