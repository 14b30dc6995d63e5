"""Where an export goes: a folder, or a repository of the hub; nothing of the user's is replaced.

    mine                        a folder, replaced if it holds nothing but what an earlier export wrote, unchanged since
    hf://datasets/OWNER/NAME    a data set of the hub; the token comes from the environment variable HF_TOKEN alone
    hf://OWNER/NAME             a reward model

`.cpmi-export.json`, which is written last, names the files of an export: {"files": ["README.md", …], "profile": …, …}
"""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal, NamedTuple

from cpmi_dagster.errors import CpmiError, UsageError, first_line
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.files.places import expanded
from cpmi_dagster.files.whole_files import replace_folder

Kind = Literal["dataset", "model"]
SCHEME, TOKEN_VARIABLE = "hf://", "HF_TOKEN"
MARKER = ".cpmi-export.json"
FILES = (".duckdb", ".csv", ".json", ".jsonl", ".parquet")
"""Endings of names that are no folder's."""
FRESH = {".gitattributes", "README.md"}
"""What a repository holds that was made on the hub's pages."""


class Destination(NamedTuple):
    """The unfinished folder of an export; its name, its place, and by what `datasets` or `transformers` load it."""

    folder: Path
    name: str
    place: str
    loaded: str


@contextmanager
def destination(to: str, kind: Kind, facts: Mapping[str, Any]) -> Iterator[Destination]:
    """Yield a folder to write; the export appears when the block ends, complete, or not at all.

    Args:
        to: folder, or address on the hub.
        facts: of the export, for the file `MARKER`.

    Raises:
        UsageError: the place is neither a folder nor such an address, or something of the user's is there.
        StorageError: there is no room for it.
        CpmiError: the hub does not take it.
    """
    if to.startswith(SCHEME):
        place, loaded = to, to.removeprefix(SCHEME).removeprefix("datasets/")
        target = uploaded(to, kind)
    elif "://" in to or Path(to).suffix in FILES:
        raise UsageError(f"--to {to}: an export is a folder, or {SCHEME}…; give such a name")
    else:
        place = loaded = str(expanded(to).resolve())
        target = nullcontext(Path(place))
    with target as folder:
        check_replaceable(folder)
        with replace_folder(folder) as unfinished:
            yield Destination(unfinished, folder.name, place, loaded)
            files = sorted(path.relative_to(unfinished).as_posix() for path in unfinished.rglob("*") if path.is_file())
            (unfinished / MARKER).write_text(json.dumps({**facts, "files": files}, indent=2) + "\n", encoding="utf-8")
            check_replaceable(folder)  # again: it took minutes


def check_replaceable(folder: Path) -> None:
    """Refuse to write where something of the user's would be lost.

    Raises:
        UsageError: it is a file, or a folder that holds more than an earlier export has written, or is changed since.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--to {folder} is a file; give a folder")
    if Path.cwd().is_relative_to(folder):
        raise UsageError(f"--to {folder} is the folder that this command runs in; give another, or run it elsewhere")
    marker = folder / MARKER
    try:
        ours, at = {MARKER, *json.loads(marker.read_text(encoding="utf-8"))["files"]}, marker.stat().st_mtime_ns
    except (OSError, ValueError, KeyError, TypeError):
        ours, at = set(), 0
    for path in sorted(folder.rglob("*")):
        name, is_link = path.relative_to(folder).as_posix(), path.is_symlink()
        if is_link or (path.is_file() and (name not in ours or path.stat().st_mtime_ns > at)):
            raise UsageError(
                f"--to {folder} contains `{name}`, which no export has written, or somebody has changed since; give "
                "a new or empty folder, or move what is there away"
            )


@contextmanager
def uploaded(place: str, kind: Kind) -> Iterator[Path]:
    """Yield a folder to write, which is uploaded in one commit when the block ends.

    A repository that is not there yet is made private: publishing cannot be taken back, so that is left to its owner.

    Args:
        place: `hf://datasets/OWNER/NAME`, or of a model `hf://OWNER/NAME`.

    Raises:
        UsageError: the place is no such address, HF_TOKEN is not set, or the repository holds something else.
        CpmiError: the hub cannot be reached, or refuses the token or the folder.
    """
    from httpx2 import HTTPError
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    of_kind = "datasets/" if kind == "dataset" else ""
    name = place.removeprefix(SCHEME).removeprefix(of_kind)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise UsageError(f"--to {place}: a {kind} goes to {SCHEME}{of_kind}OWNER/NAME")
    if not (token := environment_variable(TOKEN_VARIABLE)):
        raise UsageError(f"--to {place} needs a token of the hub in the environment variable {TOKEN_VARIABLE}")
    hub = HfApi(token=token)
    try:
        files = set(hub.list_repo_files(name, repo_type=kind)) if hub.repo_exists(name, repo_type=kind) else set()
        if MARKER not in files and (others := sorted(files - FRESH)):
            raise UsageError(f"the {kind} `{name}` contains `{others[0]}`, which no export has written")
        with tempfile.TemporaryDirectory(prefix="cpmi-export-") as parent:
            folder = Path(parent) / name.partition("/")[2]
            yield folder
            hub.create_repo(name, repo_type=kind, private=True, exist_ok=True)
            hub.upload_folder(repo_id=name, folder_path=folder, repo_type=kind, commit_message="Export of cpmi-dagster")
    except (HfHubHTTPError, HFValidationError, HTTPError, ConnectionError) as error:
        raise CpmiError(
            f"the {kind} `{name}` was not uploaded to the hub ({type(error).__name__}: {first_line(error)}); see that "
            "it can be reached and the token may write there, or export to a folder"
        ) from error
