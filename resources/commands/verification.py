"""`cpmi status --verify`: every file of a home is read, and compared with what was written.

labels/answer_logprobs 001    the file's bytes have the hash in its seal, and it lies where it was written
labels/answer_logprobs        no Parquet file beside those of its partitions
models/cpmi_bce               the weights have the hash in `models.process_reward_models`, all files those of training
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cpmi_dagster.contracts.keys import MODELS
from cpmi_dagster.errors import CpmiError, LakeError
from cpmi_dagster.models.model_files import check_trained
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.sources.hub import HubLock


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
    lake = Lake.of(settings)
    read = {(*place, file) for place, entry in lake.counted.items() for file in entry}
    found = {(*place, file) for place in lake.counted for file in lake.tables.names(*place)}
    damage = []
    for key, partition, file in sorted(read | found, key=str):
        try:
            lake.tables.check(key, partition, file)
        except LakeError as error:
            stray = (
                f"{key} {partition or ''} {file} was not written by cpmi or is damaged, and no table shows it; "
                "remove it"
            )
            damage.append(str(error) if (key, partition, file) in read else stray)
        advance(1, len(read | found))
    return Verification(len(read | found), [*damage, *_models(lake), *_hub_lock(settings)])


def _models(lake: Lake) -> Iterator[str]:
    """Reward models whose files are not those that training wrote."""
    for recipe in filter(lambda name: lake.is_whole(MODELS, name), lake.partitions(MODELS)):
        for folder, fingerprint in lake.read(MODELS, recipe).select("path", "weights_fingerprint").iter_rows():
            try:
                check_trained(lake.home / folder, fingerprint)
            except CpmiError as error:
                yield f"{error}; `cpmi run --only {MODELS} --force` trains it again"


def _hub_lock(settings: Settings) -> Iterator[str]:
    try:
        HubLock(settings.home).revisions()
    except CpmiError as error:
        yield str(error)
