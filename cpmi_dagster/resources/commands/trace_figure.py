"""`cpmi trace --figure`: the tables, settings, reward models and labels behind a figure of the report.

trace_figure(settings, "label_quality/CPMI")

figures    row CPMI, column Label AUC: 0.712 [0.664, 0.755], n = 1,204; …
files      labels/step_rewards 000 to 003, labels/hard_negatives, … and what made each
settings   labels/step_rewards: rewards.default_conditioning marginal, scoring.templates 4, …
labels     cpmi: 216 trajectories, such as t000000017, which `cpmi trace t000000017` follows further
queries    select * from labels.step_rewards where reward_type = 'cpmi'
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from cpmi_dagster.contracts.keys import COSTS, FIGURES, MODELS, NEGATIVES, OWN_LABELS, SOFT_LABELS, STEP_REWARDS
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.profiles.partitions import partition_name, partitions_of
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.reports.artifacts import IS_OURS, Artifact, FigureName, find_artifact, find_figures, sources_of
from cpmi_dagster.reports.figures import ReportInputs
from cpmi_dagster.resources.lake.database import quoted, reader
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parquet import Record
from cpmi_dagster.resources.lake.query import ask
from cpmi_dagster.rewards.registry import REWARD_TYPES
from cpmi_dagster.rewards.reward_type import DEFAULT, EVERY, Demand

TYPES = "select distinct reward_type from labels.step_rewards order by all"
LABELS = """
    with solutions as (
        select reward_type, trajectory_id, count(*) as steps,
            bool_or(row_number in (select row_number from sources.step_truth)) as judged
        from labels.step_rewards join alignment.trajectories using (trajectory_id)
        where list_contains($types, reward_type) group by all
    )
    select reward_type, count(*) as trajectories, sum(steps)::bigint as steps, count(*) filter (judged) as judged,
        coalesce(min(trajectory_id, 3) filter (judged), min(trajectory_id, 3)) as examples
    from solutions group by all
"""
MODEL = ["recipe", "reward_type", "objective", "backbone", "weights_fingerprint", "data_version"]


@dataclass(frozen=True)
class FigureTrace:
    """What some figures of one table of the report were measured from.

    Attributes:
        artifact: name of the table of the report.
        figures: `tables.PaperComparison` rows.
        files: records of the files of each table behind them, by its key; the figures' own first.
        changed: keys of tables whose rows are no longer those that the figures were measured from.
        settings: settings by dotted name that decided the rows of a table, by its key, or of a recipe.
        models: recipe, reward_type, objective, backbone, weights_fingerprint, data_version.
        labels: reward_type, conditioning, negatives, trajectories, steps, judged (trajectories), examples (their ids).
        queries: SQL by the table that it reads.
    """

    artifact: str
    figures: pl.DataFrame
    files: Mapping[str, Sequence[Record]]
    changed: Sequence[str]
    settings: Mapping[str, Mapping[str, Any]]
    models: pl.DataFrame
    labels: pl.DataFrame
    queries: Mapping[str, str]


def trace_figure(settings: Settings, name: str) -> FigureTrace:
    """Follow figures of the report back to the labels.

    Args:
        name: `ARTIFACT`, `ARTIFACT/ROW` or `ARTIFACT/ROW/COLUMN`.

    Raises:
        CpmiError: there is no such figure; the message has the nearest names.
        LakeError: no figures have been made yet.
    """
    lake = Lake.of(settings)
    with reader(lake, settings) as connection:
        artifact = find_artifact(name)
        measured = lake.read(FIGURES, artifact.topic).filter(artifact=artifact.name)
        chosen, figures = find_figures(artifact, name, measured)
        inputs = ReportInputs(
            {STEP_REWARDS: ask(connection, TYPES)},
            settings.recipes,
            settings.models.labeler.name,
            negatives=settings.negatives.count,
        )
        rows, columns = (figures.filter(IS_OURS)[name].unique(maintain_order=True) for name in ("row", "column"))
        # beside a row whose column is not named, the labels that some columns compare it with would be in the way
        sources = sources_of(artifact, rows, columns, inputs, with_compared=chosen.column is not None)
        types = list(dict.fromkeys(source.reward_type for source in sources))
        labels = ask(connection, LABELS, {"types": types})
    recipes = list(dict.fromkeys(source.recipe for source in sources if source.recipe))
    files = _files(lake, settings, artifact, types, recipes)
    return FigureTrace(
        artifact.name,
        figures,
        files,
        _changed(files),
        {title: facts for records in files.values() for title, facts in _settings(records, types)},
        lake.read(MODELS, [str(record.partition) for record in files.get(MODELS, ())], MODEL),
        _with_demands(labels, types, files),
        _queries(chosen, files, types if chosen.row else [], recipes if chosen.row else []),
    )


def _files(
    lake: Lake, settings: Settings, artifact: Artifact, types: Sequence[str], recipes: Sequence[str]
) -> dict[str, list[Record]]:
    """The records of the tables behind an artifact that are there, by key, from the figures back to the sources."""
    demanded = [key for name in types for key, is_asked in _demand(name).needs.items() if is_asked]
    own = [OWN_LABELS] if any(name not in REWARD_TYPES for name in types) else []
    rewards = [STEP_REWARDS, *demanded, *own] if types else []
    behind = {*artifact.needs, *rewards, *((MODELS, SOFT_LABELS) if recipes else ())}
    files = {}
    for key in [FIGURES, *(key for key in reversed(TABLES) if key in behind)]:
        partitions: Sequence[str | None] = partitions_of(key, settings) or [None]
        if key == FIGURES:
            partitions = [artifact.topic]
        elif TABLES[key].partitioning == "recipe" and recipes:
            partitions = recipes
        if records := [record for name in partitions if (record := lake.record(key, name))]:
            files[key] = records
    return files


def _demand(reward_type: str) -> Demand:
    """What a reward type reads; nothing for labels of the user."""
    return REWARD_TYPES[reward_type].demand if reward_type in REWARD_TYPES else Demand()


def _changed(files: Mapping[str, Sequence[Record]]) -> list[str]:
    """The tables whose rows differ from those that the figures' record names as its inputs."""
    if FIGURES not in files:
        return []
    read = files[FIGURES][0].inputs.get("inputs", {})

    def is_other(record: Record) -> bool:
        content = read.get(record.table)
        content = content.get(record.partition) if isinstance(content, Mapping) else content
        return content not in (None, record.content)

    return [key for key, records in files.items() if any(map(is_other, records))]


def _settings(records: Sequence[Record], types: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The settings that decided the rows of a table, by its key; by recipe those that a model was trained by."""
    by_recipe = records[0].table == MODELS
    facts = [_flat(record.settings, types, by_recipe) for record in records]
    if by_recipe:
        yield from (
            (partition_name(MODELS, record.partition), each) for record, each in zip(records, facts, strict=True)
        )
    elif facts[0]:
        is_same = all(each == facts[0] for each in facts)
        yield (
            records[0].table if is_same else f"{partition_name(records[0].table, records[0].partition)}, others differ",
            facts[0],
        )


def _flat(values: Mapping[str, Any], types: Sequence[str], with_recipe: bool, before: str = "") -> dict[str, Any]:
    """Settings by dotted name, without missing ones, the seed and other recipes; of reward types, those of `types`."""
    flat = {}
    for name, value in values.items():
        path = before + name
        if path in ("seed", "recipes") or (path == "recipe" and not with_recipe) or value in (None, [], {}):
            continue
        if isinstance(value, Mapping):
            flat |= _flat(value, types, with_recipe, f"{path}.")
        else:
            flat[path] = [each for each in value if each in types] if types and path == "rewards.types" else value
    return flat


def _with_demands(labels: pl.DataFrame, types: Sequence[str], files: Mapping[str, Sequence[Record]]) -> pl.DataFrame:
    """The labels of each reward type, in the order of `types`, with the contexts and wrong answers that it reads."""
    decided = {key: records[0].settings for key, records in files.items()}
    default = decided.get(STEP_REWARDS, {}).get("rewards.default_conditioning", DEFAULT)
    most = decided.get(NEGATIVES, {}).get("demand.negatives")
    rows = []
    for name in types:
        demand = _demand(name)
        conditionings = [default if each == DEFAULT else each for each in demand.conditionings]
        rows.append(
            (name, ", ".join(conditionings) or None, most if demand.negatives is EVERY else demand.negatives or None)
        )
    schema = {"reward_type": pl.String, "conditioning": pl.String, "negatives": pl.Int64}
    return pl.DataFrame(rows, schema, orient="row").join(labels, on="reward_type", maintain_order="left")


def _queries(
    chosen: FigureName, files: Mapping[str, Sequence[Record]], types: Sequence[str], recipes: Sequence[str]
) -> dict[str, str]:
    """The SQL that reads the rows behind a figure, by table; without types and recipes, all rows of a table."""
    of_types = _where("reward_type", types)
    conditions = {STEP_REWARDS: of_types, SOFT_LABELS: of_types, COSTS: _where("method", types)}
    labels = {"f.row": chosen.row, "f.column": chosen.column}
    named = " and ".join(f"{column} = {quoted(label)}" for column, label in labels.items() if label is not None)
    queries = {FIGURES: f"select * from reports.{chosen.artifact} f{f' where {named}' if named else ''}"}
    for key in files:
        of_recipes = _where("recipe", recipes) if TABLES[key].partitioning == "recipe" else ""
        queries.setdefault(key, f"select * from {key.replace('/', '.')}{conditions.get(key, of_recipes)}")
    return queries


def _where(column: str, values: Sequence[str]) -> str:
    literals = [quoted(value) for value in values]
    if len(literals) > 1:
        return f" where {column} in ({', '.join(literals)})"
    return f" where {column} = {literals[0]}" if literals else ""
