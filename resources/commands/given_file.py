"""The file of `cpmi score` and `cpmi judge`, read as `cpmi label` and `cpmi run` read it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cpmi_dagster.errors import SourceError
from cpmi_dagster.files.places import expanded
from cpmi_dagster.files.whole_files import check_writable
from cpmi_dagster.resources.sources.data_sources import DataSources, source_at
from cpmi_dagster.trajectories.given_rows import GivenRows, read_given


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
    rows = [row for row, _, _ in DataSources().places(source)]
    if not rows:
        raise SourceError(f"{source.place} has no rows; give a file of solutions")
    for output in outputs:
        if output.exists() and expanded(place).exists() and output.samefile(expanded(place)):
            raise SourceError(f"the output {output} is the input, which would be overwritten; give another")
    check_writable(*outputs)
    return read_given(rows, source.reading._replace(keeps_empty=keeps_empty))
