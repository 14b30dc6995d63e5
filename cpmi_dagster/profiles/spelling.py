"""Suggests the setting that a misspelt name may mean.

settings_beside(Settings, "scoring.row_token")  ->  "did you mean `scoring.row_tokens`?"
settings_beside(Settings, "templates")          ->  "did you mean `scoring.templates`?"
settings_beside(Settings, "soft_labels.mad")    ->  "`soft_labels` has clip, epsilon, mad_factor"
"""

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel

from cpmi_dagster.files.text import closest

MOST_NAMES = 12
OTHERWISE = "remove it or check its spelling"


def settings_beside(root: type[BaseModel], place: str) -> str:
    """A suggestion for an unknown name, as a part of a sentence: a setting of like spelling, else the names there are.

    Args:
        root: the model of all settings.
        place: the dotted path of the unknown name.
    """
    *parents, name = place.split(".")
    model = root
    for parent in parents:
        field = model.model_fields.get(parent)
        if field is None or not isinstance(field.annotation, type) or not issubclass(field.annotation, BaseModel):
            return OTHERWISE
        model = field.annotation
    path = "".join(f"{parent}." for parent in parents)
    elsewhere = {there.rpartition(".")[2]: there for there in setting_paths(root)}
    if name in elsewhere:
        return f"did you mean `{elsewhere[name]}`?"
    if close := closest(name, model.model_fields):
        return f"did you mean `{path}{close}`?"
    if close := closest(name, elsewhere):
        return f"did you mean `{elsewhere[close]}`?"
    if parents and len(model.model_fields) <= MOST_NAMES:
        return f"`{'.'.join(parents)}` has {', '.join(sorted(model.model_fields))}"
    return OTHERWISE


def setting_paths(model: type[BaseModel], path: str = "") -> Iterator[str]:
    """Yield dotted paths of settings, the deepest first: `scoring.templates`, `scoring`; not those within lists."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from setting_paths(field.annotation, f"{path}{name}.")
        yield f"{path}{name}"


def settings_in(annotation: Any) -> list[type[BaseModel]]:
    """The models in a type: `[TrajectorySource]` of `tuple[TrajectorySource, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in settings_in(part)]
