"""`cpmi ui`: `dagster dev` for a home, which is the webserver on 127.0.0.1 and the daemon."""

import errno
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.home_file import claim_home

LOCALHOST = "127.0.0.1"
WORKSPACE = Path(__file__).parents[2] / "workspace.yaml"


def check_port(port: int) -> None:
    """Refuse a port that is in use: another server, perhaps of another home, would answer on it.

    Raises:
        SettingsError: the port cannot be bound.
    """
    try:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((LOCALHOST, port))
    except OSError as error:
        guess = " (perhaps one of this home that runs already)" if error.errno == errno.EADDRINUSE else ""
        raise SettingsError(
            f"--port {port} cannot be used ({error.strerror}); see what answers at http://{LOCALHOST}:{port}{guess}, "
            "or give another port"
        ) from error


def serve_ui(settings: Settings, port: int, announce: Callable[[], object]) -> None:
    """Replace this process with `dagster dev` for a home; runs whose process has died are marked as failed first.

    Args:
        announce: called just before the webserver starts.

    Raises:
        SettingsError: see `open_instance`, or the home has the results of another profile file.
    """
    # Dagster takes a second to import, which the label explorer does not need
    from cpmi_dagster.resources.dag.instance import open_instance

    claim_home(settings)
    with open_instance(settings) as instance:
        folder = instance.root_directory
    environment = {
        **os.environ,
        "DAGSTER_HOME": folder,
        "CPMI_HOME": str(settings.home),
        "CPMI_PROFILE": settings.given,
        # `dg dev` replaces `dagster dev`, but takes no workspace file
        "PYTHONWARNINGS": "ignore:Function `dev_command`",
    }
    arguments = ["-m", "dagster", "dev", "-w", str(WORKSPACE), "-h", LOCALHOST, "-p", str(port)]
    announce()
    os.execve(sys.executable, [sys.executable, *arguments], environment)
