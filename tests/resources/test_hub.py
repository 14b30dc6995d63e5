"""Hub revisions are settled once and then obeyed."""

import json
from types import SimpleNamespace

import pytest

from cpmi_dagster.errors import SourceError
from cpmi_dagster.resources.sources.hub import HubLock


@pytest.fixture
def hub(monkeypatch):
    """A hub that gives another commit each time it is asked."""
    commits = (f"commit{number}" for number in range(1, 9))
    api = SimpleNamespace(model_info=lambda name: SimpleNamespace(sha=next(commits)))
    api.dataset_info = api.model_info
    monkeypatch.setattr("huggingface_hub.HfApi", lambda: api)
    return api


def test_a_revision_is_resolved_once_for_each_kind_and_name(tmp_path, hub):
    kinds = ("model", "dataset", "model")
    assert [HubLock(tmp_path).revision(kind, "a/b") for kind in kinds] == ["commit1", "commit2", "commit1"]
    noted = json.loads((tmp_path / "hub.lock.json").read_text())
    assert noted == {"model a/b": "commit1", "dataset a/b": "commit2"}


@pytest.mark.parametrize("text", ["{", "[]", '{"model a/b": 7}'])
def test_a_damaged_lock_file_says_what_to_do(tmp_path, hub, text):
    (tmp_path / "hub.lock.json").write_text(text)
    with pytest.raises(SourceError, match=r"hub\.lock\.json is damaged .*; put it back as it was, or delete it"):
        HubLock(tmp_path).revision("model", "a/b")
