"""A folder as a repository of the hub: hf://datasets/OWNER/NAME of a data set, hf://OWNER/NAME of a reward model.

A repository that is not there yet is made private: publishing cannot be taken back, so that is left to its owner. The
token comes from the environment variable HF_TOKEN alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from cpmi_dagster.errors import CpmiError, UsageError, first_line
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.files.whole_files import refusals_named

if TYPE_CHECKING:
    from huggingface_hub import HfApi

SCHEME, TOKEN_VARIABLE = "hf://", "HF_TOKEN"
FRESH = {".gitattributes", "README.md"}
"""What a repository holds that was made on the hub's pages."""
Kind = Literal["dataset", "model"]


class Repository(NamedTuple):
    """A repository of the hub: `OWNER/NAME`, and what it holds."""

    id: str
    kind: Kind


def repository_of(place: str, kind: Kind) -> Repository:
    """The repository that `--to hf://…` means.

    Raises:
        UsageError: it is no id of a repository of this kind, or HF_TOKEN is not set.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    of_kind = "datasets/" if kind == "dataset" else ""
    name = place.removeprefix(SCHEME).removeprefix(of_kind)
    try:
        validate_repo_id(name if name.count("/") == 1 else "")
    except HFValidationError as error:
        raise UsageError(f"--to {place}: a {kind} goes to {SCHEME}{of_kind}OWNER/NAME") from error
    if not environment_variable(TOKEN_VARIABLE):
        raise UsageError(f"--to {place} needs a token of the hub in the environment variable {TOKEN_VARIABLE}")
    return Repository(name, kind)


def check_repository(repository: Repository, marker: str) -> None:
    """Refuse to upload over something without the file that every export has, before any work.

    Raises:
        UsageError: the repository holds other files.
        CpmiError: the hub cannot be reached, or refuses the token.
    """
    from huggingface_hub.errors import RepositoryNotFoundError

    with _hub(repository) as hub:
        try:
            files = set(hub.list_repo_files(repository.id, repo_type=repository.kind))
        except RepositoryNotFoundError:
            return
    if marker not in files and (others := sorted(files - FRESH)):
        raise UsageError(f"the {repository.kind} `{repository.id}` contains `{others[0]}`, which no export has written")


def upload(folder: Path, repository: Repository) -> str:
    """Upload a folder in one commit; files of the export that was there before are removed. Returns its address.

    Raises:
        CpmiError: the hub cannot be reached, or refuses it.
    """
    old = ["data/*"] if repository.kind == "dataset" else ["*.safetensors"]
    with _hub(repository) as hub, refusals_named(folder):
        address = hub.create_repo(repository.id, repo_type=repository.kind, private=True, exist_ok=True)
        hub.upload_folder(
            repo_id=repository.id,
            folder_path=folder,
            repo_type=repository.kind,
            commit_message="Export of cpmi-dagster",
            delete_patterns=old,
        )
    return str(address)


@contextmanager
def _hub(repository: Repository) -> Iterator["HfApi"]:
    """The hub, whose errors are one sentence."""
    from httpx2 import HTTPError
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        yield HfApi(token=environment_variable(TOKEN_VARIABLE))
    except (HfHubHTTPError, HTTPError, OSError) as error:
        raise CpmiError(
            f"the hub did not accept the {repository.kind} `{repository.id}` ({type(error).__name__}: "
            f"{first_line(error)}); see that the token may write there, or export to a folder"
        ) from error
