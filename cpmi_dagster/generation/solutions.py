"""Trajectories from questions: solutions of the policy, split into steps.

question 7 "What is 2 + 3?", id "a7"   ->  solution 0 "2 + 3 = 5\\nThe answer is: 5\\n"    12 tokens
                                       ->  row 7000 of sources.math_shepherd, id "a7/0", 2 steps

A solution that was cut at the token limit becomes a row with a defect.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.seeded import derived_seed
from cpmi_dagster.contracts.source_tables import SOLUTIONS_PER_QUESTION, SampledSolutions
from cpmi_dagster.errors import ModelError
from cpmi_dagster.files.text import encodable
from cpmi_dagster.generation.engine import Draws, RolloutEngine, SamplingWork, timed_generate
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.models.tokens import start_ids
from cpmi_dagster.trajectories.readers import Trajectory
from cpmi_dagster.trajectories.rows import Defect, RowFormat, frame_of, read_row, row_of
from cpmi_dagster.trajectories.steps import Splitting
from cpmi_dagster.trajectories.templates import render_question

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SCHEMA = SampledSolutions.create_empty().schema
SOLUTION = "\nSolution:"


def sample_solutions(
    questions: pl.DataFrame,
    engine: RolloutEngine,
    prompt: Callable[[str], str],
    sampling: Sampling,
    count: int,
    seed: int,
    work: SamplingWork | None = None,
) -> tuple[pl.DataFrame, Cost]:
    """`count` solutions of every question.

    Args:
        questions: rows of `sources.questions`; those with a defect are skipped.
        engine: the policy.
        prompt: the prompt of a question.
        work: is noted of each solution as it ends.

    Returns:
        Rows of `sources.sampled_solutions`, ordered by question and solution; and the cost.
    """
    asked = questions.filter(pl.col("defect").is_null())
    prompts = [prompt(question) for question in asked["question"]]
    generations, cost = timed_generate(engine, prompts, Draws(sampling, count, derived_seed(seed, ["solutions"])), work)
    if work:
        work.finish(prompts, questions.height)
    rows = [
        (question_number, number, encodable(generation.text), generation.tokens, generation.truncated)
        for question_number, group in zip(asked["question_number"], generations, strict=True)
        for number, generation in enumerate(group)
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row"), cost


def chat_prompt(model: str, tokenizer: "PreTrainedTokenizerBase") -> Callable[[str], str]:
    """The prompt function of a chat model: its chat template around the paper's prompt.

    Raises:
        ModelError: the tokenizer has no chat template.
    """
    if not tokenizer.chat_template:
        raise ModelError(f"the tokenizer of `{model}` has no chat template; leave out `chat`, or name a chat model")
    # engines put it before every prompt
    start = "".join(tokenizer.convert_ids_to_tokens(list(start_ids(tokenizer))))

    def prompt(question: str) -> str:
        said = [{"role": "user", "content": render_question(question).rpartition(SOLUTION)[0]}]
        text = str(tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True))
        return text.removeprefix(start)

    return prompt


def solution_rows(questions: pl.DataFrame, solutions: pl.DataFrame, steps: Splitting) -> pl.DataFrame:
    """Sampled solutions as rows of `sources.math_shepherd`, in order; a question with a defect is one row.

    Args:
        questions: rows of `sources.questions`.
        solutions: rows of `sources.sampled_solutions`.
        steps: how a text is split.
    """
    rows = questions.join(solutions, on="question_number", how="left").sort("question_number", "solution")
    numbers = rows["question_number"] * SOLUTIONS_PER_QUESTION + rows["solution"].fill_null(0)
    read = (_read(row, steps) for row in rows.iter_rows(named=True))
    return frame_of([row_of(number, each) for number, each in zip(numbers, read, strict=True)])


def _read(row: Mapping[str, Any], steps: Splitting) -> Trajectory | Defect:
    name, text, tokens = row["source_id"], row["text"], row["generated_tokens"]
    if row["defect"] is not None:
        return Defect(row["defect"], row["excerpt"], name)
    name = None if name is None else f"{name}/{row['solution']}"
    defect = None if text.strip() else "the policy wrote nothing"
    if row["truncated"] and tokens:
        defect = f"the policy's solution was cut at {tokens:,} tokens; raise `max_new_tokens`"
    elif row["truncated"]:
        defect = "the question leaves the policy no room for a solution; lower `max_new_tokens`"
    if defect:
        return Defect(defect, row["question"], name)
    given = {field: row[field] for field in ("question", "gold_answer", "task", "split")}
    return read_row({**given, "id": name, "solution": text}, RowFormat(steps=steps))
