"""Hub revisions are settled once and then obeyed."""

import json
from types import SimpleNamespace

import httpx2
import pytest

from cpmi_dagster.errors import SourceError
from cpmi_dagster.resources.sources.hub import HubLock


@pytest.fixture
def hub(monkeypatch):
    """A hub that gives another commit each time it is asked."""
    asked = []

    class Api:
        def model_info(self, name):
            asked.append(name)
            return SimpleNamespace(sha=f"commit{len(asked)}")

        dataset_info = model_info

    monkeypatch.setattr("huggingface_hub.HfApi", Api)
    return asked


def test_a_revision_is_resolved_once_and_kept(tmp_path, hub):
    assert HubLock(tmp_path).revision("model", "a/b") == "commit1"
    assert HubLock(tmp_path).revision("model", "a/b") == "commit1"
    assert hub == ["a/b"]


def test_models_and_data_sets_of_one_name_are_kept_apart(tmp_path, hub):
    lock = HubLock(tmp_path)
    assert lock.revision("model", "a/b") != lock.revision("dataset", "a/b")
    assert json.loads(lock.path.read_text()) == {"model a/b": "commit1", "dataset a/b": "commit2"}


@pytest.mark.parametrize("error", [ConnectionError(), httpx2.ConnectError("no route")])
def test_a_hub_out_of_reach_says_what_to_set(tmp_path, monkeypatch, error):
    class Api:
        def model_info(self, name):
            raise error

    monkeypatch.setattr("huggingface_hub.HfApi", Api)
    with pytest.raises(SourceError, match="check the name and the connection, or name a folder of this disk"):
        HubLock(tmp_path).revision("model", "a/b")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"model a/b": 7}', '{"model a/b": ""}'])
def test_a_damaged_lock_file_says_what_to_do(tmp_path, hub, text):
    (tmp_path / "hub.lock.json").write_text(text)
    with pytest.raises(SourceError, match=r"hub\.lock\.json is damaged .*; put it back as it was, or delete it"):
        HubLock(tmp_path).revision("model", "a/b")
    assert not hub
