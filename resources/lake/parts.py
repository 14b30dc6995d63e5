"""Which parts of a table a profile asks for, and which rows of its inputs a partition depends on.

    sources/sampled_solutions 0, 1, 2, 3               number of the solution
    labels/hard_negatives     1, 2, 3, 4               ranks
    labels/answer_logprobs    0/step/1, 0/question/1   template, what precedes the answer, rank (0 is the gold answer)
    labels/control_logprobs   step_surprisal/0         control, template
    labels/policy_rollouts    1/0, further/0           steps of the prefix, number of the rollout
    benchmarks/judge_predictions                       one for each judge, `judge My judge`
    alignment/trajectories    all                      is made whole

A part is kept with the hash of what made it. Asked for more, the parts that are missing are made, in a file of their
own; asked for less, fewer are read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import polars as pl

from cpmi_dagster.contracts.contexts import LAST, contexts_of, part_of_context
from cpmi_dagster.contracts.keys import (
    CANDIDATE_FEATURES,
    CONTROLS,
    JUDGES,
    LOGPROBS,
    NEGATIVES,
    POLICY_ROLLOUTS,
    PROBLEM_FEATURES,
    PROBLEMS,
    PROVER_ROLLOUTS,
    QUESTIONS,
    REJECTED_TRAJECTORIES,
    SAMPLED,
    SELECTED,
    SOFT_LABELS,
    STEP_FEATURES,
)
from cpmi_dagster.contracts.tables import TABLES, Partitioning
from cpmi_dagster.generation.monte_carlo import Portion
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.rewards.registry import REWARD_TYPES

WHOLE = "all"
"""The one part of a table that is not asked for in parts."""
NOTHING = "nothing"
"""The one part where a profile asks for no rows."""
PART = "part"
"""The column of a file that says which part a row is of; null for a row of all parts."""
HIDDEN_STATES = (STEP_FEATURES, PROBLEM_FEATURES, CANDIDATE_FEATURES)
LONGEST_PREFIX = max(
    steps for entry in REWARD_TYPES.values() for steps in (entry.needs.policy_steps, entry.needs.prover_steps) if steps
)
"""Steps of the longest prefix that a reward type names by its number; those beyond are asked for all together."""
FURTHER = "further"


def _logprobs(settings: Settings) -> Iterator[str]:
    steps = 3  # enough for every kind of context
    kinds = {part_of_context(context, steps): None for context in contexts_of(settings.demand.conditionings, steps)}
    templates, ranks = range(settings.scoring.templates), range(settings.demand.negatives + 1)
    return (f"{template}/{kind}/{rank}" for template, kind, rank in product(templates, kinds, ranks))


def _rollouts(steps: int | None, shortest: int, count: int) -> Iterator[str]:
    if steps == 0:
        return iter(())
    numbered = range(shortest, (LONGEST_PREFIX if steps is None else steps) + 1)
    prefixes = [*map(str, numbered), *([FURTHER] if steps is None else [])]
    return (f"{prefix}/{number}" for prefix, number in product(prefixes, range(count)))


_PARTS: dict[str, Callable[[Settings], Iterable[str]]] = {
    SAMPLED: lambda settings: map(str, range(settings.sources.solutions_of_each)),
    NEGATIVES: lambda settings: map(str, range(1, settings.demand.negatives + 1)),
    LOGPROBS: _logprobs,
    REJECTED_TRAJECTORIES: _logprobs,
    CONTROLS: lambda settings: (
        f"{name}/{template}" for name, template in product(settings.demand.controls, range(settings.scoring.templates))
    ),
    POLICY_ROLLOUTS: lambda settings: _rollouts(settings.demand.policy_steps, 1, settings.rollouts.policy_count),
    PROVER_ROLLOUTS: lambda settings: _rollouts(settings.demand.prover_steps, 0, settings.rollouts.prover_count),
    JUDGES: lambda settings: [f"judge {name}" for name in settings.benchmarks.judges] or [WHOLE],
}
PART_OF_ROW = {
    SAMPLED: pl.col("solution").cast(pl.String),
    NEGATIVES: pl.col("rank").cast(pl.String),
    CONTROLS: pl.format("{}/{}", "control", "template"),
    **dict.fromkeys(
        (POLICY_ROLLOUTS, PROVER_ROLLOUTS),
        pl.format(
            "{}/{}",
            pl.when(pl.col("prefix_length") > LONGEST_PREFIX)
            .then(pl.lit(FURTHER))
            .otherwise(pl.col("prefix_length").cast(pl.String)),
            "rollout",
        ),
    ),
    JUDGES: pl.format("judge {}", "judge"),
}
"""The part that a row is of, by its own columns; that of a log-probability takes the number of steps too."""
MADE_TOGETHER = {NEGATIVES}
"""Tables of which all parts are made again where one is missing: more of them are drawn from the same samples."""


def is_in_parts(key: str) -> bool:
    """Whether a table is asked for in parts."""
    return key in _PARTS


def parts_asked(key: str, settings: Settings) -> tuple[str, ...]:
    """The parts of a table that a profile asks for."""
    return tuple(_PARTS[key](settings)) or (NOTHING,) if key in _PARTS else (WHOLE,)


def parts_read(key: str, part: str, source: str) -> tuple[str, ...] | None:
    """The parts of an input that a part of a table is made of; None for those that the profile asks for."""
    if (key, source) in {(LOGPROBS, NEGATIVES), (REJECTED_TRAJECTORIES, NEGATIVES)}:
        rank = part.rpartition("/")[2]
        return () if part == NOTHING or rank == "0" else (rank,)
    return () if part == NOTHING else None


def facts_of_part(key: str, part: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a part of a table depends on: of judges, each on its own files or model, as `fact_of_judge` names them."""
    if key != JUDGES:
        return dict(facts)
    own = {
        kind: {name: fact for name, fact in facts[kind].items() if name.split(" ", 2)[-1] == part}
        for kind in ("sources", "models")
    }
    return {**facts, **own}


def fact_of_judge(judge: str, what: str | int, which: str | None) -> str:
    """The name of a file or model of a judge."""
    return f"{what} {which or ''} judge {judge}"


def feeds(source: str, partitioning: Partitioning | None, partition: str | None, settings: Settings) -> bool:
    """Whether a partition depends on a table at all.

    A recipe does on hidden states only where it trains a head on them; trajectories do on questions and their solutions
    only where they are not read.
    """
    if source in (QUESTIONS, SAMPLED):
        return settings.sources.sample is not None
    if partitioning != "recipe" or partition is None or source not in HIDDEN_STATES:
        return True
    return settings.recipe(partition).trained_with(settings.training).backbone == "frozen"


def part_of_logprob(step_count: pl.Expr) -> pl.Expr:
    """The part that a log-probability is of.

    Args:
        step_count: steps of its trajectory.
    """
    is_last = (pl.col("context") == "prefix") & (pl.col("step_index") == step_count - 1)
    kind = pl.when(is_last).then(pl.lit(LAST)).otherwise(pl.col("context").cast(pl.String))
    return pl.format("{}/{}/{}", "template", kind, "answer_rank")


# an unpartitioned input of which a partition depends on some rows only
ROWS_OF_PARTITION: dict[tuple[str, Partitioning | None], Callable[[Settings, str], pl.Expr]] = {
    (SELECTED, "shard"): lambda settings, shard: pl.col("shard") == shard,
    (SOFT_LABELS, "recipe"): lambda settings, recipe: pl.col("reward_type") == settings.recipe(recipe).reward_type,
    (PROBLEMS, "benchmark"): lambda _, benchmark: pl.col("benchmark") == benchmark,
}
# likewise, of a table in one file
ROWS_OF_TABLE = {(PROBLEMS, PROBLEM_FEATURES): pl.col("steps").is_not_null()}


def partitions_of(key: str, settings: Settings) -> list[str] | None:
    """The partition keys a profile gives a table; None for a table in one file."""
    by_partitioning = {
        "shard": settings.shard_keys,
        "recipe": settings.recipe_names,
        "benchmark": list(settings.benchmarks.best_of_n),
    }
    partitioning = TABLES[key].partitioning
    return by_partitioning[partitioning] if partitioning else None


def inputs_of(key: str, partition: str | None, source: str, settings: Settings) -> Sequence[str | None]:
    """The partitions of an input that a partition of a table is made from; None for a table in one file."""
    if TABLES[source].partitioning is None:
        return [None]
    is_alike = TABLES[source].partitioning == TABLES[key].partitioning
    return [partition] if is_alike else partitions_of(source, settings) or []


def portions_of(parts: Iterable[str]) -> list[Portion]:
    """The rollouts of some parts, those of neighbouring prefixes that have the same numbers together."""
    numbers: dict[int, list[int]] = {}
    for prefix, _, number in (part.partition("/") for part in parts):
        numbers.setdefault(LONGEST_PREFIX + 1 if prefix == FURTHER else int(prefix), []).append(int(number))
    portions: list[Portion] = []
    for length, own in sorted(numbers.items()):
        longest = None if length > LONGEST_PREFIX else length
        portion = Portion(length, longest, min(own), len(own))
        if portions and portions[-1] == replace(portion, shortest=portions[-1].shortest, longest=length - 1):
            portion = replace(portions.pop(), longest=longest)
        portions.append(portion)
    return portions
