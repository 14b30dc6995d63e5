"""Where the benchmarks come from that are no plain download: said where their file is missing.

logiqa2: {path: ./logiqa2_test.jsonl}      and no such file  ->  SourceError, with the repository that has it
"""

from pathlib import Path

from cpmi_dagster.benchmarks.registry import BENCHMARKS
from cpmi_dagster.errors import SourceError
from cpmi_dagster.miniature.names import MINIATURE


def check_benchmark_file(name: str, path: str | None) -> None:
    """Refuse a benchmark whose local file is not there, with where to get it.

    Args:
        name: the benchmark.
        path: where the profile says it lies, None on the hub; files of the embedded world are not looked at.

    Raises:
        SourceError: there is no such file or folder.
    """
    if path is None or path.startswith(MINIATURE) or Path(path).exists():
        return
    origin = BENCHMARKS[name].origin if name in BENCHMARKS else None
    advice = f"get it from {origin} (docs/logic_sets.md), " if origin else "mend the path, "
    raise SourceError(
        f"the benchmark `{name}` is not at {path}; {advice}or take it out of sources.benchmarks and best_of_n"
    )
