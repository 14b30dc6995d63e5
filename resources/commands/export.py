"""`cpmi export`: what a home holds as a data set, one database file, or a reward model that others load.

--to mine                            a folder that `datasets.load_dataset` opens
--to mine.duckdb                     one file with every table
--to hf://datasets/me/mine           the folder as a repository of the hub
--prm cpmi_bce --to prm              a reward model that needs no code of ours; to the hub: hf://me/prm
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from cpmi_dagster.contracts.keys import NEGATIVES, SELECTED, SOFT_LABELS, STEP_REWARDS, TRAJECTORIES, TRUTH
from cpmi_dagster.errors import LakeError, UsageError
from cpmi_dagster.exports import FormName
from cpmi_dagster.exports.dataset_card import DatasetFacts, dataset_card
from cpmi_dagster.exports.folders import CARD, check_replaceable, write_record, write_rows
from cpmi_dagster.exports.hard_labels import CALIBRATED, NONE_JUDGED, hard_labels, parse_rule
from cpmi_dagster.exports.rows import DEFAULT_FORM, exported_rows, labelled_trajectories
from cpmi_dagster.files.places import expanded
from cpmi_dagster.files.whole_files import check_writable, written_at_once
from cpmi_dagster.installed import own_version
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.commands.export_facts import (
    is_probability,
    method_of,
    models_of,
    origins_of,
    writers_of,
)
from cpmi_dagster.resources.commands.hub_upload import SCHEME, Kind, Repository, check_repository, repository_of, upload
from cpmi_dagster.resources.lake.database import Database, is_export
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.rewards.dataset import DATASET_REWARD
from cpmi_dagster.trajectories.step_truth import with_truth

DATABASE = ".duckdb"
OF_FILES = (".csv", ".json", ".jsonl", ".parquet", ".db", ".sqlite")
Advance = Callable[[int, int], None]


@dataclass(frozen=True)
class ExportRequest:
    """What is exported, and where it goes; what is None was not asked for, and has its default.

    Attributes:
        to: folder, file that ends in .duckdb, or address on the hub.
        form: of a data set's rows, a key of `exports.rows.FORMS`.
        reward_type: whose labels a data set has.
        threshold: the rule that chooses the least reward of a right step in the hard labels, as `parse_rule` reads it.
        recipe: the reward model to export instead of a data set.
    """

    to: str
    form: FormName | None = None
    reward_type: str | None = None
    threshold: str | None = None
    recipe: str | None = None

    @property
    def is_database(self) -> bool:
        """Whether it goes to one DuckDB file."""
        return self.to.endswith(DATABASE) and "://" not in self.to


@dataclass(frozen=True)
class Exported:
    """What was written, where it is, and how it is opened; and what a user should know besides."""

    what: str
    place: str
    opened: str
    warnings: tuple[str, ...] = ()


def export(settings: Settings, request: ExportRequest, advance: Advance) -> Exported:
    """Export what a profile's home holds; a folder or file appears when it is complete, or not at all.

    Args:
        advance: called with the numbers of parts just written and of all.

    Raises:
        UsageError: options do not go together, or something of the user's is where the export would go.
        LakeError: what is to be exported has not been made yet, or is damaged.
        StorageError: there is no room for it.
        CpmiError: the hub does not take it.
    """
    _check_options(request)
    lake = Lake.of(settings)
    if request.is_database:
        return _export_database(lake, settings, request, advance)
    kind: Kind = "model" if request.recipe else "dataset"
    write = _write_model if request.recipe else _write_dataset
    with _target(request.to, kind) as (folder, repository):
        name = repository.name if repository else folder.name
        with written_at_once(folder) as unfinished:
            what, opened, warnings = write(lake, settings, request, unfinished, name, advance)
            check_replaceable(folder)  # again: it took minutes
        address = upload(folder, repository) if repository else str(folder)
    return Exported(what, address, opened.format(place=repository.id if repository else address), warnings)


def _check_options(request: ExportRequest) -> None:
    of_rows = {
        "--form": request.form,
        "--reward-type": request.reward_type,
        "--threshold": request.threshold,
    }
    given = [option for option, value in of_rows.items() if value is not None]
    if request.recipe and request.is_database:
        raise UsageError(f"--prm writes a folder, and --to {request.to} is a database; give a folder or {SCHEME}")
    if given and (request.recipe or request.is_database):
        what = "a reward model" if request.recipe else "a database, which contains all labels"
        raise UsageError(f"{given[0]} is for data sets, and this exports {what}; leave it out")
    parse_rule(request.threshold)


@contextmanager
def _target(to: str, kind: Kind) -> Iterator[tuple[Path, Repository | None]]:
    """The folder to write, and the repository that it is uploaded to, if any."""
    if to.startswith(SCHEME):
        repository = repository_of(to, kind)
        check_repository(repository)
        with tempfile.TemporaryDirectory(prefix="cpmi-export-") as folder:
            yield Path(folder) / repository.name, repository
        return
    if Path(to).suffix in OF_FILES:
        raise UsageError(f"--to {to}: an export is a folder or a {DATABASE} file; give such a name")
    if "://" in to:
        raise UsageError(f"--to {to}: give a folder, a file that ends in {DATABASE}, or {SCHEME}…")
    folder = expanded(to).resolve()
    check_replaceable(folder)
    yield folder, None


def _export_database(lake: Lake, settings: Settings, request: ExportRequest, advance: Advance) -> Exported:
    path = expanded(request.to).absolute()
    if path.exists() and not path.is_dir() and not is_export(path):
        raise UsageError(f"--to {path} is a file that no export has written; give another name, or move it away")
    check_writable(path)
    facts = {
        "profile": settings.profile,
        "seed": str(settings.seed),
        "version": own_version(),
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    tables = Database(lake, settings).export(path, facts, advance)
    what = f"{tables['rows'].sum():,} rows in {tables.height} tables"
    return Exported(what, str(path), f'duckdb.connect("{path}").sql("from cpmi_export")')


Written = tuple[str, str, tuple[str, ...]]
"""What was written, how it is opened (`{place}` is where it is), and warnings."""


def _write_dataset(
    lake: Lake, settings: Settings, request: ExportRequest, folder: Path, name: str, advance: Advance
) -> Written:
    reward_type, form = request.reward_type or DATASET_REWARD, request.form or DEFAULT_FORM
    labelled = _labelled(lake, settings, reward_type)
    rule = parse_rule(request.threshold)
    judged = _judged(lake, settings) if rule == CALIBRATED else NONE_JUDGED
    hard = hard_labels(labelled, reward_type, is_probability(lake, reward_type), rule, judged)
    exported = exported_rows(labelled, form, hard)
    if exported.rows.is_empty():
        raise UsageError(f"no trajectory can be written as `{form}`, whose marker is in every text; give --form trl")
    facts = DatasetFacts(
        name=name,
        profile=settings.profile,
        form=form,
        hard=hard,
        version=own_version(),
        models=models_of(lake, reward_type, lake.content(SOFT_LABELS, None)) | writers_of(lake, settings),
        method=method_of(lake, reward_type),
        sources=origins_of(settings, reward_type),
        left_out=exported.left_out,
    )
    write_rows(exported.rows, folder, advance)
    kept = labelled.join(exported.rows.select("trajectory_id"), on="trajectory_id", how="semi")
    (folder / CARD).write_text(dataset_card(facts, kept), encoding="utf-8")
    cuts = [cut._asdict() for cut in hard.cuts]
    options = {"form": form, "reward_type": reward_type, "threshold": request.threshold, "hard_labels": cuts}
    write_record(folder, "dataset", {"profile": settings.profile, "version": facts.version, **options})
    steps = kept["steps"].list.len().sum()
    warnings = (f"{exported.left_out:,} trajectories whose text contains the form's marker were left out",)
    what = f"{kept.height:,} trajectories with {steps:,} labelled steps (`{reward_type}`, form {form})"
    return (
        f"{hard.words(kept)}\n{what}",
        "datasets.load_dataset({place!r})",
        warnings if exported.left_out else (),
    )


def _labelled(lake: Lake, settings: Settings, reward_type: str) -> pl.DataFrame:
    """Trajectories with the labels of a reward type, of the shards that the profile has."""
    if not lake.exists(SOFT_LABELS):
        raise LakeError(f"there are no labels in {settings.home} yet; run `cpmi run` first, which makes them")
    soft = lake.read(SOFT_LABELS)
    if not (found := soft.filter(reward_type=reward_type)).height:
        there = ", ".join(sorted(soft["reward_type"].unique())) or "none"
        raise UsageError(f"--reward-type {reward_type}: no step has such a label; this home has {there}")
    shards = [key for key in settings.shard_keys if lake.has(STEP_REWARDS, key)]
    _check_same_run(lake, shards)
    rewards = pl.concat(
        [lake.read(STEP_REWARDS, []), *(lake.read(STEP_REWARDS, key).filter(reward_type=reward_type) for key in shards)]
    )
    trajectories = lake.read(TRAJECTORIES, shards).join(lake.read(SELECTED), on="trajectory_id", how="semi")
    negatives = lake.read(NEGATIVES, [key for key in shards if lake.has(NEGATIVES, key)])
    return labelled_trajectories(trajectories, negatives, rewards, found, reward_type)


def _judged(lake: Lake, settings: Settings) -> pl.DataFrame:
    """Trajectories whose steps somebody has judged, with these judgements as the list `correct`."""
    if not lake.exists(TRUTH):
        return NONE_JUDGED
    shards = [key for key in settings.shard_keys if lake.has(TRAJECTORIES, key)]
    trajectories = lake.read(TRAJECTORIES, shards, ["trajectory_id", "row_number", "steps"])
    return with_truth(trajectories, lake.read(TRUTH))


def _check_same_run(lake: Lake, shards: list[str]) -> None:
    """Refuse rewards that were made again after the soft labels: a row would mix labels of two runs."""
    record = lake.record(SOFT_LABELS, None)
    made_of = record.inputs.get("inputs", {}).get(STEP_REWARDS) if record else None
    if made_of is None:
        return  # its rows were not written by a run
    if changed := [key for key in shards if lake.content(STEP_REWARDS, key) != made_of.get(key)]:
        raise LakeError(
            f"labels.step_rewards of shard {changed[0]} has changed since dataset.soft_labels was made from it "
            f"({len(changed)} such shards); run `cpmi run` first"
        )


def _write_model(
    lake: Lake, settings: Settings, request: ExportRequest, folder: Path, name: str, advance: Advance
) -> Written:
    from cpmi_dagster.resources.commands.export_model import write_model

    assert request.recipe is not None
    exported = write_model(lake, settings, settings.recipe(request.recipe), folder, name, advance)
    facts = {"profile": settings.profile, "version": own_version(), "recipe": request.recipe}
    write_record(folder, "model", facts)
    opened = "README.md there has the lines of Python that load it"
    return f"reward model `{request.recipe}` as {exported.architecture}", opened, ()
