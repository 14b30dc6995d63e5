"""The kinds of question that models are asked, each only if its answer is not kept (see `cache`).

cached_scores         labels.answer_logprobs      key: hashes of the text before an answer, and of the answer
cached_step_values    hidden states, judgements   key: hash of a solution, its question and steps
CachingEngine         continuations               key: hash of a prompt, and the number of a sample

engine.generate(["What is 2 + 3?\\n"], Draws(sampling, samples=8, seed=0))     first: 8 are sampled and kept
engine.generate(["What is 2 + 3?\\n"], Draws(sampling, samples=10, seed=0))    then: samples 8 and 9
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import polars as pl

from cpmi_dagster.contracts.cost import Cost, Stopwatch
from cpmi_dagster.contracts.seeded import text_hash
from cpmi_dagster.contracts.tables import AnswerLogprobs
from cpmi_dagster.files.time_left import Advance, unseen
from cpmi_dagster.generation.engine import Draws, Generation, RolloutEngine, SamplingWork, timed_generate
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.resources.answers.cache import COST, AnswerCache, shares_of
from cpmi_dagster.scoring.answer_trees import slices
from cpmi_dagster.scoring.cache_keys import WORK, logprob_keys, read_wanted, trajectory_keys
from cpmi_dagster.scoring.logprobs import (
    ScoredAnswers,
    scored_answers,
    tokenize,
    tokenized_logprobs,
)
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.scoring.tokenization import (
    Tokenized,
    TokenizedTrajectory,
    join_negatives,
    render_trajectories,
    split_wanted,
)
from cpmi_dagster.tree_forward.probe import check_full_attention

SCORE_KEY = {"prompt": pl.UInt64(), "answer": pl.UInt64()}
SCORE = {"logprob_sum": pl.Float64(), "token_count": pl.Int64()}
ADMISSION_KEY, ADMISSION = {"whole": pl.UInt64()}, {"reason": pl.String()}
STEPS_KEY = {"solution": pl.UInt64()}
CONTINUATION_KEY = {"prompt": pl.UInt64(), "sample": pl.Int64()}
CONTINUATION = {"text": pl.String(), "tokens": pl.Int64(), "truncated": pl.Boolean(), "prompt_tokens": pl.Int64()}
PROMPT = {"prompt": pl.UInt64(), "asked": pl.String()}
"""A prompt's hash and its text."""
ROW = ["trajectory_id", "template", "context", "step_index", "answer_rank"]


def cached_scores(
    scores: AnswerCache,
    admissions: AnswerCache,
    load: Callable[[], LoadedModel],
    trajectories: pl.DataFrame,
    negatives: pl.DataFrame,
    scoring: Scoring,
    with_negatives: bool,
    of_steps: bool,
    advance: Advance,
) -> ScoredAnswers:
    """The result of `scoring.answer_logprobs`, from kept answers and the model; rejections are kept with their reasons.

    Each trajectory is rendered once, and tokenised once at most: when it is admitted, or else when it is scored.

    Args:
        scores: has `SCORE_KEY` and `SCORE`.
        admissions: has `ADMISSION_KEY` and `ADMISSION`.
        load: loads the labeler; called if an answer is not kept.
        with_negatives, of_steps: see `answer_logprobs`.

    Returns:
        Its cost is that of all answers, kept ones too.
    """
    lists = join_negatives(trajectories, negatives)
    rendered, incomplete = render_trajectories(lists, scoring, with_negatives, of_steps)
    texts, tokens = {each.trajectory_id: each for each in rendered}, dict[str, TokenizedTrajectory]()

    def tokenize_new(names: Iterable[str]) -> Tokenized:
        new = [texts[name] for name in names if name in texts and name not in tokens]
        tokenized = tokenize(new, load(), scoring)
        tokens.update((each.trajectory_id, each) for each in tokenized.trajectories)
        return tokenized

    def admit(part: pl.DataFrame, report: Callable[[float], None]) -> tuple[pl.DataFrame, Cost]:
        tokenized = tokenize_new(part["trajectory_id"])
        if tokenized.too_long and not tokenized.trajectories:
            check_full_attention(load().model, tokenized.too_long)
        reasons = dict([*incomplete, *tokenized.rejected])
        given = [reasons.get(name) for name in part["trajectory_id"]]
        return part.with_columns(reason=pl.Series(given, dtype=pl.String)), Cost()

    def score(part: pl.DataFrame, report: Callable[[float], None]) -> tuple[pl.DataFrame, Cost]:
        chosen = lists.join(part, on="trajectory_id", how="semi", maintain_order="left")
        wanted = read_wanted(part)

        def batches() -> Iterator[tuple[int, Tokenized]]:
            for batch in slices(chosen):
                names = batch["trajectory_id"]
                tokenized = tokenize_new(names)
                whole = [tokens.pop(name) for name in names if name in tokens]
                parts = chain.from_iterable(split_wanted(each, wanted[each.trajectory_id]) for each in whole)
                yield batch.height, tokenized._replace(trajectories=list(parts))

        scored = tokenized_logprobs(batches(), load(), scoring, shares_of(chosen.height, report))
        return part.join(scored.values.select(*ROW, "logprob_sum", "token_count"), on=ROW), scored.cost

    wholes = trajectory_keys(lists, scoring)
    uncounted = replace(admissions, count=lambda kept, asked: None)  # `scores` counts the same trajectories
    admitted = uncounted.answers(wholes, admit, max(1, wholes.height))
    rejected = admitted.drop_nulls("reason").select("trajectory_id", "reason")
    fitting = trajectories.join(rejected, on="trajectory_id", how="anti", maintain_order="left")
    keys = logprob_keys([texts[name] for name in fitting["trajectory_id"] if name in texts])
    # trajectories of a question stay adjacent, since they share a token tree
    asked = fitting.select("trajectory_id").join(keys, on="trajectory_id", maintain_order="left_right")
    advance(rejected.height, left=float(asked[WORK].sum()))
    answered = scores.answers(
        asked,
        score,
        scoring.chunk_trajectories,
        by="trajectory_id",
        weight="token_count",
        advance=advance,
        growing=True,
        work=WORK,
    )
    values = AnswerLogprobs.cast(answered.select(AnswerLogprobs.column_names()))
    return scored_answers(values, rejected.iter_rows(), scores.spent(answered))


def cached_step_values(
    cache: AnswerCache,
    solutions: pl.DataFrame,
    column: str,
    read: Callable[[pl.DataFrame, Callable[[int], None]], pl.DataFrame],
    size: int,
    advance: Advance = unseen,
) -> pl.DataFrame:
    """A value for each step of each solution, such as a hidden state or a probability.

    Args:
        cache: has `STEPS_KEY`, and a column of lists, `values`.
        solutions: columns that identify a solution, and question and steps.
        column: name of the value.
        read: takes rows of `solutions`, and a callback of the number just read, 0 when the model is ready; gives the
            identifying columns, step_index and the value, a row per step.
        size: solutions per chunk, kept as one file.

    Returns:
        The identifying columns, step_index and the value, in the order of the solutions.
    """
    texts = solutions.select("question", "steps").iter_rows()
    hashes = [text_hash(question, *steps) for question, steps in texts]
    characters = pl.col("question").str.len_chars() + pl.col("steps").list.join("").str.len_chars()
    asked = solutions.with_columns(pl.Series("solution", hashes, pl.UInt64), characters.alias(WORK))
    names = solutions.drop("question", "steps").columns

    def ask(part: pl.DataFrame, report: Callable[[float], None]) -> tuple[pl.DataFrame, Cost]:
        watch = Stopwatch()
        progress = shares_of(part.height, report)
        lists = read(part.select(solutions.columns), progress).sort("step_index").group_by(names).agg(values=column)
        given = part.join(lists, on=names, how="left", nulls_equal=True)
        empty = pl.lit([], dtype=cache.answer["values"])
        return given.with_columns(pl.col("values").fill_null(empty)), watch.cost(0, 0)

    answered = cache.answers(asked, ask, size, advance=advance, growing=True, work=WORK)
    counted = answered.with_columns(step_index=pl.int_ranges(pl.col("values").list.len(), dtype=pl.Int64))
    rows = counted.filter(pl.col("values").list.len() > 0).explode("values", "step_index").rename({"values": column})
    return rows.select(*names, "step_index", column)


def step_values(kind: Any) -> Mapping[str, Any]:
    """The columns of an answer: a list with a value of a type for each step."""
    return {"values": pl.List(kind)}


@dataclass
class CachingEngine:
    """A `RolloutEngine` that samples only what is not kept; equal prompts share their continuations.

    Sampling settings, stop rule and seed are among the facts of the answers, so an engine has one of each.

    Attributes:
        cache: has `CONTINUATION_KEY` and `CONTINUATION`.
        identity: of the model.
        load: makes the engine that samples; called if an answer is not kept.
        size: prompts per chunk, kept as one file.
    """

    cache: AnswerCache
    identity: str
    load: Callable[[], RolloutEngine]
    size: int
    _used: list[pl.DataFrame] = field(default_factory=list, init=False, repr=False)

    def prepare(self) -> None:
        """Nothing: the model is loaded when needed."""

    @property
    def spent(self) -> Cost:
        """The cost of the continuations given so far, kept ones too, each once."""
        return self.cache.spent(pl.concat(self._used)) if self._used else Cost()

    @cached_property
    def _engine(self) -> RolloutEngine:
        return self.load()

    def generate(
        self, prompts: Sequence[str], draws: Draws, work: SamplingWork | None = None
    ) -> list[list[Generation]]:
        """Continue every prompt; see `RolloutEngine.generate`."""
        numbers = pl.DataFrame({"sample": draws.numbers}, schema={"sample": pl.Int64})
        texts = pl.DataFrame({"prompt": [text_hash(each) for each in prompts], "asked": list(prompts)}, schema=PROMPT)

        def ask(part: pl.DataFrame, report: Callable[[float], None]) -> tuple[pl.DataFrame, Cost]:
            answers, cost = [], Cost()
            # consecutive numbers have the same gap to their place in the list, so a gap is a range
            gap = pl.col("sample") - pl.int_range(pl.len()).over("prompt")
            ranges = part.sort("sample", maintain_order=True).group_by("prompt", gap.alias("gap"), maintain_order=True)
            ranges = ranges.agg(pl.col("asked", "sample").first(), count=pl.len())
            for alike in ranges.partition_by("sample", "count", maintain_order=True):
                start, count = alike.select("sample", "count").row(0)
                asked = alike["asked"].to_list()
                missing = replace(draws, samples=count, first=start)
                groups, spent = timed_generate(self._engine, asked, missing, work)
                cost += spent
                answers += [
                    (prompt, number, each.text, each.tokens, each.truncated, each.prompt_tokens)
                    for prompt, group in zip(alike["prompt"], groups, strict=True)
                    for number, each in enumerate(group, start)
                ]
            return pl.DataFrame(answers, schema={**CONTINUATION_KEY, **CONTINUATION}, orient="row"), cost

        asked = texts.join(numbers, how="cross", maintain_order="left_right")
        answered = self.cache.answers(asked, ask, self.size, by="prompt", weight="tokens")
        self._used.append(answered.select([*CONTINUATION_KEY, *COST]))
        rows = answered.select(list(CONTINUATION)).iter_rows()
        singles = [Generation(*row) for row in rows]
        return [singles[start : start + draws.samples] for start in range(0, len(singles), draws.samples)]
