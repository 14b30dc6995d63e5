"""What a profile's author may have meant by a name that is no setting.

settings_beside(Settings, "scoring.row_token")  ->  "did you mean `scoring.row_tokens`?"
settings_beside(Settings, "soft_labels.mad")    ->  "`soft_labels` has clip, epsilon, mad_factor"
"""

from difflib import get_close_matches

from pydantic import BaseModel

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
    if close := get_close_matches(name, model.model_fields, n=1):
        return f"did you mean `{path}{close[0]}`?"
    if parents and len(model.model_fields) <= MOST_NAMES:
        return f"`{'.'.join(parents)}` has {', '.join(sorted(model.model_fields))}"
    return OTHERWISE
