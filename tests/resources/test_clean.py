"""Files that no profile reads are listed and removed; what may be needed stays."""

import os
import time

import polars as pl
import pytest

from cpmi_dagster.errors import LakeError
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.commands import clean
from cpmi_dagster.resources.commands.clean import remove_unused, unused_files
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.records import FileRecord

KEY = "labels/hard_negatives"
ROWS = pl.DataFrame({"trajectory_id": ["t1"], "rank": [1], "answer": ["3"], "source": ["model"]})


def write(lake: Lake, made_by: str) -> str:
    """Have the first shard read from a file of this key; the file's name in the home."""
    written = lake.write(ROWS, FileRecord(KEY, "000", "r", "m", "1", {"all": made_by}))
    return f"lake/{KEY}/000/{written.file_name}"


def names(settings: Settings) -> list[str]:
    return [name for each in unused_files(settings) for name in each.names]


@pytest.fixture
def settings(tmp_path, monkeypatch) -> Settings:
    monkeypatch.setattr(clean, "AGE_SECONDS", -1)
    return load_settings("miniature", tmp_path)


def test_only_what_no_profile_reads_is_found_and_removed(settings):
    lake, other = Lake.of(settings), Lake(settings.home, "other")
    first, second, third = write(other, "a"), write(lake, "b"), write(lake, "c")
    (found,) = unused_files(settings)
    assert (found.table, list(found.names)) == (KEY, [second])
    assert found.size == (settings.home / second).stat().st_size
    remove_unused(settings, [found])
    assert [(settings.home / name).exists() for name in (first, second, third)] == [True, False, True]
    assert not unused_files(settings)


def test_files_of_the_last_hour_stay(settings, monkeypatch):
    monkeypatch.setattr(clean, "AGE_SECONDS", 3600)
    lake = Lake.of(settings)
    young, old = write(lake, "a"), write(lake, "b")
    write(lake, "c")
    an_hour_ago = time.time() - 3601
    os.utime(settings.home / old, (an_hour_ago, an_hour_ago))
    assert names(settings) == [old]
    assert (settings.home / young).exists()


def test_what_a_profile_has_begun_to_read_meanwhile_stays(settings):
    lake = Lake.of(settings)
    first = write(lake, "a")
    write(lake, "b")
    found = unused_files(settings)
    assert write(lake, "a") == first
    remove_unused(settings, found)
    assert lake.read(KEY, "000").equals(ROWS)


def test_where_a_list_is_damaged_nothing_is_removed(settings):
    lake = Lake.of(settings)
    write(lake, "a")
    found = unused_files(settings)
    (settings.home / "lake" / ".current" / "another.json").write_text("[")
    for call in (lambda: unused_files(settings), lambda: remove_unused(settings, found)):
        with pytest.raises(LakeError, match=r"another\.json, the list of the files that the profile reads, is damaged"):
            call()


def test_on_a_store_what_was_kept_goes_with_the_last_file_that_names_it(s3_home, monkeypatch):
    monkeypatch.setattr(clean, "AGE_SECONDS", -1)
    settings = load_settings("miniature", s3_home)
    lake = Lake.of(settings)
    kept = []
    for recipe in ("one", "two"):
        place = lake.folder / "models" / recipe / "config.json"
        place.parent.mkdir(parents=True)
        place.write_text(recipe)
        record = FileRecord(KEY, "000", "r", "m", "1", {"all": recipe}, files=[f"models/{recipe}"])
        kept += lake.write(ROWS, record).files
    monkeypatch.setattr(clean, "AGE_SECONDS", 3600)
    lake.files.write(f"lake/{KEY}/stray.parquet", b"young, and of no partition")
    assert not unused_files(settings)
    lake.files.remove([f"lake/{KEY}/stray.parquet"])
    monkeypatch.setattr(clean, "AGE_SECONDS", -1)
    found = {each.table: list(each.names) for each in unused_files(settings)}
    assert set(found) == {KEY, "files"}
    assert all(name.startswith(f"{kept[0].split('/models')[0]}/") for name in found["files"])
    remove_unused(settings, unused_files(settings))
    assert [lake.files.exists(name) for name in kept] == [False, True]
