"""What an export's card says of its origin, read from the records of a home and the profile's settings."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cpmi_dagster.exports.dataset_card import Origin
from cpmi_dagster.exports.licences import Licence, licence_of
from cpmi_dagster.miniature.names import MINIATURE
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.profiles.sources import DataSource
from cpmi_dagster.resources.hub import HubLock
from cpmi_dagster.resources.lake import FileRecord, Lake
from cpmi_dagster.rewards.registry import REWARD_TYPES, Needs

SOFT_LABELS = "dataset/soft_labels"
STEP_REWARDS = "labels/step_rewards"


def labelers_of(lake: Lake, reward_type: str) -> list[str]:
    """The models behind labels, as the records of the shards name them; none of what takes no model."""
    entry = REWARD_TYPES.get(reward_type)
    if entry is None or entry.needs == Needs():
        return []
    return sorted({record.model for record in _records(lake) if record.model})


def method_of(lake: Lake, settings: Settings, reward_type: str) -> dict[str, str]:
    """Settings that the labels of a reward type depend on, by words."""
    entry, record = REWARD_TYPES.get(reward_type), next(iter(_records(lake)), None)
    if entry is None or record is None:
        return {}
    made_with: Mapping[str, Any] = record.settings
    found = {"seed": str(settings.seed)}
    if entry.needs.scores:
        conditionings = entry.needs.conditionings or (made_with.get("rewards", {}).get("default_conditioning"),)
        found["conditioning"] = ", ".join(map(str, conditionings))
        found["prompt templates"] = f"{made_with.get('scoring.templates')}"
        negatives = made_with.get("demand", {}).get("negatives")
        found["hard negatives of a question"] = f"{entry.needs.negatives or negatives}"
    if entry.needs.policy_steps != 0:
        found["rollouts of a prefix"] = f"{made_with.get('rollouts.policy_count')}"
    soft = settings.soft_labels
    if not is_probability(settings, reward_type):
        found["soft labels"] = f"MAD factor {soft.mad_factor:g}, clip {soft.clip or 'none'}"
    return found


def is_probability(settings: Settings, reward_type: str) -> bool:
    """Whether rewards of this type are soft labels as they are."""
    entry = REWARD_TYPES.get(reward_type)
    return entry.is_probability if entry else reward_type in settings.sources.probability_labels


def origins_of(settings: Settings, reward_type: str) -> list[Origin]:
    """The data sets behind a labelled one, each once."""
    sources = settings.sources
    named: list[tuple[str, DataSource]] = [
        *(("questions and solutions", source) for source in sources.math_shepherd),
        *(("gold answers", source) for source in sources.references),
        *(("step labels", source) for name, source in sources.step_labels.items() if name == reward_type),
    ]
    locked = HubLock(settings.home).revisions()
    origins = (
        Origin(use, public_name(source.place), _revision(source, locked), _licence(source)) for use, source in named
    )
    return list(dict.fromkeys(origins))


def benchmark_places(settings: Settings) -> dict[str, str]:
    """Where the profile's benchmarks are, by name."""
    return {name: public_name(source.place) for name, source in settings.sources.benchmarks.items()}


def public_name(place: str) -> str:
    """A hub id or part of the embedded world as it is; of a path the last part: a card does not tell of this disk."""
    if place.startswith(MINIATURE):
        return place
    return Path(place).name if Path(place).exists() or Path(place).is_absolute() else place


def _licence(source: DataSource) -> Licence:
    return licence_of(source.place, "datasets", is_on_hub=source.hub is not None)


def _revision(source: DataSource, locked: Mapping[str, str]) -> str:
    return "" if source.hub is None else source.revision or locked.get(f"dataset {source.hub}", "")


def _records(lake: Lake) -> Iterable[FileRecord]:
    records = (lake.intact_record(STEP_REWARDS, shard) for shard in lake.partitions(STEP_REWARDS))
    return [record for record in records if record]
