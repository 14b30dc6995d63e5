"""Hub revisions: pinned in the profile, else resolved once and written to `hub.lock.json` in the home.

    {"model Qwen/Qwen3-8B-Base": "49e3418fbbbca6ecbdf9608b4d22e5a407081db4"}

Later runs use the file, so a change on the hub does not change the results of this home.
"""

import json
from pathlib import Path
from typing import Literal

from filelock import FileLock

from cpmi_dagster.errors import SourceError
from cpmi_dagster.files.whole_files import write_whole

LOCK_FILE = "hub.lock.json"


class HubLock:
    """The hub revisions that this home uses."""

    def __init__(self, home: Path) -> None:
        self.path = home / LOCK_FILE

    def revisions(self) -> dict[str, str]:
        """Everything resolved so far: `kind id` to commit."""
        return json.loads(self.path.read_text(encoding="utf-8")) if self.path.is_file() else {}

    def revision(self, kind: Literal["model", "dataset"], name: str) -> str:
        """The commit of a hub id, resolved now if it is not in the lock file yet.

        Raises:
            SourceError: the hub cannot be reached, or has no such id.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{self.path}.lock"):
            known = self.revisions()
            entry = f"{kind} {name}"
            if entry not in known:
                known[entry] = _resolve(kind, name)
                write_whole(self.path, json.dumps(known, indent=2, sort_keys=True))
            return known[entry]


def _resolve(kind: Literal["model", "dataset"], name: str) -> str:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        info = HfApi().model_info(name) if kind == "model" else HfApi().dataset_info(name)
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise SourceError(
            f"the {kind} `{name}` is not on this disk and the hub did not give its revision "
            f"({type(error).__name__}); set `revision` in the profile, or give a local path"
        ) from error
    if info.sha is None:
        raise SourceError(f"the hub names no revision for the {kind} `{name}`; set `revision` in the profile")
    return info.sha
