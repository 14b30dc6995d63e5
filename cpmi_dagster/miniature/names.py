"""What `miniature:NAME` names: a file or a model of the embedded world."""

from pathlib import Path

from cpmi_dagster.errors import SourceError

MINIATURE = "miniature:"

WEIGHTS = Path(__file__).parent / "weights"
DATA = Path(__file__).parent / "data"
SUFFIX = ".jsonl.gz"

MODEL_FOLDERS: dict[str, Path] = {name: WEIGHTS / name for name in ("labeler", "prover", "backbone")}


def local_path(place: str) -> Path:
    """The path that a profile gives: a file of the embedded world for `miniature:NAME`, any other as it is.

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
