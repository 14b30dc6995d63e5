"""The questions that a labeler is asked, one row each, by hashes of their texts; no model is needed.

id "t1", question "How many ...?", steps ["48 / 2 = 24", "48 + 24 = 72"], gold "72"

trajectory_id  template  context  step_index  answer_rank  prompt  answer  work
t1             0         prefix   0           0            0x9c…   0x41…   23.5  after step 0; "The answer is: 72"

`work` is what the row adds to its token tree, in characters: the answer, and its share of the context's new step.
Equal texts of two trajectories have equal hashes, so an answer is reused wherever its question occurs.
"""

import json
from collections.abc import Callable, Iterable, Sequence

import polars as pl

from cpmi_dagster.contracts.contexts import QUESTION, Context, before_each_step, contexts_of
from cpmi_dagster.contracts.seeded import text_hash
from cpmi_dagster.contracts.tables import AnswerLogprobs, HardNegatives
from cpmi_dagster.scoring.admission import GOLD_RANK, LaidOut, Wanted, lay_out
from cpmi_dagster.scoring.settings import Scoring

KEY = AnswerLogprobs.primary_key()
KEY_TYPES = AnswerLogprobs.create_empty().select(KEY).schema
PROMPTS = {name: KEY_TYPES[name] for name in KEY if name != "answer_rank"} | {"prompt": pl.UInt64, "added": pl.Int64}
ANSWERS = {"trajectory_id": pl.String, "answer_rank": pl.Int64, "answer": pl.UInt64, "work": pl.Float64}
FOLLOWING = {"trajectory_id": pl.String, "following": pl.Int64, "answer": pl.UInt64, "work": pl.Float64}
WORK = "work"
QUESTION_COLUMNS = [*KEY, "prompt", "answer", WORK]


def answer_questions(
    trajectories: pl.DataFrame, negatives: pl.DataFrame, scoring: Scoring, contrasted: bool = True
) -> pl.DataFrame:
    """The questions that `answer_logprobs` answers.

    Args:
        trajectories: columns trajectory_id, question, steps, gold_answer.
        negatives: columns of `labels.hard_negatives`.
        contrasted: a trajectory without hard negatives has no rows.

    Returns:
        The key of `labels.answer_logprobs`, by which rows are sorted; `prompt`, hash of question and steps of the
        context in the layout; `answer`, hash of the answer line; `work`. An incomplete trajectory has no rows; other
        reasons to reject it are not checked.
    """
    complete, _ = lay_out(trajectories, negatives, scoring, contrasted)
    answers = [
        (texts.trajectory_id, rank, text_hash(target), len(target))
        for texts in complete
        for rank, target in texts.targets.items()
    ]
    prompts = _prompts(complete, lambda steps: contexts_of(scoring.conditionings, steps))
    questions = prompts.join(pl.DataFrame(answers, ANSWERS, orient="row"), on="trajectory_id")
    shares = pl.col("added") / pl.len().over("trajectory_id", "template", "context", "step_index")
    questions = questions.with_columns(pl.col(WORK) + shares)
    return questions.select(QUESTION_COLUMNS).sort(KEY)


def step_questions(trajectories: pl.DataFrame, scoring: Scoring) -> pl.DataFrame:
    """The questions that `control_logprobs` answers; `answer` is the hash of the step after the context.

    Args:
        trajectories: columns trajectory_id, question, steps, gold_answer.

    Returns:
        Columns of `answer_questions`, with answer rank 0.
    """
    complete, _ = lay_out(trajectories, HardNegatives.create_empty(), scoring, contrasted=False, of_steps=True)
    steps = [
        (texts.trajectory_id, number, text_hash(step), len(step))
        for texts in complete
        for number, step in enumerate(texts.steps)
    ]
    prompts = _prompts(complete, before_each_step).with_columns(following=pl.col("step_index") + 1)
    questions = prompts.join(pl.DataFrame(steps, FOLLOWING, orient="row"), on=["trajectory_id", "following"])
    # the step before was read as the answer of its own row
    added = pl.when(pl.col("context") == QUESTION.kind).then("added").otherwise(0)
    questions = questions.with_columns(pl.col(WORK) + added)
    rank = pl.lit(GOLD_RANK, pl.Int64).alias("answer_rank")
    return questions.with_columns(rank).select(QUESTION_COLUMNS).sort(KEY)


def trajectory_questions(trajectories: pl.DataFrame, negatives: pl.DataFrame, scoring: Scoring) -> pl.DataFrame:
    """The hash of all texts of each trajectory, complete or not, which decide whether it is rejected.

    Args:
        trajectories: columns trajectory_id, question, steps, gold_answer.
        negatives: columns of `labels.hard_negatives`.

    Returns:
        trajectory_id, and `whole`: hash of layout, question, steps, gold answer and negatives by rank.
    """
    answers = negatives.sort("rank").group_by("trajectory_id", maintain_order=True).agg("rank", "answer")
    rows = trajectories.select("trajectory_id", "question", "steps", "gold_answer")
    rows = rows.join(answers, on="trajectory_id", how="left", maintain_order="left")
    # JSON distinguishes a missing text from an empty one
    wholes = [
        (name, text_hash(scoring.layout, *(json.dumps(value, ensure_ascii=False) for value in texts)))
        for name, *texts in rows.iter_rows()
    ]
    return pl.DataFrame(wholes, {"trajectory_id": pl.String, "whole": pl.UInt64}, orient="row")


def read_wanted(questions: pl.DataFrame) -> Wanted:
    """Convert questions to what scorers take.

    Args:
        questions: rows of `answer_questions` or `step_questions`.
    """
    wanted: dict[str, set[tuple[int, Context, int]]] = {}
    for name, template, kind, step, rank in questions.select(KEY).iter_rows():
        wanted.setdefault(name, set()).add((template, Context(kind, step), rank))
    return {name: frozenset(triples) for name, triples in wanted.items()}


def _prompts(complete: Iterable[LaidOut], contexts: Callable[[int], Iterable[Context]]) -> pl.DataFrame:
    """The hash of every prompt: columns trajectory_id, template, context, step_index, prompt, and characters it adds.

    Args:
        contexts: from the number of steps.
    """
    prompts = [
        (
            texts.trajectory_id,
            template,
            *context,
            text_hash(question, *(texts.steps[step] for step in steps)),
            _added_characters(question, texts.steps, context),
        )
        for texts in complete
        for context in contexts(len(texts.steps))
        for steps in [context.steps(len(texts.steps))]
        for template, question in enumerate(texts.questions)
    ]
    return pl.DataFrame(prompts, PROMPTS, orient="row")


def _added_characters(question: str, steps: Sequence[str], context: Context) -> int:
    """The characters that a context adds to the tree of its question, which has the shorter prefixes."""
    match context.kind:
        case "question":
            return len(question)
        case "prefix" | "step":
            return len(steps[context.step_index])
        case "all_but":
            return sum(map(len, steps[context.step_index + 1 :]))
