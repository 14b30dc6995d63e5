"""Which home a Dagster history belongs to. With two homes in one database, each would end the runs of the other.

home on an object store    known by its address
home that is a folder      known by the id in `<home>/dagster/home.id`, which moves with it: two machines may
                           both have a home at /data

`cpmi run`, a run that the UI or a schedule started, and a tick claim the history before they change anything. Dagster
has no setting for this: its storage serves whoever connects.
"""

import json
from contextlib import nullcontext
from pathlib import Path
from uuid import uuid4

import dagster as dg

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.locks import locked
from cpmi_dagster.files.whole_files import write_whole
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.shared_locks import SharedLocks

KEY = "cpmi/home"
ID_FILE = "home.id"


def claim_history(instance: dg.DagsterInstance, settings: Settings, folder: Path) -> None:
    """Note in a history that it is of this home, unless it is of another.

    Args:
        folder: the home's `dagster`.

    Raises:
        SettingsError: it is of another home, whose runs would be marked as failed and whose shards taken for made.
    """
    own = {"home": str(settings.home), "id": _identity(settings, folder)}
    if _noted(instance) == own:
        return
    postgres = settings.orchestration.postgres
    with SharedLocks("history of runs", postgres).locked("owner") if postgres else nullcontext():
        noted = _noted(instance)
        if noted and (noted["id"] != own["id"] or _is_copied(Path(noted["home"]), settings, folder)):
            raise SettingsError(
                f"this history of runs belongs to the home {noted['home']}; give {settings.home} one of its own: "
                "another `orchestration.postgres.database`, or another DAGSTER_HOME (if that home is gone for good, "
                "an empty database)"
            )
        instance.daemon_cursor_storage.set_cursor_values({KEY: json.dumps(own)})


def is_of_another_home(instance: dg.DagsterInstance, folder: Path) -> bool:
    """Whether a history is known to be of another home than the one whose `dagster` folder this is."""
    noted, own = _noted(instance), _read_id(folder)
    return bool(noted and own) and noted["id"] != own


def _noted(instance: dg.DagsterInstance) -> dict[str, str]:
    return json.loads(instance.daemon_cursor_storage.get_cursor_values({KEY}).get(KEY, "{}"))


def _is_copied(place: Path, settings: Settings, folder: Path) -> bool:
    """Whether this home is a copy of one at another place that is still there. SQLite's history is copied with it."""
    if isinstance(settings.home, str) or settings.orchestration.postgres is None:
        return False
    other = place / folder.relative_to(settings.home)
    return other.is_dir() and not other.samefile(folder) and _read_id(other) == _read_id(folder)


def _identity(settings: Settings, folder: Path) -> str:
    # of several processes that begin at once, the first chooses, and the others read all of it
    with locked(folder / f"{ID_FILE}.lock"):
        chosen = settings.home if isinstance(settings.home, str) else _read_id(folder) or uuid4().hex
        if _read_id(folder) != chosen:
            write_whole(folder / ID_FILE, chosen)
    return chosen


def _read_id(folder: Path) -> str:
    file = folder / ID_FILE
    return file.read_text(encoding="utf-8") if file.is_file() else ""
