"""Files and models of the embedded world by name: `miniature:gsm8k_test`, `miniature:labeler`."""

from pathlib import Path

from cpmi_dagster.errors import SourceError

MINIATURE = "miniature:"

WEIGHTS = Path(__file__).parent / "weights"
DATA = Path(__file__).parent / "data"
SUFFIX = ".jsonl.gz"

MODEL_FOLDERS: dict[str, Path] = {name: WEIGHTS / name for name in ("labeler", "prover", "backbone")}


def local_path(place: str) -> Path:
    """The path of a profile's `path`: of `miniature:NAME` a file of the embedded world, any other unchanged.

    Raises:
        SourceError: the embedded world has no such file.
    """
    if not place.startswith(MINIATURE):
        return Path(place)
    file = DATA / f"{place.removeprefix(MINIATURE)}{SUFFIX}"
    if not file.is_file():
        names = ", ".join(sorted(path.name.removesuffix(SUFFIX) for path in DATA.glob(f"*{SUFFIX}")))
        raise SourceError(f"the embedded world has no file `{place.removeprefix(MINIATURE)}`; it has {names}")
    return file
