"""`cpmi export`: what a home holds as a labelled data set, or as a reward model that others load.

    mine/README.md                               the card
    mine/data/train-00000-of-00001.parquet       the rows, as `datasets.load_dataset` opens them
    mine/.cpmi-export.json                       {"kind": "dataset", "files": ["README.md", …], …}, written last

A folder is replaced if it holds nothing but what the last file names, unchanged since. `--to hf://datasets/me/mine` is
the folder as a repository of the hub; `--prm cpmi_bce --to prm` a reward model, on the hub `hf://me/prm`.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from cpmi_dagster.contracts.keys import (
    CONTROLS,
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
from cpmi_dagster.errors import LakeError, StorageError, UsageError
from cpmi_dagster.exports import FormName
from cpmi_dagster.exports.cards import dataset_card, model_card
from cpmi_dagster.exports.reward_models import save_reward_model
from cpmi_dagster.exports.rows import (
    CALIBRATED,
    DEFAULT_FORM,
    UNJUDGED,
    choose_threshold,
    exported_rows,
    parse_rule,
)
from cpmi_dagster.files.places import expanded
from cpmi_dagster.files.whole_files import try_to_write, written_at_once
from cpmi_dagster.installed import own_version
from cpmi_dagster.miniature.names import MINIATURE
from cpmi_dagster.models.model_files import check_trained
from cpmi_dagster.models.safe_loading import quiet_transformers
from cpmi_dagster.prm.model import load_reward_model
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.commands.hub_upload import SCHEME, Kind, Repository, check_repository, repository_of, upload
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.sources.hub import HubLock
from cpmi_dagster.rewards.dataset import DATASET_REWARD, labelled_trajectories
from cpmi_dagster.rewards.registry import REWARD_TYPES, Needs
from cpmi_dagster.trajectories.step_truth import with_truth

MARKER, CARD = ".cpmi-export.json", "README.md"
ROWS = "data/train-00000-of-00001.parquet"


@dataclass(frozen=True)
class ExportRequest:
    """What is exported, and where it goes; what is None was not asked for, and has its default.

    Attributes:
        to: folder, or address on the hub.
        form: of a data set's rows, a key of `exports.rows.FORMS`.
        reward_type: whose labels a data set has.
        threshold: least reward of a right step in the hard labels, as `parse_rule` reads it.
        recipe: the reward model to export instead of a data set.
    """

    to: str
    form: FormName | None = None
    reward_type: str | None = None
    threshold: str | None = None
    recipe: str | None = None


@dataclass(frozen=True)
class Exported:
    """What was written, where it is, and how it is opened."""

    what: str
    place: str
    opened: str


def export(settings: Settings, request: ExportRequest) -> Exported:
    """Export what a profile's home holds; a folder appears when it is complete, or not at all.

    Raises:
        UsageError: options do not go together, or something of the user's is where the export would go.
        LakeError: what is to be exported has not been made yet, or is damaged.
        StorageError: there is no room for it.
        CpmiError: the hub does not take it.
    """
    of_rows = {"--form": request.form, "--reward-type": request.reward_type, "--threshold": request.threshold}
    if request.recipe and (given := [option for option, value in of_rows.items() if value is not None]):
        raise UsageError(f"{given[0]} is for data sets, and this exports a reward model; leave it out")
    parse_rule(request.threshold)
    lake = Lake.of(settings)
    with _target(request.to, "model" if request.recipe else "dataset") as (folder, repository):
        with written_at_once(folder) as unfinished:
            write = _write_model if request.recipe else _write_dataset
            what, facts = write(lake, settings, request, unfinished, folder.name)
            facts |= {"profile": settings.profile, "version": own_version(), "files": sorted(_files(unfinished))}
            (unfinished / MARKER).write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            check_replaceable(folder)  # again: it took minutes
        address = upload(folder, repository) if repository else str(folder)
    loaded = f"datasets.load_dataset({repository.id if repository else address!r})"
    return Exported(what, address, "README.md there has the lines of Python that load it" if request.recipe else loaded)


@contextmanager
def _target(to: str, kind: Kind) -> Iterator[tuple[Path, Repository | None]]:
    """The folder to write, and the repository that it is uploaded to, if any."""
    if to.startswith(SCHEME):
        repository = repository_of(to, kind)
        check_repository(repository, MARKER)
        with tempfile.TemporaryDirectory(prefix="cpmi-export-") as folder:
            yield Path(folder) / repository.id.partition("/")[2], repository
        return
    if "://" in to or Path(to).suffix in (".duckdb", ".csv", ".json", ".jsonl", ".parquet"):
        raise UsageError(f"--to {to}: an export is a folder, or {SCHEME}…; give such a name")
    folder = expanded(to).resolve()
    check_replaceable(folder)
    yield folder, None


def check_replaceable(folder: Path) -> None:
    """Refuse to write where something of the user's would be lost.

    Raises:
        UsageError: it is a file, or a folder that holds more than an earlier export has written.
        StorageError: its parent takes no files.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--to {folder} is a file; give a folder")
    if Path.cwd().is_relative_to(folder):
        raise UsageError(f"--to {folder} is the folder that this command runs in; give another, or run it elsewhere")
    try:
        written, at = set(json.loads((folder / MARKER).read_text())["files"]), (folder / MARKER).stat().st_mtime_ns
    except (OSError, ValueError, KeyError, TypeError):
        written, at = set(), 0
    for name in sorted(_files(folder) - {MARKER}):
        path = folder / name
        is_exported = name in written and not path.is_symlink()
        if not is_exported or path.stat().st_mtime_ns > at:
            why = "has changed since it was exported" if is_exported else "no export has written"
            raise UsageError(
                f"--to {folder} contains `{name}`, which {why}; give a new or empty folder, or move what is there away"
            )
    try:
        try_to_write(folder.absolute().parent)
    except OSError as error:
        raise StorageError(f"{folder} cannot be written ({error.strerror or error}); give another place") from error


def _files(folder: Path) -> set[str]:
    """Files and links in a folder, as paths relative to it."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return {path.relative_to(folder).as_posix() for path in found}


def _write_dataset(
    lake: Lake, settings: Settings, request: ExportRequest, folder: Path, name: str
) -> tuple[str, dict[str, Any]]:
    reward_type, form = request.reward_type or DATASET_REWARD, request.form or DEFAULT_FORM
    labelled, rule, judged = _labelled(lake, settings, reward_type), parse_rule(request.threshold), UNJUDGED
    if rule == CALIBRATED and lake.exists(TRUTH):
        shards = [key for key in settings.shard_keys if lake.has(TRAJECTORIES, key)]
        judged = with_truth(lake.read(TRAJECTORIES, shards, ["trajectory_id", "row_number", "steps"]), lake.read(TRUTH))
    entry = REWARD_TYPES.get(reward_type)
    is_probability = entry.is_probability if entry else reward_type in settings.sources.probability_labels
    threshold = choose_threshold(labelled, reward_type, is_probability, rule, judged)
    rows = exported_rows(labelled, form, threshold)
    if not rows.num_rows:
        raise UsageError(f"no trajectory can be written as `{form}`, whose marker is in every text; give --form trl")
    (folder / ROWS).parent.mkdir()
    pq.write_table(rows, folder / ROWS, compression="zstd")
    kept = labelled.filter(pl.col("trajectory_id").is_in(rows["trajectory_id"].to_pylist()))
    origin = made_with(lake, settings, reward_type), origins_of(settings, reward_type)
    card = dataset_card(kept, name, form, reward_type, is_probability, threshold, *origin)
    (folder / CARD).write_text(card, encoding="utf-8")
    left_out = f"; {labelled.height - kept.height:,} with the form's marker in their text are left out"
    what = (
        f"{threshold.words(kept)}\n{kept.height:,} trajectories with {kept['steps'].list.len().sum():,} labelled steps "
        f"(`{reward_type}`, form {form}{left_out if kept.height < labelled.height else ''})"
    )
    return what, {"kind": "dataset", "form": form, "reward_type": reward_type, "threshold": threshold._asdict()}


def _labelled(lake: Lake, settings: Settings, reward_type: str) -> pl.DataFrame:
    """Trajectories with the labels of a reward type, of the shards that the profile has."""
    if not lake.exists(SOFT_LABELS):
        raise LakeError(f"there are no labels in {settings.home} yet; run `cpmi run` first, which makes them")
    soft = lake.read(SOFT_LABELS)
    if not (chosen := soft.filter(reward_type=reward_type)).height:
        there = ", ".join(sorted(soft["reward_type"].unique())) or "none"
        raise UsageError(f"--reward-type {reward_type}: no step has such a label; this home has {there}")
    shards = [key for key in settings.shard_keys if lake.has(STEP_REWARDS, key)]
    record = lake.record(SOFT_LABELS)
    made_of: Mapping[str, str] = (record.inputs.get("inputs", {}).get(STEP_REWARDS) if record else None) or {}
    if changed := [key for key in shards if key in made_of and lake.content(STEP_REWARDS, key) != made_of[key]]:
        raise LakeError(
            f"labels.step_rewards of shard {changed[0]} has changed since dataset.soft_labels was made from it "
            f"({len(changed)} such shards); run `cpmi run` first"
        )
    rewards = [lake.read(STEP_REWARDS, key).filter(reward_type=reward_type) for key in shards]
    trajectories = lake.read(TRAJECTORIES, shards).join(lake.read(SELECTED), on="trajectory_id", how="semi")
    negatives = lake.read(NEGATIVES, [key for key in shards if lake.has(NEGATIVES, key)])
    rewards = pl.concat([lake.read(STEP_REWARDS, []), *rewards])
    labelled = labelled_trajectories(trajectories, negatives, rewards, chosen, reward_type)
    is_whole = labelled.filter(
        *(pl.col(name).list.len() == pl.col("steps").list.len() for name in ("rewards", "soft_labels"))
    )
    if is_whole.height < chosen["trajectory_id"].n_unique():
        raise LakeError("dataset.soft_labels has steps that are not selected or rewarded now; run `cpmi run` first")
    return labelled


def made_with(lake: Lake, settings: Settings, reward_type: str) -> dict[str, str]:
    """The models behind labels with their revision or hash, and the settings of the run that made them, by words."""
    needs = entry.needs if (entry := REWARD_TYPES.get(reward_type)) else Needs()
    tables = {
        "wrote the solutions": SAMPLED if settings.sources.sample else "",
        "labeler": LOGPROBS if needs.scores else CONTROLS if needs.controls else "",
        "sampled hard negatives": NEGATIVES if needs.contrasts else "",
        "completed solutions": POLICY_ROLLOUTS if needs.policy_steps != 0 else "",
        "completed solutions as the prover": PROVER_ROLLOUTS if needs.prover_steps != 0 else "",
    }
    found = {
        did: ", ".join(sorted({record.model for shard in lake.partitions(key) for record in lake.records(key, shard)}))
        for did, key in tables.items()
        if key
    }
    record = lake.record(STEP_REWARDS, lake.partitions(STEP_REWARDS)[0])
    settings_then: Mapping[str, Any] = record.settings if record else {}
    found |= {"profile": settings.profile, "cpmi-dagster": own_version(), "seed": f"{settings_then.get('seed', '')}"}
    if needs.scores:
        found["prompt templates"] = f"{settings_then.get('scoring.templates', '')}"
    if needs.policy_steps != 0:
        found["rollouts of a prefix"] = f"{settings_then.get('rollouts.policy_count', '')}"
    return found


def origins_of(settings: Settings, reward_type: str) -> dict[str, str]:
    """The data sets behind a labelled one, with their revisions; of a local path only its last part."""
    sources, locked = settings.sources, HubLock(settings.home).revisions()
    used = [("questions" if one.sample else "questions and solutions", one) for one in sources.trajectories]
    used += [("gold answers", one) for one in sources.references]
    used += [("step labels", one) for name, one in sources.step_labels.items() if name == reward_type]
    origins = {}
    for use, source in used:
        is_public = source.hub is not None or source.place.startswith(MINIATURE)
        place = source.place if is_public else Path(source.place).name
        origins[f"{use}: {place}"] = source.revision or locked.get(f"dataset {source.hub}", "")
    return origins


def _write_model(
    lake: Lake, settings: Settings, request: ExportRequest, folder: Path, name: str
) -> tuple[str, dict[str, Any]]:
    recipe = settings.recipe(str(request.recipe)).name
    row = lake.read(MODELS, recipe).row(0, named=True)
    place = lake.home / row["path"]
    check_trained(place, row["weights_fingerprint"])
    with quiet_transformers():
        exported = save_reward_model(load_reward_model(place, device="cpu"), folder)
    backbone = row["backbone"].partition("@")[0]
    base_model = backbone if "/" in backbone and ":" not in backbone else None
    card = model_card((place / CARD).read_text(encoding="utf-8"), name, exported, base_model)
    (folder / CARD).write_text(card, encoding="utf-8")
    return f"reward model `{recipe}` as {exported.architecture}", {"kind": "model", "recipe": recipe}
