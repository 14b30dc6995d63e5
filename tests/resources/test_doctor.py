"""`cpmi doctor` names what keeps a profile from running, and nothing else."""

import shutil

import pytest
import yaml
from rich.console import Console
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer

from cpmi_dagster.cli.views import show_findings
from cpmi_dagster.miniature.names import MODEL_FOLDERS
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.commands.doctor import Finding, examine

COMMIT = "0" * 40


def found(tmp_path, *, home=None, **values) -> list[Finding]:
    """What is found for the miniature with some values changed."""
    profile = tmp_path / "mine.yaml"
    profile.write_text(yaml.safe_dump({"extends": "miniature", "profile": "mine", **values}))
    return list(examine(load_settings(profile, home or tmp_path / "home")))


def problems(findings: list[Finding]) -> list[str]:
    return [finding.what for finding in findings if finding.state == "problem"]


@pytest.fixture
def no_hub(tmp_path, monkeypatch):
    """An empty cache of the hub, which does not answer; the cache's folder."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")
    return tmp_path / "cache"


def test_the_embedded_world_lacks_nothing(tmp_path):
    findings = found(tmp_path)
    assert not problems(findings)
    whats = "\n".join(finding.what for finding in findings)
    for part in (
        "torch ",
        "GiB",
        f"home {tmp_path / 'home'}: ",
        "labeler miniature:labeler: 4 MB",
        "source miniature:",
    ):
        assert part in whats


def test_a_file_that_is_not_there_is_a_problem(tmp_path):
    missing = str(tmp_path / "nothing.jsonl")
    (problem,) = problems(found(tmp_path, sources={"trajectories": {"path": missing}}))
    assert problem.startswith(f"source {missing}: ")


def test_a_key_that_is_not_in_the_environment_is_a_problem(tmp_path, monkeypatch):
    policy = {"name": "m", "engine": "endpoint", "endpoint": "http://127.0.0.1:1/v1", "api_key_variable": "MY_KEY"}
    models = {"policy": policy}
    monkeypatch.setenv("MY_KEY", " ")
    (problem,) = problems(found(tmp_path, models=models))
    assert "environment variable MY_KEY" in problem
    monkeypatch.setenv("MY_KEY", "secret")
    findings = found(tmp_path, models=models)
    assert not problems(findings) and "secret" not in str(findings)


def test_what_the_hub_does_not_give_is_a_problem_named_once(tmp_path, no_hub):
    splits = [{"source": "gsm8k", "hub": "openai/gsm8k", "split": split} for split in ("train", "test")]
    whats = problems(found(tmp_path, sources={"references": splits}, models={"labeler": {"name": "a/model"}}))
    assert [what.split(":")[0] for what in whats] == ["labeler a/model", "source openai/gsm8k"]


def test_the_backbone_of_a_recipe_is_looked_at_once(tmp_path, no_hub):
    own = {"backbone": {"name": "another/model"}, "training": {"backbone": "full"}}
    recipes = [{"name": name, "reward_type": name, **own} for name in ("cpmi", "mc")]
    (what,) = problems(found(tmp_path, recipes=recipes))
    assert what.startswith("backbone of cpmi another/model: not on this disk")


def test_a_part_of_a_download_is_not_taken_for_the_whole(tmp_path, no_hub, monkeypatch):
    snapshot = no_hub / "models--a--model" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    models = {"labeler": {"name": "a/model", "revision": COMMIT}}
    assert "labeler a/model: not on this disk" in problems(found(tmp_path, models=models))[0]
    monkeypatch.setattr("huggingface_hub.HfApi.repo_info", lambda *_, **__: None)
    assert not problems(found(tmp_path, models=models))


def test_a_labeler_that_does_not_read_text_in_pieces_is_a_problem(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(MODEL_FOLDERS["labeler"], folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.save_pretrained(folder)
    (problem,) = problems(found(tmp_path, models={"labeler": {"name": str(folder)}}))
    assert "use a labeler whose tokenizer adds nothing at the start of a text" in problem


def test_a_home_under_a_file_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    (what,) = problems(found(tmp_path, home=tmp_path / "file" / "home"))
    assert "home: cannot be written; set CPMI_HOME" in what


def test_problems_are_counted_and_texts_are_shown_as_they_are(capsys):
    findings = [Finding("fine", "all"), Finding("problem", "source [red]: nothing")]
    assert show_findings(Console(width=80), findings) == 1
    assert capsys.readouterr().out == "fine     all\nproblem  source [red]: nothing\n"
