"""`cpmi doctor` names what keeps a profile from running, and nothing else."""

import pytest
import yaml

from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.commands.doctor import examine

COMMIT = "0" * 40


@pytest.fixture
def problems(tmp_path, monkeypatch):
    """The problems of the miniature with some values changed; nothing is in the hub's cache, and it does not answer."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")

    def found(home=tmp_path / "home", **values) -> list[str]:
        profile = tmp_path / "mine.yaml"
        profile.write_text(yaml.safe_dump({"extends": "miniature", "profile": "mine", **values}))
        return [each.what for each in examine(load_settings(profile, home)) if each.state == "problem"]

    return found


def test_the_embedded_world_lacks_nothing_and_a_home_under_a_file_cannot_be_written(tmp_path, problems):
    assert not problems()
    whats = "\n".join(finding.what for finding in examine(load_settings("miniature", tmp_path / "home")))
    parts = ("torch ", f"home {tmp_path / 'home'}: ", "labeler miniature:labeler: 4 MB", "source miniature:")
    assert all(part in whats for part in parts)
    (what,) = problems(home=tmp_path / "mine.yaml" / "home")
    assert "home: cannot be written; set CPMI_HOME" in what


def test_what_neither_disk_nor_hub_have_is_a_problem_named_once(tmp_path, monkeypatch, problems):
    snapshot = tmp_path / "cache" / "models--a--model" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")  # a part of a download
    splits = [{"source": "gsm8k", "hub": "openai/gsm8k", "split": split} for split in ("train", "test")]
    backbone = {"backbone": {"name": "another/model"}, "training": {"backbone": "full"}}
    lacking = {
        "sources": {"references": splits, "trajectories": {"path": str(tmp_path / "nothing.jsonl")}},
        "models": {"labeler": {"name": "a/model", "revision": COMMIT}},
        "recipes": [{"name": name, "reward_type": name, **backbone} for name in ("cpmi", "mc")],
    }
    names = {problem.partition(":")[0].rpartition("/")[2] for problem in problems(**lacking)}
    assert names == {"model", "nothing.jsonl", "gsm8k"} and len(problems(**lacking)) == 4
    monkeypatch.setattr("huggingface_hub.HfApi.repo_info", lambda *_, **__: None)
    assert len(problems(**lacking)) == 1
