"""Where the benchmarks come from that are no plain download: said where their file is missing.

logiqa2: {path: ./logiqa2_test.jsonl}      and no such file  ->  SourceError, with the repository that has it
"""

from pathlib import Path

from cpmi_dagster.errors import SourceError
from cpmi_dagster.miniature.names import MINIATURE

ORIGINS: dict[str, str] = {
    "folio": "yale-nlp/FOLIO on the hub, after accepting its terms, or github.com/Yale-LILY/FOLIO",
    "logiqa2": "github.com/csitfun/LogiQA2.0, its test.txt saved as .jsonl",
    "logicnli": "github.com/omnilabNLP/LogicNLI, its test_language.json with one story a line",
}


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
    origin = f"get it from {ORIGINS[name]} (docs/logic_sets.md), " if name in ORIGINS else "mend the path, "
    raise SourceError(
        f"the benchmark `{name}` is not at {path}; {origin}or take it out of sources.benchmarks and best_of_n"
    )
