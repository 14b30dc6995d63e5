"""Where Dagster keeps runs, events and ticks: SQLite in the home, or the PostgreSQL that the profile names.

orchestration: {postgres: {host: db.internal}}    ->    storage: {postgres: {postgres_db: {hostname: db.internal, …}}}
"""

from importlib.util import find_spec
from pathlib import Path

from cpmi_dagster.errors import SettingsError, first_line
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.profiles.postgres import Postgres

# SQLAlchemy 2.1 reads plain `postgresql` as psycopg 3
SCHEME = "postgresql+psycopg2"
CONNECT_SECONDS = 10
NOT_LOST = "every result is in the lake, only the history of runs is lost"
UNDAMAGED = {
    "disk is full": "make room on its disk",
    "disk I/O error": "make room on its disk",
    "readonly database": "make that folder and its files writable",
    "unable to open database file": "make that folder and its files writable",
    "database is locked": "end what else writes to it",
}
"""Words of SQLite for what is wrong around a database that is whole, and what to do about it."""


def storage_configuration(postgres: Postgres | None) -> dict[str, object]:
    """The `storage` of `dagster.yaml`, once the server has answered; nothing for SQLite, which is Dagster's default.

    The password is not in it: Dagster, too, reads the variable.

    Raises:
        SettingsError: the package or the password is missing, or the server refuses.
    """
    if postgres is None:
        return {}
    _check_package()
    _check_server(postgres)
    database = {
        "hostname": postgres.host,
        "port": postgres.port,
        "db_name": postgres.database,
        "username": postgres.user,
        "password": {"env": postgres.password_variable},
        "scheme": SCHEME,
    }
    return {"storage": {"postgres": {"postgres_db": database}}}


def unusable_storage(folder: Path, postgres: Postgres | None, error: Exception) -> SettingsError:
    """What a user reads where Dagster's tables are damaged, not the user's to take, or on a full disk: what to do.

    Args:
        folder: the home's `dagster`, where SQLite has them.
        postgres: the server that has them, where the profile names one.
    """
    cause = first_line(getattr(error, "orig", None) or error)
    if postgres is None:
        for words, advice in UNDAMAGED.items():
            if words in cause:
                return SettingsError(f"Dagster's database in {folder} cannot be used ({cause}); {advice} and run again")
        return SettingsError(
            f"Dagster's database in {folder} cannot be read ({cause}); move that folder away and run again: {NOT_LOST}"
        )
    return SettingsError(
        f"Dagster's tables in the database `{postgres.database}` at {postgres.host}:{postgres.port} cannot be used "
        f"({cause}); let `{postgres.user}` create, read and write tables there, or name an empty database in "
        f"orchestration.postgres and run again: {NOT_LOST}"
    )


def _check_package() -> None:
    if find_spec("dagster_postgres") is None:
        raise SettingsError(
            "orchestration.postgres needs a package that is not installed; run `pip install 'cpmi-dagster[postgres]'`, "
            "or remove the setting"
        )


def _check_server(postgres: Postgres) -> None:
    """Connect once: Dagster would try again for a while, and end with a traceback."""
    import psycopg2

    password = environment_variable(postgres.password_variable)
    if not password:
        raise SettingsError(
            "orchestration.postgres takes its password from the environment variable "
            f"{postgres.password_variable}, which is not set; set it"
        )
    try:
        psycopg2.connect(
            host=postgres.host,
            port=postgres.port,
            dbname=postgres.database,
            user=postgres.user,
            password=password,
            connect_timeout=CONNECT_SECONDS,
        ).close()
    except psycopg2.OperationalError as error:
        raise SettingsError(
            f"orchestration.postgres: the database `{postgres.database}` at {postgres.host}:{postgres.port} refuses "
            f"`{postgres.user}` ({first_line(error)}); start the server, or correct the setting"
        ) from error
