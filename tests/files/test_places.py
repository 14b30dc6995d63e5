"""Paths of folders that every library here can use."""

import pytest

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.profiles.settings import load_settings


@pytest.mark.parametrize("name", ["100%", "a?b", "runs[1]", "a*", "back\\slash", "line\nfeed"])
def test_a_home_that_a_library_would_take_for_a_pattern_is_refused(tmp_path, name):
    with pytest.raises(SettingsError, match=r"contains the character .*; set CPMI_HOME to a folder without it"):
        load_settings("miniature", tmp_path / name)


@pytest.mark.parametrize("name", ["it's a größe", "a;b#c$d&e=f", "{x}(1)"])
def test_other_signs_are_fine(tmp_path, name):
    assert load_settings("miniature", tmp_path / name).home == tmp_path / name


@pytest.mark.parametrize("given", ["argument", "environment", "profile"])
def test_an_address_of_a_store_is_refused_without_being_shown(tmp_path, monkeypatch, given):
    address, profile = "s3://KEY:SECRET@bucket/home", tmp_path / "mine.yaml"
    profile.write_text(f"extends: miniature\nhome: {address}" if given == "profile" else "extends: miniature")
    monkeypatch.setenv("CPMI_HOME", address if given == "environment" else "")
    with pytest.raises(SettingsError, match="homes on object stores were removed; give a folder") as caught:
        load_settings(profile, address if given == "argument" else None)
    assert "SECRET" not in str(caught.value)
