"""`cpmi status --verify`: every file of a home is read, and compared with the hash that it was written with."""

from collections.abc import Callable

from cpmi_dagster.contracts.keys import MODELS
from cpmi_dagster.errors import CpmiError, LakeError
from cpmi_dagster.models.model_files import check_trained
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.lake import Lake


def verify_home(settings: Settings, advance: Callable[[int, int], None]) -> tuple[int, list[str]]:
    """The number of table files in a home, and a sentence for each file or model that is damaged, missing or stray.

    Args:
        advance: called with the numbers of files just read and of all.
    """
    lake, damage = Lake.of(settings), list[str]()
    shown = {(*place, file) for place, entry in lake.counted.items() for file in entry}
    files = shown | {(*place, file) for place in lake.counted for file in lake.tables.names(*place)}
    for key, partition, file in sorted(files, key=str):
        try:
            lake.tables.check(key, partition, file)
        except LakeError as error:
            stray = f"{key} {partition or ''} {file} is damaged or a copy, and no table shows it; remove it"
            damage.append(str(error) if (key, partition, file) in shown else stray)
        advance(1, len(files))
    for recipe in filter(lambda name: lake.is_whole(MODELS, name), lake.partitions(MODELS)):
        for folder, fingerprint in lake.read(MODELS, recipe).select("path", "weights_fingerprint").iter_rows():
            try:
                check_trained(lake.home / folder, fingerprint)
            except CpmiError as error:
                damage.append(f"{error}; `cpmi run --only {MODELS} --force` trains it again")
    return len(files), damage
