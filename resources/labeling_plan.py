"""`cpmi plan`: what labeling the selected trajectories of a home by each method will take."""

from collections.abc import Callable, Mapping
from math import ceil

from cpmi_dagster.planning.hardware import default_hardware, load_hardware
from cpmi_dagster.planning.labeling import ROLES, chunk_costs
from cpmi_dagster.planning.plan import Plan, make_plan
from cpmi_dagster.planning.shapes import planned_model
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.hub import HubLock
from cpmi_dagster.resources.lake import Lake
from cpmi_dagster.resources.planned_chunks import choose_chunks


def plan(
    settings: Settings,
    hardware: str | None,
    gpus: int | None,
    sample: int,
    parameters: Mapping[str, int],
    advance: Callable[[int, int], None],
) -> Plan:
    """What labeling the selected trajectories by each method will take.

    Args:
        hardware: name in the table, or a file; by default the table's card for the profile's labeler.
        gpus: how many cards, those of the profile's `orchestration` by default; no more than one a chunk is used.
        sample: trajectories whose tokens are counted; 0 counts them all.
        parameters: parameter counts by role, for models whose config is not on this disk.
        advance: called with 1 after each counted chunk, and the number of chunks.

    Raises:
        CpmiError: there is no such hardware, nothing is selected yet, or a model's config or tokenizer is missing.
    """
    lake = Lake(settings.home)
    card = load_hardware(hardware or default_hardware(settings.models.labeler))
    chosen = choose_chunks(lake, settings, sample)
    revisions = HubLock(settings.home).revisions()
    planned = _with_mc(settings)
    specs = {role: spec for role in ROLES if (spec := planned.models.of(role))}
    models = {
        role: planned_model(role, spec, spec.revision or revisions.get(f"model {spec.name}"), parameters.get(role))
        for role, spec in specs.items()
    }
    costs = []
    for chunk in chosen.read(lake, planned):
        costs.append(chunk_costs(chunk, models, planned, card))
        advance(1, len(chosen.places))
    names = {role: model.name for role, model in models.items()}
    busy = min(gpus or _cards(settings), chosen.chunks)
    return make_plan(
        costs,
        chosen.trajectories,
        settings.rewards.methods,
        settings.demand,
        settings.cost_basis,
        names,
        card,
        busy,
        chosen.chunks,
    )


def _cards(settings: Settings) -> int:
    """The GPUs that a profile labels on; `actors: max` names no number."""
    ray = settings.orchestration.ray
    return settings.orchestration.gpus if ray is None or ray.actors == "max" else ceil(ray.actors * ray.num_gpus) or 1


def _with_mc(settings: Settings) -> Settings:
    """The profile with MC, which methods are compared with."""
    rewards = settings.rewards.model_copy(update={"types": (*settings.rewards.types, "mc")})
    return settings.model_copy(update={"rewards": rewards})
