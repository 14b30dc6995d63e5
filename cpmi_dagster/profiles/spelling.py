"""What a profile's author may have meant by a name that is no setting.

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
    """The setting that is spelled like one which is not there, else those there are, as a part of a sentence.

    Args:
        root: the model that holds all settings.
        place: the dotted path of the name.
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
    """The dotted paths of all settings in sections of one value, the deepest first: `scoring.templates`, `scoring`."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from setting_paths(field.annotation, f"{path}{name}.")
        yield f"{path}{name}"


def settings_in(annotation: Any) -> list[type[BaseModel]]:
    """The models that values of a type are, or contain: `tuple[TrajectorySource, ...]` contains `TrajectorySource`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in settings_in(part)]
