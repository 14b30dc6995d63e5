"""`cpmi status --verify`: compares every file of a home with the hash from when it was written."""

from collections.abc import Callable
from pathlib import Path

from cpmi_dagster.contracts.keys import MODELS
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import CpmiError
from cpmi_dagster.models.model_files import check_trained
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.lake import ALL, CALLS, EARLIER, Lake
from cpmi_dagster.resources.lake.parquet import is_intact


def verify_home(settings: Settings, advance: Callable[[int, int], None]) -> tuple[int, list[str]]:
    """The number of Parquet files in a home's lake, and a sentence for each damaged or stray file or model.

    Args:
        advance: called with the numbers of files just read and in all.
    """
    lake, damage = Lake.of(settings), list[str]()
    files = sorted(path for path in lake.root.rglob("[!.]*.parquet") if not path.is_relative_to(lake.work_folder("")))
    for path in files:
        if sentence := _damage(lake, path, settings.profile_option):
            damage.append(sentence)
        advance(1, len(files))
    for recipe in filter(lambda name: lake.record(MODELS, name), lake.partitions(MODELS)):
        for folder, fingerprint in lake.read(MODELS, recipe).select("path", "weights_fingerprint").iter_rows():
            try:
                check_trained(lake.home / folder, fingerprint)
            except CpmiError as error:
                damage.append(f"{error}; `cpmi run{settings.profile_option} --only {MODELS} --force` trains it again")
    return len(files), damage


def _damage(lake: Lake, path: Path, option: str) -> str | None:
    """What is wrong with a file of the lake, and what to do."""
    inside = path.relative_to(lake.root)
    if CALLS in inside.parts:
        return None if is_intact(path) else f"{path} is damaged; its questions are asked again"
    if EARLIER in inside.parts:
        return None if is_intact(path) else f"{path} is damaged, and holds previous rows; remove it"
    key, partition = inside.parent.as_posix(), None if path.stem == ALL else path.stem
    if key in TABLES and lake.record(key, partition) and is_intact(path):
        return None
    shown = lake.partitions(key) if key in TABLES and partition else [None]
    if key in TABLES and partition in shown:
        return f"{path} is damaged; run `cpmi run{option}`, which makes it again"
    return f"{path} is damaged or a copy, and no table shows it; remove it"
