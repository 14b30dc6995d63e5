"""One profile at a time on a home: rows of another would be made from, and replaced beside, those of the first.

<home>/lake/.locks/profiles/miniature-5f0c1f2a-9d3b….lock     held by a process that makes rows for these settings

Any number of processes may work for the same settings. A lock file that nobody holds is of a process that is gone: a
process holds its file from the moment others can see it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from cpmi_dagster.errors import LakeError
from cpmi_dagster.files.life_locks import hold, life_of
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.fingerprints import fingerprint_of

CHARACTERS = 8
CHANGES_NO_ROW = {"home", "orchestration"}


@contextmanager
def profile_at_work(settings: Settings) -> Iterator[None]:
    """Say until the block ends that this process makes rows for these settings.

    Raises:
        LakeError: another process makes rows on this home for other settings.
        StorageError: the home cannot be written, or its file system has no locks.
    """
    folder = settings.folder / "lake" / ".locks" / "profiles"
    settings_hash = fingerprint_of(settings.model_dump(mode="json", exclude=CHANGES_NO_ROW))[:CHARACTERS]
    mine = f"{settings.profile}-{settings_hash}"
    own = hold(folder / f"{mine}-{uuid4().hex}.lock")
    try:
        for path in sorted(set(folder.glob("*.lock")) - {own.path}):
            name = path.stem.rpartition("-")[0]
            if not _is_gone(path) and name != mine:
                raise _refused(settings, name.rpartition("-")[0])
        yield
    finally:
        own.close()


def _is_gone(path: Path) -> bool:
    """Whether the process of a lock file is gone; then the file goes too."""
    if life_of(path) == "held":
        return False
    path.unlink(missing_ok=True)
    return True


def _refused(settings: Settings, other: str) -> LakeError:
    who = f"profile `{other}`" + (" with other settings" if other == settings.profile else "")
    return LakeError(
        f"a run of {who} is at work in {settings.home}; wait until it has ended, or give profile "
        f"`{settings.profile}` a home of its own (CPMI_HOME)"
    )
