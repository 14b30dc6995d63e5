"""A source that is edited while it is ingested leaves no rows of two versions behind."""

import json

from small_run import run_all

from cpmi_dagster.assets import sources
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.lake.lake import Lake

KEY = "sources/math_shepherd"


def rows_of(version: str) -> str:
    rows = [{"question": f"{number} + 1?", "steps": [f"{version} {number}"]} for number in range(40)]
    return "".join(json.dumps(row) + "\n" for row in rows)


def versions(lake: Lake) -> list[str]:
    return [steps[0].split()[0] for steps in lake.read(KEY)["steps"]]


def test_a_source_that_is_edited_while_it_is_ingested_is_read_again_as_a_whole(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    path.write_text(rows_of("old"))
    monkeypatch.setenv("CPMI_SOURCES__MATH_SHEPHERD", json.dumps({"path": str(path)}))
    settings = load_settings("miniature", tmp_path / "home")
    number_rows = sources.number_rows

    def number_and_edit(*arguments):
        path.write_text(rows_of("new"))
        return number_rows(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(sources, "number_rows", number_and_edit)
        (failure,) = run_all(settings, only=(KEY,)).failures
    assert "the sources of sources/math_shepherd changed while its rows were made; nothing is written" in failure
    lake = Lake.of(settings)
    assert not lake.exists(KEY)
    assert not run_all(settings, only=(KEY,)).failures
    assert versions(lake) == ["new"] * 40


def test_shards_of_an_older_version_are_made_again_with_the_others(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    path.write_text(rows_of("old"))
    monkeypatch.setenv("CPMI_SOURCES__MATH_SHEPHERD", json.dumps({"path": str(path)}))
    settings = load_settings("miniature", tmp_path / "home")
    assert not run_all(settings, only=(KEY,)).failures
    path.write_text(rows_of("new"))
    Lake.of(settings).path(KEY, "003").unlink()
    assert not run_all(settings, only=(KEY,)).failures
    assert versions(Lake.of(settings)) == ["new"] * 40
