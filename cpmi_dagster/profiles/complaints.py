"""Says what is wrong with a setting of a profile, and which setting a misspelt name may mean.

explain(Settings, "mine.yaml", error)
    "profile `mine.yaml`: `scoring.row_token` is not a setting; did you mean `scoring.row_tokens`?"

settings_beside(Settings, "scoring.row_token")  ->  "did you mean `scoring.row_tokens`?"
settings_beside(Settings, "templates")          ->  "did you mean `scoring.templates`?"
settings_beside(Settings, "soft_labels.mad")    ->  "`soft_labels` has clip, epsilon, mad_factor"
"""

import os
from collections.abc import Iterator

from pydantic import BaseModel, ValidationError

from cpmi_dagster.errors import first_complaint
from cpmi_dagster.files.text import closest

MOST_NAMES = 12
OTHERWISE = "remove it or check its spelling"


def explain(root: type[BaseModel], profile: str, error: ValidationError) -> str:
    """One sentence on the first setting that is wrong; `root` is the model of all settings."""
    place, reason, kind, _ = first_complaint(error)
    if not place:
        return f"profile `{profile}`: {reason}"
    if kind == "missing":
        # a misspelt setting is also missing under its right name
        others = (".".join(map(str, each["loc"])) for each in error.errors() if each["type"] == "extra_forbidden")
        if misspelt := next((name for name in others if f"`{place}`" in settings_beside(root, name)), None):
            place, kind = misspelt, "extra_forbidden"
    if kind == "extra_forbidden":
        return f"{_place(profile, place)}: `{place}` is not a setting; {settings_beside(root, place)}"
    if kind == "missing":
        return f"profile `{profile}`: the setting `{place}` is missing; add it"
    return f"{_place(profile, place)}: `{place}` is wrong: {reason}"


def _place(profile: str, where: str) -> str:
    """The environment variable that gives a setting, else the profile."""
    variable = f"CPMI_{where.replace('.', '__')}__".upper()
    names = (name for name, value in os.environ.items() if value and variable.startswith(f"{name.upper()}__"))
    name = max(names, key=len, default=None)
    return f"environment variable {name}" if name else f"profile `{profile}`"


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
