"""`cpmi export`: what a home holds as a labelled data set, or as a reward model that others load.

    mine/README.md                               the card
    mine/data/train-00000-of-00001.parquet       the rows, as `datasets.load_dataset` opens them; also `test-…`
    mine/.cpmi-export.json                       {"files": ["README.md", …], "reward_type": …, …}

`--prm cpmi_bce --to prm` exports a reward model. Both may go to the hub (see `destination`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from cpmi_dagster.contracts.keys import (
    CONTROL_LOGPROBS,
    FIGURES,
    LOGPROBS,
    MODELS,
    NEGATIVES,
    POLICY_ROLLOUTS,
    PROVER_ROLLOUTS,
    SAMPLED,
    SELECTED,
    SOFT_LABELS,
    STEP_REWARDS,
    TRAJECTORIES,
    TRUTH,
)
from cpmi_dagster.contracts.report_tables import TOPIC_OF
from cpmi_dagster.errors import LakeError, UsageError
from cpmi_dagster.exports import FormName
from cpmi_dagster.exports.rows import (
    CALIBRATED,
    DEFAULT_FORM,
    UNJUDGED,
    Rule,
    choose_threshold,
    exported_rows,
    further_columns,
    parse_rule,
    split_by_question,
    with_further_rewards,
    write_rows,
)
from cpmi_dagster.files.text import counted
from cpmi_dagster.installed import own_version
from cpmi_dagster.models.model_files import check_trained
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.reports.artifacts import by_artifact
from cpmi_dagster.reports.verdict import label_facts
from cpmi_dagster.resources.commands.destination import Destination, destination
from cpmi_dagster.resources.commands.given_rows import given_columns
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.sources.hub import HubLock
from cpmi_dagster.rewards.dataset import DATASET_REWARD, KEY, labelled_trajectories
from cpmi_dagster.rewards.hazard import LABELS
from cpmi_dagster.rewards.registry import REWARD_TYPES, demand_of
from cpmi_dagster.trajectories.step_truth import with_truth

CARD = "README.md"
ROWS = "data/{part}-00000-of-00001.parquet"


class Exported(NamedTuple):
    """What was written, where it is, and how it is opened."""

    what: str
    place: str
    opened: str


def export(
    settings: Settings,
    to: str,
    form: FormName | None = None,
    reward_type: str | Sequence[str] | None = None,
    threshold: str | None = None,
    recipe: str | None = None,
    test_share: float | None = None,
) -> Exported:
    """Export what a profile's home holds; a folder appears when it is complete, or not at all.

    Args:
        to: folder, or address on the hub.
        form: of a data set's rows, a key of `exports.rows.FORMS`.
        reward_type: whose labels a data set has; of several, the first gives the hard labels.
        threshold: least reward of a right step in the hard labels, as `parse_rule` reads it.
        recipe: the reward model to export instead of a data set.
        test_share: share of the questions whose rows are in the part `test`, in (0, 1).

    Raises:
        UsageError: options do not go together, or something of the user's is where the export would go.
        LakeError: what is to be exported has not been made yet, or is damaged.
        StorageError: there is no room for it.
        CpmiError: the hub does not take it.
    """
    reward_types = [reward_type] if isinstance(reward_type, str) else list(dict.fromkeys(reward_type or ()))
    named = ",".join(reward_types) or None
    of_rows = {"form": form, "reward_type": named, "threshold": threshold, "test_share": test_share}
    if recipe and (given := [option for option, value in of_rows.items() if value is not None]):
        option = given[0].replace("_", "-")
        raise UsageError(f"--{option} is for data sets, and this exports a reward model; leave it out")
    rule = parse_rule(threshold)
    if test_share is not None and not 0 < test_share < 1:
        raise UsageError(f"--test-share {test_share:g}: give a number between 0 and 1")
    facts = {"profile": settings.profile, "version": own_version(), **of_rows, "prm": recipe}
    with destination(to, "model" if recipe else "dataset", facts) as there:
        if recipe:
            what, how = _write_model(settings, recipe, there), "README.md there has the lines of Python that load it"
        else:
            types, how = reward_types or [DATASET_REWARD], f"datasets.load_dataset({there.loaded!r})"
            what = _write_dataset(settings, types, form or DEFAULT_FORM, rule, test_share or 0, there)
    return Exported(what, there.place, how)


def _write_dataset(
    settings: Settings, reward_types: Sequence[str], form: FormName, rule: Rule, test_share: float, there: Destination
) -> str:
    from cpmi_dagster.exports.cards import dataset_card

    lake, judged, (reward_type, *others) = Lake.of(settings), UNJUDGED, reward_types
    labelled = _labelled(lake, settings, reward_type, others)
    if rule == CALIBRATED and lake.has_table(TRUTH):
        judged = with_truth(lake.read(TRAJECTORIES, settings.shard_keys), lake.read(TRUTH))
    entry = REWARD_TYPES.get(reward_type)
    is_probability = entry.is_probability if entry else reward_type in settings.sources.probability_labels
    threshold = choose_threshold(labelled, reward_type, is_probability, rule, judged)
    further = further_columns(others)
    rows = exported_rows(labelled, form, threshold, further)
    if rows.is_empty():
        raise UsageError(f"no trajectory can be written as `{form}`, whose marker is in every text; give --form trl")
    given, note = given_columns(settings, lake, rows)
    further |= dict.fromkeys(given.columns[1:], "as in the rows that were labelled")
    parts = split_by_question(rows.join(given, on=KEY, how="left", maintain_order="left"), test_share)
    for part, of_part in parts.items():
        write_rows(of_part, there.folder / ROWS.format(part=part))
    sizes = {
        part: f"{counted(each.height, 'trajectory', 'trajectories')} of "
        f"{counted(each['question_id'].n_unique(), 'question')}"
        for part, each in parts.items()
    }
    kept = labelled.join(rows, on=KEY, how="semi")
    origin = {f"part {part}": size for part, size in sizes.items() if test_share}
    for each in reward_types:
        origin |= made_with(lake, settings, each) | origins_of(settings, each)
    believed = label_facts(_figures_of(lake, settings), reward_type)
    card = dataset_card(kept, there.name, form, reward_type, is_probability, threshold, origin, believed, further)
    (there.folder / CARD).write_text(card, encoding="utf-8")
    left_out = labelled.height - kept.height
    without = f"; {left_out:,} with the form's marker in their text are left out" if left_out else ""
    in_parts = f"; {', '.join(f'{part} {size}' for part, size in sizes.items())}" if test_share else ""
    steps = kept["steps"].list.len().sum()
    train = believed.get("train on it?", "Not known: no step has been judged since the labels were made.")
    labels = ", ".join(f"`{each}`" for each in reward_types)
    return (
        f"{threshold.words(kept)}\nTrain on `{reward_type}`? {train}\n"
        f"{note}{kept.height:,} trajectories with {steps:,} labelled steps ({labels}, form {form}{without}{in_parts})"
    )


def _labelled(lake: Lake, settings: Settings, reward_type: str, others: Sequence[str]) -> pl.DataFrame:
    """Trajectories with the labels of reward types, of the shards that the profile has; all have the first type."""
    record = lake.record(SOFT_LABELS)
    if record is None:
        raise LakeError(
            f"there are no labels in {settings.home} yet; run `cpmi run{settings.profile_option}` first, which makes "
            "them"
        )
    soft = lake.read(SOFT_LABELS)
    there = sorted(soft["reward_type"].unique())
    if absent := [name for name in (reward_type, *others) if name not in there]:
        raise UsageError(
            f"--reward-type {absent[0]}: no step has such a label; this home has {', '.join(there) or 'none'}"
        )
    shards, read = settings.shard_keys, record.inputs.get("inputs", {}).get(STEP_REWARDS, {})
    trajectories = lake.read(TRAJECTORIES, shards).join(lake.read(SELECTED), on=KEY, how="semi")
    negatives, rewards = lake.read(NEGATIVES, shards), lake.read(STEP_REWARDS, shards)
    labelled = labelled_trajectories(trajectories, negatives, rewards, soft, reward_type)
    is_stale = any(lake.content(STEP_REWARDS, shard) != read.get(shard) for shard in shards)
    whole = labelled.filter(
        *(pl.col(name).list.len() == pl.col("steps").list.len() for name in ("rewards", "soft_labels"))
    )
    if is_stale or whole.height < soft.filter(reward_type=reward_type)[KEY].n_unique():
        raise LakeError(
            "dataset.soft_labels was not made from the trajectories and rewards of now; run "
            f"`cpmi run{settings.profile_option}` first"
        )
    return with_further_rewards(labelled, rewards, soft, others)


def _figures_of(lake: Lake, settings: Settings) -> dict[str, pl.DataFrame]:
    """The figures of the labels in a home by artifact; without those of other labels than there are now."""
    labels = {shard: lake.content(STEP_REWARDS, shard) for shard in settings.shard_keys}
    record = lake.record(FIGURES, TOPIC_OF["label_quality"])
    is_current = record and record.inputs.get("inputs", {}).get(STEP_REWARDS) == labels
    return by_artifact(lake.read(FIGURES, record.partition)) if record and is_current else {}


def made_with(lake: Lake, settings: Settings, reward_type: str) -> dict[str, str]:
    """The models behind labels with their revision or hash, and the settings of the run that made them, by words."""
    entry = REWARD_TYPES.get(reward_type)
    reads_labels = entry is not None and entry.reads_labels
    read = [reward_type] if entry else []
    if reads_labels:
        read = [name for name in LABELS if name in settings.rewards.types]
    needs = demand_of(read, settings.rewards.default_conditioning, settings.negatives.count).needs
    labeler = LOGPROBS if needs[LOGPROBS] else CONTROL_LOGPROBS
    record = lake.record(STEP_REWARDS, settings.shard_keys[0])
    settings_then = record.settings if record else {}

    def models(key: str) -> str:
        return ", ".join(sorted({record.model for record in lake.records(key)}))

    facts = {
        "wrote the solutions": settings.sources.sample and models(SAMPLED),
        "labeler": needs[labeler] and models(labeler),
        "sampled hard negatives": needs[NEGATIVES] and models(NEGATIVES),
        "completed solutions": needs[POLICY_ROLLOUTS] and models(POLICY_ROLLOUTS),
        "completed solutions as the prover": needs[PROVER_ROLLOUTS] and models(PROVER_ROLLOUTS),
        "hazard of the first error fitted on": reads_labels and settings.rewards.fitted.origin,
        "prompt templates": needs[LOGPROBS] and settings_then.get("scoring.templates"),
        "rollouts of a prefix": needs[POLICY_ROLLOUTS] and settings_then.get("rollouts.policy_count"),
        "seed": str(settings_then.get("seed", "")),
        "profile": settings.profile,
        "cpmi-dagster": own_version(),
    }
    return {name: str(fact) for name, fact in facts.items() if fact}


def origins_of(settings: Settings, reward_type: str) -> dict[str, str]:
    """The data sets behind a labelled one, with their revisions; of a local path only its last part."""
    sources, locked = settings.sources, HubLock(settings.home).revisions()
    used = [("questions" if source.sample else "questions and solutions", source) for source in sources.trajectories]
    used += [("gold answers", source) for source in sources.references]
    used += [("step labels", source) for name, source in sources.step_labels.items() if name == reward_type]
    origins = {}
    for use, source in used:
        is_public = source.hub is not None or source.is_embedded
        place = source.place if is_public else Path(source.place).name
        origins[f"{use}: {place}"] = source.revision or locked.get(f"dataset {source.hub}", "")
    return origins


def _write_model(settings: Settings, asked: str, there: Destination) -> str:
    from cpmi_dagster.exports.cards import model_card
    from cpmi_dagster.exports.reward_models import save_reward_model
    from cpmi_dagster.models.safe_loading import quiet_transformers
    from cpmi_dagster.prm.model import load_reward_model

    lake, recipe = Lake.of(settings), settings.recipe(asked).name
    row = lake.read(MODELS, recipe).row(0, named=True)
    place = lake.home / row["path"]
    check_trained(place, row["weights_fingerprint"])
    with quiet_transformers():
        model = load_reward_model(place, device="cpu")
        architecture = save_reward_model(model, there.folder)
    backbone = row["backbone"].partition("@")[0]
    base_model = backbone if "/" in backbone and ":" not in backbone else None
    card = model_card((place / CARD).read_text(encoding="utf-8"), there.name, model, architecture, base_model)
    (there.folder / CARD).write_text(card, encoding="utf-8")
    return f"reward model `{recipe}` as {architecture}"
