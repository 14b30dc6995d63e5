"""`cpmi init`: a profile that loads, holds nothing of the embedded world, and replaces none that is there."""

import gzip
import json
from pathlib import Path

import pytest
import yaml
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.errors import ModelError, SettingsError, SourceError
from cpmi_dagster.profiles.first_look import look_over
from cpmi_dagster.profiles.settings import PROFILES, load_settings
from cpmi_dagster.profiles.sources import TrajectorySource
from cpmi_dagster.profiles.starter import starter_profile
from cpmi_dagster.resources.commands.starter import Starter, starter_for

ROWS = [
    {"id": f"q{number}", "question": f"{number} + 1?", "steps": [f"It is {number + 1}."], "gold_answer": number + 1}
    for number in range(3)
]
HUB_MODEL = "Qwen/Qwen3-8B-Base"


def write_rows(path: Path, rows=ROWS) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_starter(*arguments, **options) -> Starter:
    starter = starter_for(*arguments, **options)
    starter.write()
    return starter


@pytest.fixture
def starter(tmp_path) -> Starter:
    return write_starter(write_rows(tmp_path / "rows.jsonl"), HUB_MODEL, tmp_path / "mine.yaml")


def test_the_profile_labels_every_trajectory_with_cpmi_and_trains_one_model(starter):
    loaded = load_settings(starter.path)
    assert (loaded.profile, loaded.shards, loaded.recipe_names) == ("mine", 1, ["cpmi_bce"])
    cheap = ("position", "final_answer", "final_answer_position", "step_length", "step_surprisal")
    assert loaded.rewards.types == ("cpmi", *cheap)
    assert set(dict(loaded.selection).values()) == {None, False}
    assert loaded.models.labeler.name == loaded.models.backbone.name == HUB_MODEL
    assert loaded.models.policy is loaded.models.prover is starter.model_place is None
    # nothing of the embedded world comes in
    assert (loaded.sources.references, loaded.sources.benchmarks, loaded.sources.step_truth) == ((), {}, ())
    text = starter.path.read_text(encoding="utf-8").replace("miniature:NAME", "")
    assert "miniature" not in text and "extends" not in text


def test_sets_of_gold_answers_and_benchmarks_wait_for_a_confirmation(tmp_path):
    rows = [*ROWS, {**ROWS[0], "id": None, "question": "?", "gold_answer": None}]
    path = write_starter(write_rows(tmp_path / "rows.jsonl", rows), HUB_MODEL, tmp_path / "mine.yaml").path
    text = path.read_text(encoding="utf-8")
    assert "No gold answer in 1 of 4 trajectories" in text
    assert load_settings(path).sources.references == ()
    path.write_text(text.replace("    # ", "    "), encoding="utf-8")
    sources, paper = load_settings(path).sources, load_settings(PROFILES / "paper.yaml").sources
    assert sources.references[:-1] == paper.references
    assert sources.references[-1].source == "mine"
    assert sources.benchmarks == {name: paper.benchmarks[name] for name in sources.benchmarks}
    assert {"processbench_gsm8k", "prmbench"} <= set(sources.benchmarks)


def test_how_the_rows_are_read_is_shown_and_written_into_the_profile(tmp_path):
    rows = [{"prompt": "2 + 3?", "completion": "I add.\n\n2 + 3\n= 5.", "answer": 5, "level": 1}]
    told = {"fields": {"gold_answer": "answer"}, "steps": "line"}
    starter = write_starter(write_rows(tmp_path / "rows.jsonl", rows), HUB_MODEL, tmp_path / "mine.yaml", **told)
    first = starter.look.first
    assert (first.place, first.form, first.question) == ("row 1", "question and solution", "2 + 3?")
    assert (first.steps, first.gold_answer, first.unread) == (["I add.", "2 + 3", "= 5."], "5", ["level"])
    (source,) = load_settings(starter.path).sources.trajectories
    assert (source.fields, source.steps) == (told["fields"], told["steps"])


def test_judged_solutions_are_their_own_truth(tmp_path):
    row = {"problem": "2 + 3?", "steps": ["6"], "label": 0, "gold_answer": 5}
    starter = write_starter(write_rows(tmp_path / "rows.jsonl", [row]), HUB_MODEL, tmp_path / "mine.yaml")
    sources = load_settings(starter.path).sources
    assert sources.step_truth == sources.trajectories
    assert (starter.look.judged, starter.look.labelled) == (1, 0)


def test_a_hub_id_is_read_from_the_hub(tmp_path, monkeypatch):
    asked = []

    def load_dataset(*place, **options) -> Dataset:
        asked.append((*place, options["split"]))
        return Dataset.from_list(ROWS)

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    starter = write_starter("me/rows", HUB_MODEL, tmp_path / "mine.yaml", config="main", split="test")
    assert (asked, starter.look.first.place) == ([("me/rows", "main", "test")], "row 1")
    (source,) = load_settings(starter.path).sources.trajectories
    assert (source.hub, source.config, source.split) == ("me/rows", "main", "test")


def test_a_profile_that_is_there_is_replaced_only_by_force(starter):
    written = starter.path.read_text(encoding="utf-8")
    starter.path.write_text("mine", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"mine\.yaml already exists; give another --output, or --force"):
        write_starter(starter.source, HUB_MODEL, starter.path)
    assert starter.path.read_text(encoding="utf-8") == "mine"
    write_starter(starter.source, HUB_MODEL, starter.path, force=True)
    assert starter.path.read_text(encoding="utf-8") == written


@pytest.mark.parametrize("name", ["rows.jsonl", "notes"])
def test_what_is_no_profile_is_never_replaced(tmp_path, name):
    (tmp_path / name).write_text('{"question": "1 + 1?", "steps": ["2"]}\n', encoding="utf-8")
    with pytest.raises(SettingsError, match=rf"{name} is not the name of a profile; give one such as \w+\.yaml"):
        write_starter(tmp_path / name, HUB_MODEL, tmp_path / name, force=True)
    assert (tmp_path / name).read_text(encoding="utf-8").startswith('{"question"')


def test_paths_are_those_from_the_folder_of_the_profile(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "rows.jsonl")
    model = Path("models/m")
    model.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (model / name).touch()
    Path("profiles").mkdir()
    path = write_starter(Path("rows.jsonl"), str(model), Path("profiles/mine.yaml")).path
    assert "{path: ../rows.jsonl}" in path.read_text(encoding="utf-8")
    monkeypatch.chdir("/")
    loaded = load_settings(tmp_path / path)
    assert Path(str(loaded.sources.trajectories[0].path)).samefile(tmp_path / "rows.jsonl")
    assert Path(loaded.models.backbone.name).samefile(tmp_path / model)


@settings(deadline=None, max_examples=40)
@given(st.text(st.characters(exclude_categories=("C",), exclude_characters="/\\"), min_size=1, max_size=20))
def test_any_name_of_file_and_model_is_written_so_that_it_is_read_back(name):
    look = look_over("rows.jsonl", [(row, "") for row in ROWS])
    values = yaml.safe_load(starter_profile(look, f"p{name}p", {"path": f"./{name}"}, f"org/{name}"))
    assert values["profile"] == f"p{name}p"
    assert values["sources"]["trajectories"] == {"path": f"./{name}"}
    assert values["models"]["labeler"] == {"name": f"org/{name}", "dtype": "auto"} == values["models"]["backbone"]


def test_the_profile_has_the_name_of_the_trajectories_where_none_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    packed = tmp_path / "my_rows.jsonl.gz"
    packed.write_bytes(gzip.compress(write_rows(tmp_path / "rows.jsonl").read_bytes()))
    assert write_starter(packed, HUB_MODEL).path == Path("my_rows.yaml")
    assert load_settings("my_rows.yaml").profile == "my_rows"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("rows.jsonl", "./nowhere"), ModelError, "model folder nowhere does not exist"),
        (("rows.jsonl", "./empty"), ModelError, r"model folder empty has no config\.json"),
        (("rows.jsonl", "a/b/c"), ModelError, "`a/b/c` is neither a folder here nor a hub id"),
        (("rows.jsonl", "rows.jsonl"), ModelError, r"`rows\.jsonl` is a file, but not GGUF"),
        (("rows.jsonl", "miniature:none"), ModelError, "has no model `none`"),
        (("notes.txt", HUB_MODEL), SourceError, r"notes\.txt ends in none of .*\.csv.*; write it as one of these"),
        (("none.jsonl", HUB_MODEL), SourceError, r"there is no data at none\.jsonl"),
        (("rows.jsonl", HUB_MODEL, "paper.yaml"), SettingsError, "`paper` is the name of a shipped profile"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(tmp_path, monkeypatch, arguments, error, message):
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "rows.jsonl")
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").touch()
    source, model, *output = arguments
    with pytest.raises(error, match=message):
        write_starter(Path(source), model, *map(Path, output))
    assert not list(tmp_path.glob("*.yaml"))


def test_a_folder_is_read_to_100_percent_and_rejected_rows_are_named_by_file_and_line(tmp_path):
    folder, percents = tmp_path / "parts", []
    folder.mkdir()
    write_rows(folder / "a.jsonl", [ROWS[0], {**ROWS[0], "steps": []}])
    (folder / "b.jsonl").write_text(f"{json.dumps(ROWS[1])}\n\n{{\n", encoding="utf-8")
    output = tmp_path / "mine.yaml"
    starter = write_starter(folder, HUB_MODEL, output, advance=lambda *counted: percents.append(counted))
    assert starter.look.rejected["place"].to_list() == ["row 2 (a.jsonl, line 2)", "row 4 (b.jsonl, line 3)"]
    assert sum(count for count, _ in percents) == 100
    assert {total for _, total in percents} == {100}


def test_questions_alone_give_a_profile_that_samples_their_solutions(tmp_path):
    rows = [{"id": "a", "question": "2 + 3?", "answer": "2 + 3 = 5\n#### 5"}, {"problem": "1 + 1?"}, {"text": "?"}]
    source = write_rows(tmp_path / "questions.jsonl", rows)
    options = {"steps": "line", "sample": {"solutions": 4}}
    starter = write_starter(source, HUB_MODEL, tmp_path / "mine.yaml", **options)
    look = starter.look
    assert (look.rows, look.trajectories, look.answered, look.rejected.height) == (3, 8, 4, 1)
    assert (look.first.question, look.first.gold_answer, look.first.steps) == ("2 + 3?", "5", [])
    loaded = load_settings(starter.path)
    assert loaded.sources.trajectories == (TrajectorySource(path=str(source), **options),)
    assert loaded.models.policy == loaded.models.labeler
    assert "No gold answer in 4 of 8" in starter.text


def test_fields_that_look_like_a_gold_answer_or_an_id_are_proposed(tmp_path):
    rows = [{"problem": "1 + 1?", "solution": "It is 2.", "Answer": 2, "uid": "a", "grade": 3}]
    look = starter_for(write_rows(tmp_path / "rows.jsonl", rows), HUB_MODEL, tmp_path / "mine.yaml").look
    assert look.maps == ["--map gold_answer=Answer", "--map id=uid"]
    named = {"fields": {"gold_answer": "Answer", "id": "uid"}}
    assert starter_for(tmp_path / "rows.jsonl", HUB_MODEL, tmp_path / "mine.yaml", **named).look.maps == []


def test_what_was_named_is_not_proposed_again_though_nothing_is_there(tmp_path):
    rows = [{"problem": "1 + 1?", "solution": "It is 2.", "meta": {"gold": None, "answer": 2}}]
    source, named = write_rows(tmp_path / "rows.jsonl", rows), {"fields": {"gold_answer": "meta.gold"}}
    assert starter_for(source, HUB_MODEL, tmp_path / "mine.yaml", **named).look.maps == [
        "--map gold_answer=meta.answer"
    ]
    named = {"fields": {"gold_answer": "meta.answer"}}
    assert starter_for(source, HUB_MODEL, tmp_path / "mine.yaml", **named).look.first.gold_answer == "2"


def test_questions_alone_are_named_where_solutions_are_wanted(tmp_path):
    source = write_rows(tmp_path / "rows.jsonl", [{"question": "1 + 1?", "answer": "2"}])
    with pytest.raises(SourceError, match="where it has questions alone, `--sample 4` samples their solutions"):
        starter_for(source, HUB_MODEL, tmp_path / "mine.yaml")


def test_a_spreadsheet_in_utf_16_says_so(tmp_path):
    (tmp_path / "rows.csv").write_text("question,solution\n1 + 1?,It is 2.\n", encoding="utf-16")
    with pytest.raises(SourceError, match=r"rows\.csv is UTF-16; save it as UTF-8"):
        starter_for(tmp_path / "rows.csv", HUB_MODEL, tmp_path / "mine.yaml")
