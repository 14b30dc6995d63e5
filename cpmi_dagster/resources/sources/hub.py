"""Hub revisions: pinned in the profile, or resolved once and written to `hub.lock.json` in the home.

    {"model Qwen/Qwen3-8B-Base": "49e3418fbbbca6ecbdf9608b4d22e5a407081db4"}

Later runs read the file, so a change on the hub does not change the results of the home.
"""

import json
from pathlib import Path
from typing import Literal

from cpmi_dagster.errors import SourceError, first_line
from cpmi_dagster.files.locks import locked
from cpmi_dagster.files.whole_files import remove_unfinished, write_whole

LOCK_FILE = "hub.lock.json"


class HubLock:
    """The hub revisions of a home; one that is not known yet is asked of the hub if `asks` is true."""

    def __init__(self, home: Path, asks: bool = True) -> None:
        self.path, self._asks = home / LOCK_FILE, asks

    def revisions(self) -> dict[str, str]:
        """The commit by `kind id`, as resolved so far.

        Raises:
            SourceError: the file is damaged.
        """
        try:
            known = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise self._damaged(first_line(error)) from error
        if not isinstance(known, dict) or not all(isinstance(commit, str) and commit for commit in known.values()):
            raise self._damaged("it must map names to commits")
        return known

    def _damaged(self, reason: str) -> SourceError:
        return SourceError(
            f"{self.path} is damaged ({reason}); put it back as it was, or delete it: then today's revisions are used, "
            "and what was made with others is made again"
        )

    def revision(self, kind: Literal["model", "dataset"], name: str) -> str:
        """The commit of a hub id, resolved now if it is not in the lock file.

        Raises:
            SourceError: the hub cannot be reached, has no such id, or the file is damaged.
        """
        entry = f"{kind} {name}"
        if entry not in self.revisions():
            if not self._asks:
                raise SourceError(f"the revision of the {kind} `{name}` is not known yet; a run asks the hub for it")
            with locked(Path(f"{self.path}.lock")):
                remove_unfinished(self.path)
                if entry not in (known := self.revisions()):
                    known[entry] = _resolve(kind, name)
                    write_whole(self.path, json.dumps(known, indent=2, sort_keys=True))
        return self.revisions()[entry]


def _resolve(kind: Literal["model", "dataset"], name: str) -> str:
    from httpx2 import HTTPError
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError

    try:
        info = HfApi().model_info(name) if kind == "model" else HfApi().dataset_info(name)
    except (HTTPError, HFValidationError, OSError) as error:
        raise SourceError(
            f"the {kind} `{name}` is not on this disk, and its revision cannot be read from the hub "
            f"({type(error).__name__}); check the name and the connection, or name a folder of this disk"
        ) from error
    if info.sha is None:
        raise SourceError(f"the hub gives no revision for the {kind} `{name}`; set `revision` in the profile")
    return info.sha
