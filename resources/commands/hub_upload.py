"""A folder as a repository of the hub: hf://datasets/OWNER/NAME of a data set, hf://OWNER/NAME of a reward model.

A repository that is not there yet is made private: publishing cannot be taken back, so that is left to its owner. The
token comes from the environment variable HF_TOKEN alone.
"""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from cpmi_dagster.errors import CpmiError, UsageError, first_line
from cpmi_dagster.files.environment import environment_variable

SCHEME, TOKEN_VARIABLE = "hf://", "HF_TOKEN"
FRESH = {".gitattributes", "README.md"}
"""What a repository holds that was made on the hub's pages."""


@contextmanager
def uploaded(place: str, kind: Literal["dataset", "model"], marker: str) -> Iterator[Path]:
    """Yield a folder to write, which is uploaded in one commit when the block ends.

    Args:
        place: `hf://datasets/OWNER/NAME`, or of a model `hf://OWNER/NAME`.
        marker: the file that every export has; a repository with other files and without it is left alone.

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
        if marker not in files and (others := sorted(files - FRESH)):
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
