"""A folder as a repository of the Hugging Face hub.

hf://datasets/OWNER/NAME    a data set          hf://OWNER/NAME    a reward model

A repository that is not there yet is made private: publishing cannot be taken back, so that is left to its owner. The
token comes from the environment variable HF_TOKEN alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cpmi_dagster.errors import CpmiError, UsageError, first_line
from cpmi_dagster.exports.folders import RECORD
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.files.whole_files import refusals_named

if TYPE_CHECKING:
    from huggingface_hub import HfApi

SCHEME = "hf://"
FRESH = {".gitattributes", "README.md"}
"""What a repository holds that was made on the hub's pages."""
DATASETS = "datasets/"
TOKEN_VARIABLE = "HF_TOKEN"
Kind = Literal["dataset", "model"]


@dataclass(frozen=True)
class Repository:
    """A repository of the hub: `OWNER/NAME`, and what it holds."""

    id: str
    kind: Kind

    @property
    def name(self) -> str:
        """Its name, without its owner's."""
        return self.id.partition("/")[2]


def repository_of(place: str, kind: Kind) -> Repository:
    """The repository that `--to hf://…` means.

    Raises:
        UsageError: it is no id of a repository of this kind, or HF_TOKEN is not set.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    name = place.removeprefix(SCHEME)
    if kind == "dataset":
        name = name.removeprefix(DATASETS)
    form = f"{SCHEME}{DATASETS if kind == 'dataset' else ''}OWNER/NAME"
    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise UsageError(f"--to {place}: a {kind} goes to {form}") from error
    if name.count("/") != 1:
        raise UsageError(f"--to {place}: a {kind} goes to {form}")
    if not environment_variable(TOKEN_VARIABLE):
        raise UsageError(f"--to {place} needs a token of the hub in the environment variable {TOKEN_VARIABLE}")
    return Repository(name, kind)


def check_repository(repository: Repository) -> None:
    """Refuse to upload over something that no export has written, before any work.

    Raises:
        UsageError: the repository holds other files.
        CpmiError: the hub cannot be reached, or refuses the token.
    """
    from huggingface_hub.errors import RepositoryNotFoundError

    with _hub_errors(repository):
        try:
            files = set(_api().list_repo_files(repository.id, repo_type=repository.kind))
        except RepositoryNotFoundError:
            return
    if RECORD not in files and (others := sorted(files - FRESH)):
        raise UsageError(f"the {repository.kind} `{repository.id}` contains `{others[0]}`, which no export has written")


def upload(folder: Path, repository: Repository) -> str:
    """Upload a folder in one commit; files of the data set that was there before are removed.

    Returns:
        The repository's address.

    Raises:
        CpmiError: the hub cannot be reached, or refuses it.
    """
    api = _api()
    with _hub_errors(repository), refusals_named(folder):
        created = api.create_repo(repository.id, repo_type=repository.kind, private=True, exist_ok=True)
        api.upload_folder(
            repo_id=repository.id,
            folder_path=folder,
            repo_type=repository.kind,
            commit_message="Export of cpmi-dagster",
            delete_patterns=["data/*"] if repository.kind == "dataset" else ["*.safetensors"],
        )
    return str(created)


def _api() -> "HfApi":
    from huggingface_hub import HfApi

    return HfApi(token=environment_variable(TOKEN_VARIABLE))


@contextmanager
def _hub_errors(repository: Repository) -> Iterator[None]:
    from httpx2 import ConnectError, HTTPError, TimeoutException
    from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

    try:
        yield
    except RepositoryNotFoundError:
        raise
    except (ConnectError, TimeoutException) as error:
        raise CpmiError(
            f"the hub cannot be reached for the {repository.kind} `{repository.id}` ({type(error).__name__}); check "
            "the network, or export to a folder"
        ) from error
    except (HfHubHTTPError, HTTPError, OSError) as error:
        raise CpmiError(
            f"the hub did not accept the {repository.kind} `{repository.id}` ({type(error).__name__}: "
            f"{first_line(error)}); see that it can be reached and that the token may write there, and try again"
        ) from error
