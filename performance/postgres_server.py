"""A PostgreSQL of its own for a measurement or a test: a temporary folder, a free port on 127.0.0.1, no trace."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from glob import glob
from pathlib import Path

import psycopg2

USER = "dagster"
START_SECONDS = 300
# below those that Linux gives out
PORTS = range(10_000, 32_768)
# the server refuses to run as root; the package makes this user
UNPRIVILEGED = "postgres"


@dataclass(frozen=True)
class Server:
    """A running server: its port on 127.0.0.1 and the password of the user and database `dagster`."""

    port: int
    password: str


def programs() -> Path | None:
    """The folder of `initdb` and `postgres`: the newest of Debian's, or that on the path."""
    found = max(glob("/usr/lib/postgresql/*/bin/initdb"), default=None) or shutil.which("initdb")
    return Path(found).parent if found else None


@contextmanager
def temporary_server() -> Iterator[Server]:
    """A server for as long as the block lasts.

    Raises:
        SystemExit: PostgreSQL is not installed.
    """
    folder = programs()
    if folder is None:
        raise SystemExit("there is no PostgreSQL here; run `apt-get install postgresql`")
    with tempfile.TemporaryDirectory(prefix="postgres-") as name:
        root = Path(name)
        server = Server(free_port(), secrets.token_hex(16))
        _own(root)
        _make(folder, root, server.password)
        process = subprocess.Popen(
            [folder / "postgres", "-D", root / "data", "-p", str(server.port), "-k", root, "-h", "127.0.0.1"],
            stderr=subprocess.DEVNULL, **_as_user(),
        )  # fmt: skip
        try:
            _create_database(server)
            yield server
        finally:
            # SIGINT ends open sessions; SIGTERM would wait for them
            process.send_signal(signal.SIGINT)
            process.wait()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now, and that the system gives to nobody who asks for any."""
    while True:
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.bind(("127.0.0.1", secrets.choice(PORTS)))
            return probe.getsockname()[1]


def _as_user() -> dict:
    return {"user": UNPRIVILEGED, "group": UNPRIVILEGED, "extra_groups": []} if os.geteuid() == 0 else {}


def _own(root: Path) -> None:
    if _as_user():
        shutil.chown(root, UNPRIVILEGED, UNPRIVILEGED)


def _make(folder: Path, root: Path, password: str) -> None:
    secret = root / "password"
    secret.write_text(password)
    if _as_user():
        shutil.chown(secret, UNPRIVILEGED)
    subprocess.run(
        [folder / "initdb", "-D", root / "data", "-U", USER, "--auth=scram-sha-256", "--no-sync", f"--pwfile={secret}"],
        check=True, capture_output=True, cwd=root, **_as_user(),
    )  # fmt: skip
    secret.unlink()


def _create_database(server: Server) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            connection = psycopg2.connect(
                host="127.0.0.1", port=server.port, user=USER, password=server.password, dbname="postgres"
            )
            break
        except psycopg2.OperationalError as error:
            if time.monotonic() > deadline:
                raise SystemExit(f"PostgreSQL did not start within {START_SECONDS} seconds") from error
            time.sleep(0.1)
    with closing(connection):
        connection.autocommit = True
        connection.cursor().execute(f"create database {USER}")
