"""`cpmi init`: summarizes a file of trajectories, and makes a first profile for it.

starter_for("rows.jsonl", "Qwen/Qwen3-8B-Base")  ->  what the rows hold, and the text of rows.yaml, not yet written
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.places import expanded
from cpmi_dagster.files.whole_files import check_writable, write_whole
from cpmi_dagster.miniature.names import MINIATURE
from cpmi_dagster.models.gguf import PACKAGE
from cpmi_dagster.models.language_models import model_on_disk
from cpmi_dagster.profiles.first_look import FirstLook, look_over
from cpmi_dagster.profiles.sources import TrajectorySource
from cpmi_dagster.profiles.starter import check_own_name, starter_profile
from cpmi_dagster.resources.sources.data_sources import DataSources, source_at
from cpmi_dagster.resources.workers.gpus import sees_gpu
from cpmi_dagster.trajectories.rows import Row

PERCENT = 100


@dataclass(frozen=True)
class Starter:
    """A profile to write, a summary of its trajectories, and its model, whose place is None for a hub id."""

    path: Path
    text: str
    source: str
    look: FirstLook
    model: str
    model_place: Path | None

    def write(self) -> None:
        """Write the profile."""
        write_whole(self.path, self.text)


def starter_for(
    source: str | Path,
    model: str,
    output: Path | None = None,
    force: bool = False,
    advance: Callable[[int, int], None] = lambda count, total: None,
    **settings: Any,
) -> Starter:
    """Summarize trajectories, and make a profile that labels them and trains a reward model.

    Args:
        source: file or folder of the trajectories, or their hub id.
        model: labeler and backbone: local folder, GGUF file, `package:NAME/FILE.gguf`, hub id or `miniature:NAME`.
        output: file of the profile; by default the source's name with `.yaml`, in the working folder.
        force: replace an existing profile.
        advance: called with the percent just read, and 100.
        settings: of the source, as in `TrajectorySource`.

    Raises:
        SettingsError: the profile exists, its name is not one of a profile, or a setting of the source is wrong.
        ModelError: the model is not a model folder, a GGUF file or a hub id.
        SourceError: there is no such file, it holds no trajectories, or the profile cannot be written.
    """
    given = source_at(str(source), settings)
    output = expanded(output or f"{Path(given.place).name.partition('.')[0]}.yaml")
    check_own_name(output)
    if output.is_file() and not force:
        raise SettingsError(f"the profile {output} already exists; give another --output, or --force to replace it")
    check_writable(output)
    model = os.path.expanduser(model)  # a Path would lose the `./` that tells a folder from a hub id
    place = model_on_disk(model)
    look = look_over(given.place, _rows(given, advance), given.reading, given.sample and given.sample.solutions)
    named = model if place is None or model.startswith((MINIATURE, PACKAGE)) else _from(output.parent, place)
    written = given.written(given.path and _from(output.parent, Path(given.path)))
    return Starter(
        output, starter_profile(look, output.stem, written, named, sees_gpu()), given.place, look, model, place
    )


def _rows(source: TrajectorySource, advance: Callable[[int, int], None]) -> Iterator[tuple[Row, str]]:
    percent = 0
    for row, share, place in DataSources().places(source):
        yield source.reading.named(row), place
        if int(PERCENT * share) > percent:
            advance(int(PERCENT * share) - percent, PERCENT)
            percent = int(PERCENT * share)


def _from(folder: Path, path: Path) -> str:
    """The path in a profile of a folder: relative, unless it was given absolute and lies elsewhere."""
    real = path.parent.resolve() / path.name
    relative = os.path.relpath(real, folder.resolve())
    if not relative.startswith(os.pardir):
        return os.path.join(os.curdir, relative)
    return str(path) if path.is_absolute() else relative
