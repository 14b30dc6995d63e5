"""What an export's card says of its origin, read from the records of the files that it was made of.

Models and settings are those of the run that made the labels, whatever the profile says today; a card says so where
they are not known, since a file was made again after the labels, or by an earlier version. Sources are the profile's.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cpmi_dagster.contracts.keys import (
    CONTROLS,
    LOGPROBS,
    NEGATIVES,
    POLICY_ROLLOUTS,
    PROVER_ROLLOUTS,
    SAMPLED,
    SOFT_LABELS,
    STEP_REWARDS,
)
from cpmi_dagster.exports.dataset_card import Origin
from cpmi_dagster.exports.licences import Licence, licence_of
from cpmi_dagster.miniature.names import MINIATURE
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.profiles.sources import DataSource
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.records import FileRecord
from cpmi_dagster.resources.sources.hub import HubLock
from cpmi_dagster.rewards.registry import REWARD_TYPES, Needs

NOT_RECORDED = "not recorded"


def models_of(lake: Lake, reward_type: str, labels: str) -> dict[str, list[str]]:
    """The models behind labels, by what they did.

    Args:
        labels: the hash of the soft labels' rows.

    Returns:
        Models with their revision or the hash of their weights; nothing for labels that take no model.
    """
    entry = REWARD_TYPES.get(reward_type)
    if entry is None or entry.needs == Needs():
        return {}
    soft = lake.intact_record(SOFT_LABELS)
    rewards = _rewards_behind(lake, soft) if soft and soft.content == labels else []
    tables = _evidence(entry.needs)
    return {
        did: sorted({_maker(lake, key, record) for record in rewards for key in keys}) or [NOT_RECORDED]
        for did, keys in tables.items()
    }


def writers_of(lake: Lake, settings: Settings) -> dict[str, list[str]]:
    """The models that wrote the solutions, where the profile samples them."""
    if not settings.sources.sample:
        return {}
    records = (lake.intact_record(SAMPLED, shard) for shard in settings.shard_keys)
    return {"policy, wrote the solutions": sorted({record.model for record in records if record}) or [NOT_RECORDED]}


def method_of(lake: Lake, reward_type: str) -> dict[str, str]:
    """The settings that soft labels of a reward type were made with, by words; several where shards differ."""
    entry, soft = REWARD_TYPES.get(reward_type), lake.intact_record(SOFT_LABELS)
    if soft is None:
        return {}
    found: dict[str, list[str]] = {}
    if entry:
        for record in _rewards_behind(lake, soft):
            for name, value in _settings_of(entry.needs, record.settings).items():
                found[name] = list(dict.fromkeys([*found.get(name, ()), value]))
    if not is_probability(lake, reward_type) and (made_with := soft.settings.get("soft_labels")):
        clip = made_with.get("clip")
        unit = f"unit of the z-score: {made_with['mad_factor']:g} median absolute deviations"
        found["soft labels"] = [f"{unit}; scores are {'not clipped' if clip is None else f'clipped at ±{clip:g}'}"]
    return {name: " or ".join(values) for name, values in found.items()}


def is_probability(lake: Lake, reward_type: str) -> bool:
    """Whether rewards of this type were taken for soft labels as they are."""
    entry, soft = REWARD_TYPES.get(reward_type), lake.intact_record(SOFT_LABELS)
    if entry:
        return entry.is_probability
    return reward_type in (soft.settings.get("sources.probability_labels") or () if soft else ())


def origins_of(settings: Settings, reward_type: str) -> list[Origin]:
    """The data sets behind a labelled one, each once."""
    sources = settings.sources
    named: list[tuple[str, DataSource]] = [
        *(("questions" if source.sample else "questions and solutions", source) for source in sources.trajectories),
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


def _rewards_behind(lake: Lake, soft: FileRecord) -> list[FileRecord]:
    """What made the rewards that soft labels were made of, shard by shard; without those that were made again."""
    made_of: Mapping[str, str] = soft.inputs.get("inputs", {}).get(STEP_REWARDS) or {}
    records = ((lake.intact_record(STEP_REWARDS, shard), content) for shard, content in made_of.items())
    return [record for record, content in records if record and record.content == content]


def _evidence(needs: Needs) -> dict[str, list[str]]:
    """The tables that rewards are made of, by what a model did in them."""
    tables = {
        "labeler": [*([LOGPROBS] if needs.scores else ()), *([CONTROLS] if needs.controls else ())],
        "sampler of hard negatives": [NEGATIVES] if needs.contrasts else [],
        "policy, completes solutions": [POLICY_ROLLOUTS] if needs.policy_steps != 0 else [],
        "prover, completes solutions": [PROVER_ROLLOUTS] if needs.prover_steps != 0 else [],
    }
    return {did: keys for did, keys in tables.items() if keys}


def _maker(lake: Lake, key: str, rewards: FileRecord) -> str:
    """The model that made what rewards were made of, if that is still there."""
    if key == NEGATIVES:
        return _sampler(lake, rewards)
    record = lake.intact_record(key, rewards.partition)
    is_same = record is not None and rewards.inputs.get("inputs", {}).get(key) == record.as_input
    return record.model or NOT_RECORDED if record and is_same else NOT_RECORDED


def _sampler(lake: Lake, rewards: FileRecord) -> str:
    """The model that the hard negatives are from, which rewards do not read themselves: their log-probabilities do."""
    shard = rewards.partition
    record = lake.intact_record(NEGATIVES, shard)
    scored = lake.intact_record(LOGPROBS, shard)
    if record is None or scored is None or not _has_read(scored, record):
        return NOT_RECORDED
    return record.model or NOT_RECORDED


def _has_read(scored: FileRecord, negatives: FileRecord) -> bool:
    """Whether log-probabilities are of these negatives, or of the first of them."""
    read = scored.inputs.get("inputs", {}).get(NEGATIVES) or {"": ""}
    return all(negatives.contents.get(rank) == content for rank, content in read.items())


def _settings_of(needs: Needs, made_with: Mapping[str, Any]) -> dict[str, str]:
    """The settings that rewards with these needs depend on, as a record has them."""
    found = {"seed": made_with.get("seed")}
    if needs.scores:
        conditionings = needs.conditionings or [made_with.get("rewards", {}).get("default_conditioning")]
        negatives = made_with.get("demand", {}).get("negatives") if needs.negatives is None else needs.negatives
        found |= {"conditioning": ", ".join(map(str, conditionings)), "hard negatives of a question": negatives}
        found |= {"prompt templates": made_with.get("scoring.templates")}
    if needs.policy_steps != 0:
        found["rollouts of a prefix"] = made_with.get("rollouts.policy_count")
    if needs.prover_steps != 0:
        found["rollouts of a prefix by the prover"] = made_with.get("rollouts.prover_count")
    if needs.policy_steps != 0 and needs.prover_steps != 0:
        found["alpha, the weight of the prover's part"] = made_with.get("rewards", {}).get("alpha")
    return {name: NOT_RECORDED if value is None else f"{value}" for name, value in found.items()}
