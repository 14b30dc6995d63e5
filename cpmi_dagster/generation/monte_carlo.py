"""Monte-Carlo completions of every prefix of a trajectory, and whether they reach the gold answer (Eq. 1).

question, steps ["4 / 2 = 2", "2 + 1 = 3. The answer is: 3"], gold answer 3, T = 2

prefix_length  rollout  continuation                     answer  correct
1              0        2 + 1 = 3\\nThe answer is: 3\\n     3       true
1              1        2 - 1 = 1\\nThe answer is: 1\\n     1       false
2              0        The answer is: 3\\n                3       true
2              1        (end of text)                    3       true     stated by the prefix
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from cpmi_dagster.answers.comparison import BUILT_IN, Comparison
from cpmi_dagster.answers.extraction import announced_answer, extract_answer, is_thinking
from cpmi_dagster.contracts.chunks import growing_slices
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.seeded import derived_seed, uniform_number
from cpmi_dagster.contracts.tables import Rollouts
from cpmi_dagster.files.time_left import Advance, unseen
from cpmi_dagster.generation.engine import Draws, Generation, RolloutEngine, SamplingWork, timed_generate
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.token_sampling import states_answer
from cpmi_dagster.trajectories.templates import render_context

TRAJECTORIES_PER_CALL = 64
ROLLOUT_COLUMNS = {name: column.dtype for name, column in Rollouts.columns().items()}


@dataclass(frozen=True)
class Prefix:
    """The first steps of a trajectory."""

    trajectory_id: str
    question: str
    steps: Sequence[str]
    gold_answer: str

    @property
    def prompt(self) -> str:
        """The text that is continued."""
        return render_context(self.question, self.steps)

    def answer(self, continuation: Generation) -> str | None:
        """The answer of prefix and continuation; if the prefix states one, a later announcement still wins."""
        if is_thinking([*self.steps, continuation.text]):
            return None
        if self.steps and states_answer(self.steps[-1]):
            return announced_answer(continuation.text) or announced_answer(self.steps[-1])
        return extract_answer(continuation.text, not continuation.truncated)


def prefix_rollouts(
    trajectories: pl.DataFrame,
    engine: RolloutEngine,
    longest: int | None,
    shortest: int,
    count: int,
    sampling: Sampling,
    seed: int,
    progress: Advance = unseen,
    comparison: Comparison = BUILT_IN,
) -> tuple[pl.DataFrame, Cost]:
    """Complete prefixes of every trajectory and grade the answers (Eq. 1). Equal prefixes share their completions.

    Args:
        trajectories: columns trajectory_id, question, steps, gold_answer.
        engine: the rollout model, or PAV's prover.
        longest: steps of the longest prefix; None for all steps.
        shortest: steps of the shortest prefix; 0 is the bare question, which PAV needs (Eq. 2).
        count: T, completions of each prefix.
        progress: called with the number of trajectories just finished, and the characters of continuations, each as
            long as the steps that remain, that have been sampled and are left.

    Returns:
        Rows of `labels.policy_rollouts`, ordered by trajectory, prefix and rollout; and their cost. A prompt that is
        too long has empty, truncated, wrong rollouts.
    """
    rollouts, cost = [pl.DataFrame(schema=ROLLOUT_COLUMNS)], Cost()
    work = SamplingWork(_expected_characters(trajectories, shortest, longest), count, progress)
    draws = Draws(sampling, count, derived_seed(seed, ["rollouts"]))
    for part in growing_slices(trajectories, TRAJECTORIES_PER_CALL):
        prefixes = list(prefixes_of(part, shortest, longest))
        prompts = [prefix.prompt for prefix in prefixes]
        groups, spent = timed_generate(engine, prompts, draws, work)
        pairs = [(prefix, *each) for prefix, group in zip(prefixes, groups, strict=True) for each in enumerate(group)]
        answers = [prefix.answer(generation) for prefix, _, generation in pairs]
        verdicts = grade([prefix.gold_answer for prefix, *_ in pairs], answers, comparison)
        rows = [
            (
                prefix.trajectory_id,
                len(prefix.steps),
                number,
                answer,
                correct,
                drawn.tokens,
                drawn.truncated,
                drawn.text,
            )
            for (prefix, number, drawn), answer, correct in zip(pairs, answers, verdicts, strict=True)
        ]
        rollouts.append(pl.DataFrame(rows, schema=ROLLOUT_COLUMNS, orient="row"))
        cost += spent
        work.finish(prompts, part.height)
    return pl.concat(rollouts), cost


def _expected_characters(trajectories: pl.DataFrame, shortest: int, longest: int | None) -> dict[str, float]:
    """By prompt, the characters of the steps that remain, and one for the end of the text."""
    lengths = {name: sum(map(len, steps)) for name, steps in trajectories.select("trajectory_id", "steps").iter_rows()}
    return {
        prefix.prompt: 1.0 + lengths[prefix.trajectory_id] - sum(map(len, prefix.steps))
        for prefix in prefixes_of(trajectories, shortest, longest)
    }


def sample_trajectories(trajectories: pl.DataFrame, count: int | None, seed: int) -> pl.DataFrame:
    """Sample `count` trajectories, in order; None for all. A larger count adds to the sample of a smaller one."""
    if count is None:
        return trajectories
    numbers = [uniform_number(seed, ["rollouts", name]) for name in trajectories["trajectory_id"]]
    return trajectories.filter(pl.Series(numbers, dtype=pl.Float64).rank("ordinal") <= count)


def prefixes_of(trajectories: pl.DataFrame, shortest: int, longest: int | None = None) -> Iterator[Prefix]:
    """The prefixes of every trajectory, shortest first; arguments as of `prefix_rollouts`."""
    columns = trajectories.select("trajectory_id", "question", "steps", "gold_answer")
    for trajectory_id, question, steps, gold_answer in columns.iter_rows():
        for length in range(shortest, len(steps[:longest]) + 1):
            yield Prefix(trajectory_id, question, steps[:length], gold_answer)


def grade(golds: Sequence[str], answers: Sequence[str | None], comparison: Comparison = BUILT_IN) -> list[bool]:
    """Whether each answer is equivalent to its gold answer; a missing answer is wrong."""
    stated = [(gold, answer) for gold, answer in zip(golds, answers, strict=True) if answer is not None]
    verdicts = iter(comparison.each([gold for gold, _ in stated], [answer for _, answer in stated]))
    return [answer is not None and next(verdicts) for answer in answers]
