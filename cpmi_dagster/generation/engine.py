"""The interface of generation engines.

engine.generate(["…Solution: Let's think step by step.\\n"], Draws(sampling, samples=2, seed=0))
-> [[Generation("She earned 12 / 60 = 0.2.\\nThe answer is: 10\\n", tokens=24, truncated=False), Generation(…)]]
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from cpmi_dagster.contracts.cost import Cost, Stopwatch
from cpmi_dagster.files.time_left import Advance
from cpmi_dagster.generation.settings import Sampling

Stop = Literal["answer", "line"]


@dataclass(frozen=True)
class Draws:
    """The continuations that are drawn of every prompt.

    Attributes:
        sampling: how tokens are drawn.
        samples: continuations per prompt.
        seed: same prompt, sampling and seed give the same continuations, whatever the other prompts are.
        stop: `answer` ends a continuation after a line that states the final answer, `line` after any line.
        first: number of the first sample; earlier samples are skipped and do not change later ones.
    """

    sampling: Sampling
    samples: int
    seed: int
    stop: Stop = "answer"
    first: int = 0

    @property
    def numbers(self) -> range:
        """Numbers of the samples."""
        return range(self.first, self.first + self.samples)


@dataclass(frozen=True)
class Generation:
    """One sampled continuation.

    Attributes:
        text: the continuation without special tokens, cut by the stop rule.
        tokens: tokens sampled, including the end-of-text token.
        truncated: whether it hit the token limit, or its prompt left no room.
        prompt_tokens: tokens of the prompt that the model read, once for all its samples; 0 without room.
    """

    text: str
    tokens: int
    truncated: bool
    prompt_tokens: int = 0


NO_ROOM = Generation("", 0, truncated=True)
"""The generation of a prompt that leaves no room in the model's context."""


class SamplingWork:
    """Reports how much of a stage's sampling is done, continuation by continuation.

    SamplingWork({"2 + 3?": 40, "2 + 3?\\n2 + 3 = 5": 10}, samples=8, advance)     8 x 50 characters are to be sampled

    Args:
        work: of one continuation, by prompt; in any unit, such as characters.
        samples: continuations of each prompt.
        advance: takes the work done and left.
    """

    def __init__(self, work: Mapping[str, float], samples: int, advance: Advance) -> None:
        self._work, self._advance = work, advance
        self._missing = dict.fromkeys(work, samples)
        self._left = float(sum(work.values()) * samples)

    def ready(self) -> None:
        """Note that the model is loaded: time counts from the last such call before the first work."""
        self._advance(0, 0, self._left)

    def ended(self, prompt: str) -> None:
        """Note that a continuation of a prompt has just been sampled."""
        if self._missing.get(prompt):
            self._missing[prompt] -= 1
            self._left -= self._work[prompt]
            self._advance(0, self._work[prompt], self._left)

    def finish(self, prompts: Iterable[str], count: int) -> None:
        """Note that `count` items with these prompts are finished; continuations that were not sampled were kept."""
        self._left -= sum(self._work[prompt] * self._missing.pop(prompt, 0) for prompt in set(prompts))
        self._advance(count, left=self._left)


class RolloutEngine(Protocol):
    """A language model that continues prompts."""

    @property
    def identity(self) -> str:
        """Model id with its revision or weights hash."""
        ...

    def prepare(self) -> None:
        """Load weights, tables and kernels, so that costs of labels do not include it.

        Raises:
            ModelError: the model cannot be loaded.
        """
        ...

    def generate(
        self, prompts: Sequence[str], draws: Draws, work: SamplingWork | None = None
    ) -> list[list[Generation]]:
        """Continue every prompt `draws.samples` times.

        Args:
            prompts: texts to continue; equal prompts get equal continuations.
            work: is noted of each continuation as it ends.

        Returns:
            One list of generations per prompt, in the order of the prompts.
        """
        ...


def timed_generate(
    engine: RolloutEngine, prompts: Sequence[str], draws: Draws, work: SamplingWork | None = None
) -> tuple[list[list[Generation]], Cost]:
    """`engine.generate` and its cost; equal prompts are sampled once, and prompt tokens count once for all samples."""
    engine.prepare()
    if work:
        work.ready()
    stopwatch = Stopwatch()
    distinct = list(dict.fromkeys(prompts))
    groups = engine.generate(distinct, draws, work)
    generated = sum(generation.tokens for group in groups for generation in group)
    read = sum(group[0].prompt_tokens for group in groups if group)
    by_prompt = dict(zip(distinct, groups, strict=True))
    return [by_prompt[prompt] for prompt in prompts], stopwatch.cost(read + generated, generated)
