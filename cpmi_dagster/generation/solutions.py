"""Trajectories from questions alone: the policy's solutions, split into steps as those that are read.

question 7 "What is 2 + 3?", id "a7"   ->  solution 0 "2 + 3 = 5\\nThe answer is: 5\\n"    12 tokens
                                       ->  row 7000 of sources.math_shepherd, id "a7/0", 2 steps

A solution that was cut at its token limit becomes a row with a defect: nobody knows how its last step goes on.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.seeded import derived_seed
from cpmi_dagster.contracts.tables import SOLUTIONS_PER_QUESTION, MathShepherd, SampledSolutions
from cpmi_dagster.errors import ModelError
from cpmi_dagster.files.text import encodable
from cpmi_dagster.generation.engine import RolloutEngine, timed_generate
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.models.tokens import start_ids
from cpmi_dagster.trajectories.row_fields import RawRow
from cpmi_dagster.trajectories.rows import Reading, read_row
from cpmi_dagster.trajectories.solution_text import Splitting
from cpmi_dagster.trajectories.templates import render_question

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SCHEMA = SampledSolutions.create_empty().schema
ROW_SCHEMA = MathShepherd.create_empty().schema
SOLUTION = "\nSolution:"


def sample_solutions(
    questions: pl.DataFrame,
    engine: RolloutEngine,
    prompt: Callable[[str], str],
    sampling: Sampling,
    count: int,
    seed: int,
) -> tuple[pl.DataFrame, Cost]:
    """`count` solutions of every question.

    Args:
        questions: columns of `sources.questions`; one with a defect is not asked.
        engine: the policy.
        prompt: what the policy reads of a question.
        seed: same question and same seed, same solutions, whatever the other questions are.

    Returns:
        Columns of `sources.sampled_solutions`, ordered as the questions, then by solution; and the cost.
    """
    asked = questions.filter(pl.col("defect").is_null())
    prompts = [prompt(question) for question in asked["question"]]
    generations, cost = timed_generate(engine, prompts, sampling, count, derived_seed(seed, ["solutions"]))
    rows = [
        (question_number, number, encodable(one.text), one.tokens, one.truncated)
        for question_number, group in zip(asked["question_number"], generations, strict=True)
        for number, one in enumerate(group)
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row"), cost


def chat_prompt(model: str, tokenizer: "PreTrainedTokenizerBase") -> Callable[[str], str]:
    """How a model is asked a question by its chat template: in a user's message with the words of the paper's prompt.

    Raises:
        ModelError: the tokenizer has no chat template.
    """
    if not tokenizer.chat_template:
        raise ModelError(f"the tokenizer of `{model}` has no chat template; leave out `chat`, or name a chat model")
    start = str(tokenizer.bos_token) if start_ids(tokenizer) else ""  # engines put it before every prompt

    def prompt(question: str) -> str:
        said = [{"role": "user", "content": render_question(question).rpartition(SOLUTION)[0]}]
        text = str(tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True))
        return text.removeprefix(start)

    return prompt


def solution_rows(questions: pl.DataFrame, solutions: pl.DataFrame, steps: Splitting) -> pl.DataFrame:
    """Sampled solutions as rows of `sources.math_shepherd`, in their order; a question with a defect is one row.

    Args:
        questions: columns of `sources.questions`.
        solutions: columns of `sources.sampled_solutions`.
        steps: where a text is split.
    """
    rows = questions.join(solutions, on="question_number", how="left").sort("question_number", "solution")
    numbered = [
        (row["question_number"] * SOLUTIONS_PER_QUESTION + (row["solution"] or 0), *_raw(row, steps))
        for row in rows.iter_rows(named=True)
    ]
    return pl.DataFrame(numbered, schema=ROW_SCHEMA, orient="row")


def _raw(row: Mapping[str, Any], steps: Splitting) -> RawRow:
    own_id, text, tokens = row["source_id"], row["text"], row["generated_tokens"]
    if row["defect"] is not None:
        return RawRow(row["input"], defect=row["defect"], source_id=own_id)
    own_id = None if own_id is None else f"{own_id}/{row['solution']}"
    defect = None if text.strip() else "the policy wrote nothing"
    if row["truncated"] and tokens:
        defect = f"the policy's solution was cut at {tokens:,} tokens; raise `max_new_tokens`"
    elif row["truncated"]:
        defect = "the question leaves the policy no room for a solution; lower `max_new_tokens`"
    if defect:
        return RawRow(row["input"], defect=defect, source_id=own_id)
    given = {name: row[name] for name in ("question", "gold_answer", "task", "split")}
    return read_row({**given, "id": own_id, "solution": text}, Reading(steps=steps))
