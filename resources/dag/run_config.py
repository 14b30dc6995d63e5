"""What a run of Dagster may set in its launchpad, and the settings that it then works with.

    ops:
      labels:
        config: {reward_types: [cpmi, mc], templates: 4}      for this run, instead of the profile's

What such a run adds to log-probabilities and rollouts stays in the home. The tables made from them, such as
`labels.step_rewards`, are those of this run until the next run under the profile, which makes them again.
"""

from collections.abc import Mapping
from typing import Any

import dagster as dg
from pydantic import ValidationError

from cpmi_dagster.errors import SettingsError, first_complaint
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.states import setting_values

FORCE = "force"
RUN_CONFIG = {
    FORCE: dg.Field(bool, default_value=False, description="compute the rows again even if nothing has changed"),
}
SETTINGS = {"reward_types": "rewards.types", "templates": "scoring.templates", "negatives": "negatives.count"}
"""By the launchpad's names, the settings that a run of the labels may change."""


def label_config(settings: Settings) -> dict[str, dg.Field]:
    """The launchpad's fields for the labels, filled in as the profile has them."""
    profile = setting_values([*SETTINGS.values()], settings)
    kinds = {name: [str] if isinstance(profile[path], list) else int for name, path in SETTINGS.items()}
    return {
        **RUN_CONFIG,
        **{
            name: dg.Field(kinds[name], default_value=profile[path], description=f"`{path}`, for this run alone")
            for name, path in SETTINGS.items()
        },
    }


def settings_of_run(settings: Settings, config: Mapping[str, Any]) -> Settings:
    """The settings with what the launchpad changes; recipes of other reward types are left out, as no label needs them.

    Args:
        config: of the op.

    Raises:
        SettingsError: a value is not valid, or does not fit the profile's others.
    """
    profile, changed = setting_values([*SETTINGS.values()], settings), dict[str, Any]()
    for name, path in SETTINGS.items():
        if config[name] == profile[path]:
            continue
        section, field = path.split(".")
        part = getattr(settings, section)
        try:
            changed[section] = type(part)(**{**part.model_dump(), field: config[name]})
        except ValidationError as error:
            raise SettingsError(f"the launchpad's `{name}` is wrong: {first_complaint(error).reason}") from error
    if not changed:
        return settings
    known = (*changed.get("rewards", settings.rewards).types, *settings.sources.step_labels)
    recipes = tuple(recipe for recipe in settings.recipes if recipe.reward_type in known)
    try:
        return settings.model_copy(update={**changed, "recipes": recipes}).parts_fit()
    except ValueError as error:
        raise SettingsError(f"what the launchpad sets does not fit profile `{settings.profile}`: {error}") from error
