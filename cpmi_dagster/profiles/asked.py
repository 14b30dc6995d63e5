"""The tables that a profile asks for; the others are not in the graph, and read as empty.

miniature          no questions to sample solutions of, no labels from elsewhere, no judges: these tables are left out
rewards.types: [cpmi]    no rollouts, no log-probabilities of steps
recipes: []              no reward models, no predictions, no choices
"""

from cpmi_dagster.benchmarks.registry import PRMBENCH, SUBSETS
from cpmi_dagster.contracts import keys
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.profiles.settings import Settings


def is_asked(key: str, settings: Settings) -> bool:
    """Whether a profile asks for a table."""
    return _reasons(settings).get(key, True)


def asked_tables(settings: Settings) -> list[str]:
    """The keys of the tables that a profile asks for, in the order data flows."""
    reasons = _reasons(settings)
    return [key for key in TABLES if reasons.get(key, True)]


def asked_assets(settings: Settings) -> list[str]:
    """The tables that a profile asks for and that are assets."""
    return [key for key in asked_tables(settings) if TABLES[key].is_asset]


def _reasons(settings: Settings) -> dict[str, bool]:
    """Whether a table is asked for, by key; those not named always are."""
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
