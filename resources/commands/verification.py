"""`cpmi status --verify`: every file of a home is read, and compared with what was written.

labels/answer_logprobs 001    the file's bytes have the hash in its seal, and it lies where it was written
labels/answer_logprobs        no Parquet file beside those of its partitions
models/cpmi_bce               the weights have the hash in `models.process_reward_models`, all files those of training
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from cpmi_dagster.contracts.keys import MODELS
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import CpmiError, LakeError
from cpmi_dagster.models.model_files import check_trained
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.database import EMPTY
from cpmi_dagster.resources.lake.lake import LAKE, Lake, name_of
from cpmi_dagster.resources.sources.hub import HubLock

Place = tuple[str, str | None]


@dataclass(frozen=True)
class Verification:
    """What a look at every byte has found.

    Attributes:
        files: files of the lake that were read.
        damage: a sentence for each damaged file.
    """

    files: int
    damage: Sequence[str]


def verify_home(settings: Settings, advance: Callable[[int, int], None]) -> Verification:
    """Read every file of a home, those of partitions that the profile does not name included.

    Args:
        advance: called with the number of files just read, and how many there are.
    """
    lake = Lake(settings.home)
    places = [place for key in TABLES for place in _places(lake, key)]
    damage = []
    for key, partition in places:
        try:
            lake.read(key, partition)
        except LakeError as error:
            damage.append(str(error))
        advance(1, len(places))
    found = chain(damage, _strays(lake, places), _models(lake), _hub_lock(settings))
    return Verification(len(places), list(found))


def _places(lake: Lake, key: str) -> list[Place]:
    if TABLES[key].partitioning:
        return [(key, partition) for partition in lake.partitions(key)]
    return [(key, None)] if lake.exists(key) else []


def _strays(lake: Lake, places: Sequence[Place]) -> Iterator[str]:
    """Parquet files among those of the tables which are not theirs: copies, and what others put there."""
    known = {name_of(key, partition) for key, partition in places}
    folders = {f"{LAKE}/{key}" if table.partitioning else f"{LAKE}/{table.group}" for key, table in TABLES.items()}
    for folder in sorted(folders):
        for name in lake.files.names(folder):
            if name.endswith(".parquet") and not name.endswith(EMPTY) and f"{folder}/{name}" not in known:
                yield f"{folder}/{name} was not written by cpmi, and no table shows it; move it elsewhere"


def _models(lake: Lake) -> Iterator[str]:
    """Reward models whose files are not those that training wrote."""
    for recipe in filter(lambda name: lake.is_whole(MODELS, name), lake.partitions(MODELS)):
        for folder, fingerprint in lake.read(MODELS, recipe).select("path", "weights_fingerprint").iter_rows():
            try:
                check_trained(lake.file(folder, MODELS, recipe), fingerprint)
            except CpmiError as error:
                yield f"{error}; `cpmi run --only {MODELS} --force` trains it again"


def _hub_lock(settings: Settings) -> Iterator[str]:
    try:
        HubLock(settings.home).revisions()
    except CpmiError as error:
        yield str(error)
