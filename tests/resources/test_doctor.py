"""`cpmi doctor` names what keeps a profile from running, and nothing else."""

import json
from types import SimpleNamespace

import pytest
import yaml

from cpmi_dagster.cli.doctor import show_findings
from cpmi_dagster.cli.options import OUT
from cpmi_dagster.errors import CpmiError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.commands import doctor_needs
from cpmi_dagster.resources.commands.doctor import examine

COMMIT = "0" * 40


def found(tmp_path, *, home=None, **values):
    """What is found for the miniature with some values changed."""
    profile = tmp_path / "mine.yaml"
    profile.write_text(yaml.safe_dump({"extends": "miniature", "profile": "mine", **values}))
    return list(examine(load_settings(profile, home or tmp_path / "home")))


def problems(findings):
    return {finding.what: finding.advice for finding in findings if finding.state == "problem"}


def test_the_embedded_world_lacks_nothing(tmp_path):
    findings = found(tmp_path)
    assert not problems(findings)
    assert {"machine", "home", "model", "source"} <= {finding.topic for finding in findings}


def test_a_file_that_is_not_there_is_a_problem(tmp_path):
    missing = str(tmp_path / "nothing.jsonl")
    assert list(problems(found(tmp_path, sources={"math_shepherd": {"path": missing}}))) == [missing]


OF_THE_EXPLORER = {"trajectory_id": "t000000007", "rewards": [0.9, 0.0], "judged": [1], "reward_type": "cpmi"}


@pytest.mark.parametrize(
    ("setting", "row", "advice"),
    [
        ("truth", OF_THE_EXPLORER, None),
        ("truth", {"trajectory_id": "t000000007", "rewards": [0.9, 0.0]}, "give rows of row_number and correct"),
        ("labels", OF_THE_EXPLORER, None),
        ("labels", {"trajectory_id": "t000000007", "rewards": [0.9, None]}, "correct or remove the row"),
    ],
)
def test_judgements_are_read_and_a_file_of_another_form_is_a_problem(tmp_path, setting, row, advice):
    file = tmp_path / "own_labels.jsonl"
    file.write_text(json.dumps(row) + "\n")
    source = {"path": str(file)}
    sources = {"step_truth": source} if setting == "truth" else {"step_labels": {"mine": source}}
    found_problems = problems(found(tmp_path, sources=sources))
    assert list(found_problems) == ([str(file)] if advice else [])
    assert not advice or advice in found_problems[str(file)]


def test_a_key_that_is_not_in_the_environment_is_a_problem(tmp_path, monkeypatch):
    policy = {"name": "m", "engine": "endpoint", "endpoint": "http://127.0.0.1:1/v1", "api_key_variable": "MY_KEY"}
    models = {"policy": policy}
    monkeypatch.delenv("MY_KEY", raising=False)
    assert "MY_KEY" in next(iter(problems(found(tmp_path, models=models)).values()))
    monkeypatch.setenv("MY_KEY", " ")
    assert "MY_KEY" in next(iter(problems(found(tmp_path, models=models)).values()))
    monkeypatch.setenv("MY_KEY", "secret")
    findings = found(tmp_path, models=models)
    assert not problems(findings)
    assert "secret" not in str(findings)


def test_what_the_hub_does_not_give_is_a_problem_named_once(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")
    splits = [{"source": "gsm8k", "hub": "openai/gsm8k", "split": split} for split in ("train", "test")]
    found_problems = problems(found(tmp_path, sources={"references": splits}, models={"labeler": {"name": "a/model"}}))
    assert [what.split(":")[0] for what in found_problems] == ["labeler a/model", "openai/gsm8k"]


def test_the_own_backbones_of_recipes_are_looked_at_each_once(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")
    own = {"backbone": {"name": "another/model"}, "training": {"backbone": "full"}}
    recipes = [{"name": name, "reward_type": name, **own} for name in ("cpmi", "mc")]
    (what, advice), *others = problems(found(tmp_path, recipes=recipes)).items()
    assert what.startswith("backbone of recipe cpmi another/model") and "its backbone.name" in advice
    assert not others
    both = found(tmp_path, recipes=[{"name": "plain", "reward_type": "cpmi"}, {"name": "own", "reward_type": "mc",
                 "backbone": {"name": "miniature:prover"}, "training": {"backbone": "full"}}])  # fmt: skip
    assert not problems(both)
    assert [each.what.split(":")[0] for each in both if each.what.startswith("backbone")] == [
        "backbone miniature", "backbone of recipe own miniature",
    ]  # fmt: skip


def test_weights_without_a_config_are_a_problem_with_advice_for_the_recipe(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    snapshot = tmp_path / "cache" / "models--a--model" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").touch()
    model = {"name": "a/model", "revision": COMMIT}
    own = {"name": "r", "reward_type": "cpmi", "backbone": model, "training": {"backbone": "full"}}
    (advice,) = problems(found(tmp_path, recipes=[own])).values()
    assert "no weights), or name a local folder as its backbone.name" in advice and "--parameters" not in advice


def test_a_part_of_a_download_is_not_taken_for_the_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")
    for repository in ("models--a--model", "datasets--a--data"):
        snapshot = tmp_path / "cache" / repository / "snapshots" / COMMIT
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text("{}")
        (snapshot.parents[1] / "blobs").mkdir()
        (snapshot.parents[1] / "blobs" / "abc.incomplete").touch()
    data = {"math_shepherd": {"hub": "a/data", "revision": COMMIT}}
    findings = found(tmp_path, sources=data, models={"labeler": {"name": "a/model", "revision": COMMIT}})
    partly = [finding.what.split(":")[0] for finding in findings if "a part of it" in finding.what]
    assert partly == ["labeler a/model", "a/data"]
    assert len(problems(findings)) == 2, "the hub that has the rest cannot be reached"
    on_hub = SimpleNamespace(siblings=[])
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *_, **__: on_hub)
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", lambda *_, **__: on_hub)
    assert not problems(found(tmp_path, sources=data, models={"labeler": {"name": "a/model", "revision": COMMIT}}))


@pytest.mark.parametrize(
    ("files", "lacks"),
    [
        ({"model.safetensors": ""}, False),
        ({"pytorch_model.bin": ""}, True),
        ({"model.safetensors": "", "pytorch_model.bin.index.json": "{"}, False),
        ({"model-00001-of-00002.safetensors": "", "model.safetensors.index.json": "{"}, True),
    ],
)
def test_weights_are_there_if_all_that_their_index_names_is(tmp_path, files, lacks):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert doctor_needs._lacks_weights(tmp_path) == lacks


def test_an_extra_that_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("cpmi_dagster.resources.commands.doctor.find_spec", lambda name: None)
    advice = problems(found(tmp_path, models={"labeler": {"name": str(tmp_path / "model.gguf")}}))
    assert "pip install 'cpmi-dagster[evidence]'" in advice.values()


def test_a_home_under_a_file_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    assert any("cannot be written" in what for what in problems(found(tmp_path, home=tmp_path / "file" / "home")))


def test_a_model_larger_than_memory_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr("cpmi_dagster.resources.commands.doctor._gpus", lambda: iter([("a card", 2**20, 2**30)]))
    warnings = [finding for finding in found(tmp_path) if finding.state == "warning"]
    assert any(finding.what.startswith("labeler") for finding in warnings)


def test_the_command_fails_where_something_is_missing_and_writes_json(tmp_path, capsys):
    findings = found(tmp_path, sources={"math_shepherd": {"path": str(tmp_path / "none.jsonl")}})
    with pytest.raises(CpmiError, match=r"^1 of these must be solved before the profile can run$"):
        show_findings(OUT, findings, as_json=True)
    assert [row["state"] for row in json.loads(capsys.readouterr().out)].count("problem") == 1
