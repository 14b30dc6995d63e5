"""The interface of generation engines.

engine.generate(["…Solution: Let's think step by step.\\n"], sampling, samples=2, seed=0)
-> [[Generation("She earned 12 / 60 = 0.2.\\nThe answer is: 10\\n", tokens=24, truncated=False), Generation(…)]]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from cpmi_dagster.contracts.cost import Cost, Stopwatch
from cpmi_dagster.generation.settings import Sampling

Stop = Literal["answer", "line"]


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
        self, prompts: Sequence[str], sampling: Sampling, samples: int, seed: int, stop: Stop = "answer", first: int = 0
    ) -> list[list[Generation]]:
        """Continue every prompt `samples` times.

        Args:
            prompts: texts to continue; equal prompts get equal continuations.
            samples: continuations per prompt.
            seed: same prompt, sampling and seed give the same continuations, whatever the other prompts are.
            stop: `answer` ends a continuation after a line that states the final answer, `line` after any line.
            first: number of the first sample; earlier samples are skipped and do not change later ones.

        Returns:
            One list of `samples` generations per prompt, in the order of the prompts.
        """
        ...


def timed_generate(
    engine: RolloutEngine,
    prompts: Sequence[str],
    sampling: Sampling,
    samples: int,
    seed: int,
    stop: Stop = "answer",
    first: int = 0,
) -> tuple[list[list[Generation]], Cost]:
    """`engine.generate` and its cost; equal prompts are sampled once, and prompt tokens count once for all samples."""
    engine.prepare()
    stopwatch = Stopwatch()
    distinct = list(dict.fromkeys(prompts))
    groups = engine.generate(distinct, sampling, samples, seed, stop, first)
    generated = sum(generation.tokens for group in groups for generation in group)
    read = sum(group[0].prompt_tokens for group in groups if group)
    by_prompt = dict(zip(distinct, groups, strict=True))
    return [by_prompt[prompt] for prompt in prompts], stopwatch.cost(read + generated, generated)
