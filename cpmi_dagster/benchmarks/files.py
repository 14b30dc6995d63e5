"""Errors for missing benchmark files, with where to get those that are no plain download.

logiqa2: {path: ./logiqa2_test.jsonl}      and no such file  ->  SourceError, with the repository that has it
"""

from pathlib import Path

from cpmi_dagster.benchmarks.registry import BENCHMARKS
from cpmi_dagster.errors import SourceError
from cpmi_dagster.miniature.names import MINIATURE


def check_benchmark_file(name: str, path: str | None) -> None:
    """Refuse a benchmark whose local file does not exist, with where to get it.

    Args:
        name: the benchmark.
        path: its path in the profile, None on the hub; files of the embedded world are not checked.

    Raises:
        SourceError: there is no such file or folder.
    """
    if path is None or path.startswith(MINIATURE) or Path(path).exists():
        return
    origin = BENCHMARKS[name].origin if name in BENCHMARKS else None
    advice = f"get it from {origin} (docs/logic_sets.md), " if origin else "correct the path, "
    raise SourceError(
        f"the benchmark `{name}` is not at {path}; {advice}or remove it from sources.benchmarks and best_of_n"
    )
