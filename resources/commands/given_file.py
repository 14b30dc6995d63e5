"""The file of `cpmi score` and `cpmi judge`, read as `cpmi label` and `cpmi run` read it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cpmi_dagster.errors import SourceError, UsageError
from cpmi_dagster.files.whole_files import check_writable
from cpmi_dagster.miniature.names import local_path
from cpmi_dagster.profiles.sources import TrajectorySource
from cpmi_dagster.resources.sources.data_sources import DataSources, source_at
from cpmi_dagster.trajectories.given_rows import GivenRows, read_given


def check_outputs(source: TrajectorySource, *outputs: Path) -> None:
    """Refuse outputs that are files of the source, would be read with its folder, or cannot be written.

    Raises:
        UsageError: an output is an input, or would be one.
        SourceError: there is no such source, or an output cannot be written.
    """
    folder = None if source.path is None else local_path(str(source.path)).absolute()
    inputs = [] if folder is None else DataSources().files(source)
    for output in outputs:
        if any(output.exists() and output.samefile(file) for file in inputs):
            raise UsageError(f"the output {output} is the input, which it would replace; give another name")
        if folder is not None and folder.is_dir() and folder in output.absolute().parents:
            raise UsageError(
                f"the output {output} is in the folder of the input, and would be read with it; give another"
            )
    check_writable(*outputs)


def read_file(place: str, outputs: Sequence[Path], keeps_empty: bool = False, **settings: Any) -> GivenRows:
    """Read a file, folder or data set of the hub, in any form that `cpmi init` reads.

    Args:
        outputs: files to write later.
        keeps_empty: an empty step of a benchmark's row is kept.
        settings: of the source, as in `TrajectorySource`.

    Raises:
        SettingsError: a setting of the source is wrong.
        SourceError: there is no such file, it has no rows, its first row has no form, or an output cannot be written or
            is the file itself.
    """
    source = source_at(place, settings)
    check_outputs(source, *outputs)
    rows = [row for row, _, _ in DataSources().places(source)]
    if not rows:
        raise SourceError(f"{source.place} has no rows; give a file of solutions")
    return read_given(rows, source.reading._replace(keeps_empty=keeps_empty))
