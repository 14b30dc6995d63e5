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
from cpmi_dagster.trajectories.rows import read_row
from cpmi_dagster.trajectories.solution_text import Splitting
from cpmi_dagster.trajectories.templates import render_question

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SCHEMA = SampledSolutions.create_empty().schema
ROW_SCHEMA = MathShepherd.create_empty().schema
SOLUTION = "\nSolution:"
OF_QUESTION = ("source_id", "question", "gold_answer", "task", "split")


def sample_solutions(
    questions: pl.DataFrame,
    engine: RolloutEngine,
    prompt: Callable[[str], str],
    sampling: Sampling,
    first: int,
    count: int,
    seed: int,
) -> tuple[pl.DataFrame, Cost]:
    """Solutions `first` to `first + count - 1` of every question.

    Args:
        questions: columns of `sources.math_shepherd`, without steps; one with a defect is not asked.
        engine: the policy.
        prompt: what the policy reads of a question.
        seed: same questions in the same order and same seed, same solutions.

    Returns:
        Columns of `sources.sampled_solutions`, ordered as the questions, then by solution; a question with a defect has
        one row, as solution 0. And the cost.
    """
    is_sound = [defect is None for defect in questions["defect"]]
    asked = questions.filter(is_sound)
    own_seed = derived_seed(seed, ["solutions", *asked["row_number"]])
    prompts = [prompt(question) for question in asked["question"]]
    generations, cost = timed_generate(engine, prompts, sampling, count, own_seed, first=first)
    groups, rows = iter(generations), []
    for row, sound in zip(questions.iter_rows(named=True), is_sound, strict=True):
        kept = {"question_number": row["row_number"], **{name: row[name] for name in OF_QUESTION}}
        if sound:
            rows += [
                {
                    **kept,
                    "solution": number,
                    "text": encodable(one.text),
                    "generated_tokens": one.tokens,
                    "truncated": one.truncated,
                }
                for number, one in enumerate(next(groups), first)
            ]
        elif first == 0:
            unread = {"question": row["input"], "generated_tokens": 0, "truncated": False, "defect": row["defect"]}
            rows.append({**kept, "solution": 0, **unread})
    return pl.DataFrame(rows, schema=SCHEMA), cost


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


def solution_rows(solutions: pl.DataFrame, steps: Splitting) -> pl.DataFrame:
    """Sampled solutions as rows of `sources.math_shepherd`, in their order.

    Args:
        solutions: columns of `sources.sampled_solutions`.
        steps: where a text is split.
    """
    rows = [
        (row["question_number"] * SOLUTIONS_PER_QUESTION + row["solution"], *_raw(row, steps))
        for row in solutions.iter_rows(named=True)
    ]
    return pl.DataFrame(rows, schema=ROW_SCHEMA, orient="row")


def _raw(row: Mapping[str, Any], steps: Splitting) -> RawRow:
    own_id = None if row["source_id"] is None else f"{row['source_id']}/{row['solution']}"
    if defect := row["defect"] or _defect(row["text"], row["generated_tokens"], row["truncated"]):
        return RawRow(row["question"], defect=defect, source_id=own_id)
    given = {name: row[name] for name in ("question", "gold_answer", "task", "split")}
    return read_row({**given, "id": own_id, "solution": row["text"]}, steps)


def _defect(text: str, tokens: int, truncated: bool) -> str | None:
    """Why a text is no solution."""
    if truncated and tokens:
        return f"the policy's solution was cut at {tokens:,} tokens; raise `max_new_tokens`"
    if truncated:
        return "the question leaves the policy no room for a solution; lower `max_new_tokens`"
    return None if text.strip() else "the policy wrote nothing"
