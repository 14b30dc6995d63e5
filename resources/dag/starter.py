"""`cpmi init`: a look at a file of trajectories, and a first profile for it.

write_starter(Path("rows.jsonl"), "Qwen/Qwen3-8B-Base")  ->  rows.yaml, and what the rows hold
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.places import expanded
from cpmi_dagster.files.whole_files import check_writable, write_whole
from cpmi_dagster.miniature.names import MINIATURE
from cpmi_dagster.models.gguf import PACKAGE
from cpmi_dagster.models.language_models import model_on_disk
from cpmi_dagster.profiles.first_look import FirstLook, look_over
from cpmi_dagster.profiles.starter import check_own_name, starter_profile
from cpmi_dagster.resources.sources.data_files import local_files, read_files
from cpmi_dagster.trajectories.rows import Row

PERCENT = 100


@dataclass(frozen=True)
class Starter:
    """A profile that was written, what its trajectories are, and its model, whose place is None for a hub id."""

    path: Path
    source: Path
    look: FirstLook
    model: str
    model_place: Path | None


def write_starter(
    source: Path,
    model: str,
    output: Path | None = None,
    force: bool = False,
    advance: Callable[[int, int], None] = lambda count, total: None,
) -> Starter:
    """Look at trajectories, and write a profile that labels them and trains a reward model.

    Args:
        source: file or folder of the trajectories.
        model: labeler and backbone: local folder, GGUF file, `package:NAME/FILE.gguf`, hub id or `miniature:NAME`.
        output: where the profile goes; by default the source's name with `.yaml`, in the working folder.
        force: replace a profile that is there.
        advance: called with the percent just read, and 100.

    Raises:
        SettingsError: the profile is there already, or its name is none for a profile, such as that of the data.
        ModelError: the model is not a model folder, a GGUF file or a hub id.
        SourceError: there is no such file, it holds no trajectories, or the profile cannot be written.
    """
    source, output = expanded(source), expanded(output or f"{source.name.partition('.')[0]}.yaml")
    check_own_name(output)
    if output.is_file() and not force:
        raise SettingsError(f"the profile {output} already exists; give another --output, or --force to replace it")
    check_writable(output)
    model = os.path.expanduser(model)  # a Path would lose the `./` that tells a folder from a hub id
    place = model_on_disk(model)
    look = look_over(str(source), _rows(source, advance))
    named = model if place is None or model.startswith((MINIATURE, PACKAGE)) else _from(output.parent, place)
    write_whole(output, starter_profile(look, output.stem, _from(output.parent, source), named))
    return Starter(output, source, look, model, place)


def _rows(source: Path, advance: Callable[[int, int], None]) -> Iterator[tuple[Row, str]]:
    percent = 0
    for row, share, place in read_files(local_files(source)):
        yield row, place
        if int(PERCENT * share) > percent:
            advance(int(PERCENT * share) - percent, PERCENT)
            percent = int(PERCENT * share)


def _from(folder: Path, path: Path) -> str:
    """The path as a profile in the folder writes it: relative, unless it was given whole and lies elsewhere."""
    real = path.parent.resolve() / path.name
    relative = os.path.relpath(real, folder.resolve())
    if not relative.startswith(os.pardir):
        return os.path.join(os.curdir, relative)
    return str(path) if path.is_absolute() else relative
