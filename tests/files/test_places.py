"""Paths of folders that every library here can use."""

from pathlib import Path

import pytest

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files import places
from cpmi_dagster.files.places import folder_for_all, home_of, local_folder
from cpmi_dagster.profiles.settings import load_settings


@pytest.mark.parametrize("name", ["100%", "a?b", "runs[1]", "a*", "back\\slash", "line\nfeed"])
def test_a_home_that_a_library_would_take_for_a_pattern_is_refused(tmp_path, name):
    with pytest.raises(SettingsError, match=r"contains the character .*; set CPMI_HOME to a folder without it"):
        load_settings("miniature", tmp_path / name)


@pytest.mark.parametrize("name", ["a b", "it's", "größe", "a;b", "a#b", "a$b", "a&b=c", "{x}", "(1)"])
def test_other_signs_are_fine(tmp_path, name):
    assert load_settings("miniature", tmp_path / name).home == tmp_path / name


def test_a_relative_folder_becomes_whole():
    assert folder_for_all("a") == Path.cwd() / "a"


def test_an_address_of_a_store_is_a_home_with_a_folder_of_copies(monkeypatch, tmp_path):
    monkeypatch.setenv("CPMI_CACHE", str(tmp_path))
    home = home_of("s3://bucket/some/prefix/")
    assert home == "s3://bucket/some/prefix"
    assert local_folder(home).parent == tmp_path
    assert local_folder(home).name.startswith("bucket-some-prefix-")
    assert local_folder(home) != local_folder(home_of("s3://bucket/some-prefix"))
    assert local_folder(tmp_path) == tmp_path == home_of(tmp_path)


@pytest.mark.parametrize(
    "place",
    ["s3://KEY:SECRET@bucket/prefix", "s3://bucket/a?token=SECRET", "s3://bucket/../SECRET", "s3://", "s3://bucket//x"],
)
def test_an_address_that_may_hold_a_key_is_refused_without_being_shown(place):
    with pytest.raises(SettingsError, match=r"s3://bucket/prefix, in letters") as found:
        home_of(place)
    assert "SECRET" not in str(found.value)


def test_an_address_of_no_store_is_refused():
    with pytest.raises(SettingsError, match="one of s3://, gs://, az://"):
        home_of("ftp://host/SECRET")


def test_a_store_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setattr(places, "find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=r"pip install 'cpmi-dagster\[store\]'"):
        home_of("gs://bucket/prefix")
