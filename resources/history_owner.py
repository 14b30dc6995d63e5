"""Which home a Dagster history belongs to: with two in one database, each would take the other's runs for its own.

home on an object store    known by its address
home that is a folder      known by its address, or by the id in `<home>/dagster/home.id`, which moves with it
"""

import json
from pathlib import Path
from uuid import uuid4

import dagster as dg

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.whole_files import write_whole
from cpmi_dagster.profiles.settings import Settings

KEY = "cpmi/home"
ID_FILE = "home.id"


def claim_history(instance: dg.DagsterInstance, settings: Settings, folder: Path) -> None:
    """Note in a history that it is of this home, unless it is of another.

    Args:
        folder: the home's `dagster`.

    Raises:
        SettingsError: it is of another home, whose runs would be marked as failed and whose shards taken for made.
    """
    own, cursors = {"home": str(settings.home), "id": _identity(settings, folder)}, instance.daemon_cursor_storage
    noted = json.loads(cursors.get_cursor_values({KEY}).get(KEY, "{}"))
    if noted == own:
        return
    if noted and not set(noted.values()) & set(own.values()):
        raise SettingsError(
            f"this history of runs belongs to the home {noted['home']}; give {settings.home} one of its "
            "own: another `orchestration.postgres.database`, or another DAGSTER_HOME"
        )
    cursors.set_cursor_values({KEY: json.dumps(own)})


def _identity(settings: Settings, folder: Path) -> str:
    if isinstance(settings.home, str):
        return settings.home
    file = folder / ID_FILE
    if not file.is_file():
        write_whole(file, uuid4().hex)
    return file.read_text(encoding="utf-8")
