"""A generation engine that samples only continuations that are not kept.

engine.generate(["What is 2 + 3?\\n"], sampling, samples=8, seed=0)     first time: 8 continuations are sampled and kept
engine.generate(["What is 2 + 3?\\n"], sampling, samples=10, seed=0)    then: samples 8 and 9

The key is the hash of a prompt and the number of a sample; equal prompts share their continuations. Sampling settings,
stop rule and seed are among the facts of the answers, so an engine has one of each.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.seeded import text_hash
from cpmi_dagster.generation.engine import Generation, RolloutEngine, SamplingWork, Stop, timed_generate
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.resources.lake.calls import COST, Calls

KEY = {"prompt": pl.UInt64(), "sample": pl.Int64()}
ASKED = {"prompt": pl.UInt64(), "asked": pl.String()}
ANSWER = {"text": pl.String(), "tokens": pl.Int64(), "truncated": pl.Boolean(), "prompt_tokens": pl.Int64()}


@dataclass
class KeptEngine:
    """A `RolloutEngine` that caches the answers of another.

    Attributes:
        calls: the cache, with `KEY` and `ANSWER`.
        identity: of the model.
        load: makes the engine that samples; called if an answer is not kept.
        size: prompts per chunk, kept as one file.
    """

    calls: Calls
    identity: str
    load: Callable[[], RolloutEngine]
    size: int
    _used: list[pl.DataFrame] = field(default_factory=list, init=False, repr=False)

    def prepare(self) -> None:
        """Nothing: the model is loaded when needed."""

    @property
    def spent(self) -> Cost:
        """The cost of the continuations given so far, kept ones too, each once."""
        return self.calls.spent(pl.concat(self._used)) if self._used else Cost.zero()

    @cached_property
    def _engine(self) -> RolloutEngine:
        return self.load()

    def generate(
        self,
        prompts: Sequence[str],
        sampling: Sampling,
        samples: int,
        seed: int,
        stop: Stop = "answer",
        first: int = 0,
        work: SamplingWork | None = None,
    ) -> list[list[Generation]]:
        """Continue every prompt `samples` times; see `RolloutEngine.generate`."""
        numbers = pl.DataFrame({"sample": range(first, first + samples)}, schema={"sample": pl.Int64})
        texts = pl.DataFrame({"prompt": [text_hash(each) for each in prompts], "asked": list(prompts)}, schema=ASKED)

        def ask(part: pl.DataFrame, report: Callable[[float], None]) -> tuple[pl.DataFrame, Cost]:
            answers, cost = [], Cost.zero()
            # consecutive numbers have the same gap to their place in the list, so a gap is a range
            gap = pl.col("sample") - pl.int_range(pl.len()).over("prompt")
            ranges = part.sort("sample", maintain_order=True).group_by("prompt", gap.alias("gap"), maintain_order=True)
            ranges = ranges.agg(pl.col("asked", "sample").first(), count=pl.len())
            for alike in ranges.partition_by("sample", "count", maintain_order=True):
                start, count = alike.select("sample", "count").row(0)
                asked = alike["asked"].to_list()
                groups, spent = timed_generate(self._engine, asked, sampling, count, seed, stop, start, work)
                cost += spent
                answers += [
                    (prompt, number, each.text, each.tokens, each.truncated, each.prompt_tokens)
                    for prompt, group in zip(alike["prompt"], groups, strict=True)
                    for number, each in enumerate(group, start)
                ]
            return pl.DataFrame(answers, schema={**KEY, **ANSWER}, orient="row"), cost

        asked = texts.join(numbers, how="cross", maintain_order="left_right")
        answered = self.calls.answers(asked, ask, self.size, by="prompt", weight="tokens")
        self._used.append(answered.select([*KEY, *COST]))
        rows = answered.select(list(ANSWER)).iter_rows()
        singles = [Generation(*row) for row in rows]
        return [singles[start : start + samples] for start in range(0, len(singles), samples)]
