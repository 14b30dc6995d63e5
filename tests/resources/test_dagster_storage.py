"""Where Dagster keeps its runs: a PostgreSQL that the profile names, and what is said where it cannot be used."""

import sys
from contextlib import closing
from pathlib import Path

import dagster as dg
import psycopg2
import pytest
import yaml

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.profiles.postgres import Postgres
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag import dagster_storage
from cpmi_dagster.resources.dag.dagster_home import open_instance, write_dagster_yaml
from cpmi_dagster.resources.dag.dagster_storage import storage_configuration

sys.path.append(str(Path(__file__).resolve().parents[2] / "performance"))
from postgres_server import programs, temporary_server

PASSWORD = "not-in-any-file"
needs_server = pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed (apt-get install postgresql)")


@pytest.fixture
def profile(tmp_path):
    def write(**postgres) -> Path:
        file = tmp_path / "team.yaml"
        file.write_text(yaml.safe_dump({"extends": "miniature", "orchestration": {"postgres": postgres}}))
        return file

    return write


def test_without_a_setting_dagster_keeps_its_sqlite(tmp_path):
    folder = write_dagster_yaml(load_settings("miniature", tmp_path))
    assert "storage" not in yaml.safe_load((folder / "dagster.yaml").read_text())


def test_the_environment_can_name_the_server_for_any_profile(monkeypatch):
    monkeypatch.setenv("CPMI_ORCHESTRATION__POSTGRES__HOST", "db.internal")
    assert load_settings("miniature").orchestration.postgres == Postgres(host="db.internal")


def test_a_password_in_place_of_its_variable_is_refused(profile):
    with pytest.raises(SettingsError, match=r"password_variable` is wrong: .* not the password itself"):
        load_settings(profile(host="db", password_variable="s3cret!"))


def test_a_missing_password_names_its_variable(monkeypatch):
    monkeypatch.delenv("PG_PASSWORD", raising=False)
    with pytest.raises(SettingsError, match="environment variable PG_PASSWORD, which is not set; set it"):
        storage_configuration(Postgres(host="127.0.0.1"))


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setattr(dagster_storage, "find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=r"pip install 'cpmi-dagster\[postgres\]'"):
        storage_configuration(Postgres(host="127.0.0.1"))


def test_a_server_that_is_not_there_is_one_sentence_without_the_password(monkeypatch):
    monkeypatch.setenv("PG_PASSWORD", PASSWORD)
    with pytest.raises(SettingsError, match=r"`dagster` at 127\.0\.0\.1:1 refuses `dagster` \(.*refused") as caught:
        storage_configuration(Postgres(host="127.0.0.1", port=1))
    assert PASSWORD not in str(caught.value)


@needs_server
def test_a_user_who_may_make_no_tables_reads_what_to_allow_and_of_no_folder(tmp_path, profile, monkeypatch):
    with temporary_server() as server:
        monkeypatch.setenv("PG_PASSWORD", server.password)
        place = {"host": "127.0.0.1", "port": server.port}
        with closing(psycopg2.connect(**place, dbname="dagster", user="dagster", password=server.password)) as admin:
            admin.autocommit = True
            admin.cursor().execute("create role guest login password %s", [server.password])
        settings = load_settings(profile(**place, user="guest"), tmp_path / "home")
        with pytest.raises(SettingsError, match=r"`dagster` at .* \(permission denied .* let `guest` create") as caught:
            open_instance(settings)
    assert "folder" not in str(caught.value)


@needs_server
def test_runs_are_kept_in_postgresql_and_the_password_in_no_file(tmp_path, profile, monkeypatch):
    with temporary_server() as server:
        monkeypatch.setenv("PG_PASSWORD", server.password)
        settings = load_settings(profile(host="127.0.0.1", port=server.port), tmp_path / "home")
        with open_instance(settings) as instance:
            run = instance.create_run_for_job(dg.GraphDefinition("nothing").to_job())
        with open_instance(settings) as instance:
            assert instance.get_run_by_id(run.run_id) is not None
        monkeypatch.setenv("PG_PASSWORD", "another")
        with pytest.raises(SettingsError, match="password authentication failed"):
            open_instance(settings)
    files = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert not [path for path in files if server.password.encode() in path.read_bytes()]
    assert not [path for path in files if path.suffix == ".db"]
