"""The code version that Dagster is given of an asset: it changes with everything the profile says about its rows.

    labels/template_scores    "1-5f3a90c2"    code version 1, and a hash of the settings, models and sources below it

Dagster shows an asset as stale when this differs from that of its last materialization, or when the data version of
a direct input does. It does not look further up, so the settings and models of all that a table is made from are in the
hash. Sources count for the tables that read them: data versions decide which shards follow a changed row.
Nothing is read for it but the names, sizes and times of files: Dagster asks for it whenever it loads the code.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cpmi_dagster.errors import CpmiError
from cpmi_dagster.miniature.names import MINIATURE
from cpmi_dagster.models.language_models import model_place
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.profiles.sources import DataSource
from cpmi_dagster.resources.dag.declaration import Declaration
from cpmi_dagster.resources.dag.states import recipe_facts, setting_values
from cpmi_dagster.resources.lake.parts import NOTHING, feeds, parts_asked
from cpmi_dagster.resources.lake.records import hash_of

HASH_CHARACTERS = 8


def spec_version(stage: Declaration, settings: Settings, makers: Mapping[str, Declaration]) -> str:
    """The version of a stage's code and of what its rows depend on, by the profile alone.

    Args:
        makers: the stage behind each table.
    """
    facts: dict[str, Any] = {"seed": settings.seed}
    waiting = [stage]
    while waiting:
        declared = waiting.pop()
        if declared.table not in facts:
            facts[declared.table] = _facts(declared, settings)
            read = (key for key in declared.inputs if feeds(key, declared.partitioning, None, settings))
            waiting += [makers[key] for key in read if key in makers]
    facts["sources"] = source_states(stage, settings)
    return f"{stage.code_version}-{hash_of(facts)[:HASH_CHARACTERS]}"


def _facts(stage: Declaration, settings: Settings) -> list[Any]:
    if parts_asked(stage.table, settings) == (NOTHING,):
        return [stage.code_version]
    models = [_model(settings.models.of(role)) for role in stage.models]
    models += [[name, _model(model)] for name, model in stage.named_models(settings).items()]
    recipes = (
        [[recipe_facts(recipe, settings), _model(recipe.backbone)] for recipe in settings.recipes]
        if stage.partitioning == "recipe"
        else []
    )
    return [stage.code_version, setting_values((*stage.settings, *stage.asks), settings), models, recipes]


def _model(model: LanguageModel | None) -> Any:
    return model and [model.model_dump(mode="json"), [] if model.revision else _files(Path(model_place(model.name)))]


def source_states(stage: Declaration, settings: Settings) -> Any:
    """Names, sizes and times of the sources that a stage reads, or why they cannot be looked at."""
    try:
        sources = stage.sources(settings).values()
    except CpmiError as error:  # the stage says so when it runs; the others can be shown
        return str(error)
    return [_source(source, settings.seed) for source in sources]


def _source(source: DataSource, seed: int) -> Any:
    local = source.path and not source.path.startswith(MINIATURE)
    return [source.model_dump(mode="json"), _files(Path(str(source.path))) if local else seed]


def _files(place: Path) -> list[Any]:
    """Names, sizes and times of the files at a place; none for a hub id."""
    files = sorted(place.glob("*")) if place.is_dir() else [place]
    states = [(file.name, file.stat()) for file in files if file.is_file()]
    return [[name, state.st_size, state.st_mtime_ns] for name, state in states]
