"""The tables that a profile needs, and their partitions; other tables are not in the graph, and read as empty.

miniature          no questions to sample solutions of, no labels from elsewhere, no judges: these tables are left out
rewards.types: [cpmi]    no rollouts, no log-probabilities of steps
recipes: []              no reward models, no predictions, no choices

partition_name("labels/hard_negatives", "003")                 labels/hard_negatives 003
partition_words("labels/hard_negatives", ["000", "001", "007"])    shards 000 to 001 and 007
"""

from collections.abc import Sequence
from itertools import groupby

from cpmi_dagster.benchmarks.registry import PRMBENCH, SUBSETS
from cpmi_dagster.contracts import keys
from cpmi_dagster.contracts.report_tables import TOPICS
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.profiles.settings import Settings

MOST_NAMED = 3


def is_needed(key: str, settings: Settings) -> bool:
    """Whether a profile needs a table."""
    return _reasons(settings).get(key, True)


def needed_tables(settings: Settings) -> list[str]:
    """The keys of the tables that a profile needs, in the order data flows."""
    reasons = _reasons(settings)
    return [key for key in TABLES if reasons.get(key, True)]


def needed_assets(settings: Settings) -> list[str]:
    """The tables that a profile needs and that are assets."""
    return [key for key in needed_tables(settings) if TABLES[key].is_asset]


def partitions_of(key: str, settings: Settings) -> list[str] | None:
    """The partitions of a table under a profile: None if it is unpartitioned, [] if the profile does not need it."""
    partitioning = TABLES[key].partitioning
    if partitioning is None:
        return None
    by_partitioning = {
        "shard": settings.shard_keys,
        "recipe": settings.recipe_names,
        "benchmark": list(settings.benchmarks.best_of_n),
        "topic": list(TOPICS),
    }
    return by_partitioning[partitioning] if is_needed(key, settings) else []


def partition_name(key: str, partition: str | None) -> str:
    """A partition as messages name it: `labels/hard_negatives 003`."""
    return f"{key} {partition}" if partition else key


def partition_words(key: str, names: Sequence[str]) -> str:
    """Partitions of a table in a sentence: `shards 000 to 003 and 007`, `recipes mc_bce and cpmi_bce`."""
    if not names:
        return ""
    kind, shown = TABLES[key].partitioning, list(names)
    if kind == "shard":
        runs = groupby(enumerate(sorted(names)), key=lambda place: int(place[1]) - place[0])
        ranges = ([name for _, name in run] for _, run in runs)
        shown = [each[0] if len(each) == 1 else f"{each[0]} to {each[-1]}" for each in ranges]
    if len(shown) > MOST_NAMED:
        shown = [*shown[:MOST_NAMED], f"{len(shown) - MOST_NAMED} more"]
    listed = " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
    return f"{kind}{'s' if len(names) > 1 else ''} {listed}"


def _reasons(settings: Settings) -> dict[str, bool]:
    """Whether a table is needed, by key; those not named always are."""
    sources, demand, benchmarks = settings.sources, settings.demand, settings.benchmarks
    samples, has_recipes = sources.sample is not None, bool(settings.recipes)
    chooses = has_recipes and bool(benchmarks.best_of_n)
    return {
        keys.QUESTIONS: samples,
        keys.SAMPLED: samples,
        keys.TRUTH: bool(sources.step_truth),
        keys.REJECTED_TRUTH: bool(sources.step_truth),
        keys.OWN_LABELS: bool(sources.step_labels),
        keys.REFERENCES: bool(sources.references),
        keys.PROBLEMS: bool(sources.benchmarks),
        **demand.needs,
        keys.REJECTED_TRAJECTORIES: demand.needs[keys.LOGPROBS],
        keys.SCORES: bool(demand.conditionings) and demand.negatives != 0,
        keys.MODELS: has_recipes,
        keys.PROCESSBENCH: has_recipes and any(name in sources.benchmarks for name in SUBSETS),
        keys.PRMBENCH_PREDICTIONS: has_recipes and PRMBENCH in sources.benchmarks,
        keys.CANDIDATES: chooses,
        keys.CHOICES: chooses,
        keys.JUDGES: bool(benchmarks.judges),
    }
