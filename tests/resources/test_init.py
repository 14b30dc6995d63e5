"""`cpmi init`: a profile that loads, holds nothing of the embedded world, and replaces none that is there."""

import json
from pathlib import Path

import polars as pl
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from small_run import SHARED_DATA

from cpmi_dagster.cli.console import SafeConsole
from cpmi_dagster.cli.views import show_first_row, show_new_profile
from cpmi_dagster.errors import ModelError, SettingsError, SourceError
from cpmi_dagster.profiles.first_look import look_over
from cpmi_dagster.profiles.profile_files import PROFILES
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.commands.init import NewProfile, new_profile, profile_text

ROWS = [
    {"id": f"q{number}", "question": f"{number} + 1?", "steps": [f"It is {number + 1}."], "gold_answer": number + 1}
    for number in range(3)
]
PUBLISHED = {
    "processbench/math.even.jsonl.gz": "ProcessBench",
    "prm800k/sample_openr.jsonl": "PRM800K",
    "math_shepherd/first100_raw_reconstructed.jsonl": "Math-Shepherd",
}
HUB_MODEL = "Qwen/Qwen3-8B-Base"


def write_rows(path: Path, rows=ROWS) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Writes rows to `rows.jsonl` and a profile for them; gives both the new profile and its settings."""
    monkeypatch.chdir(tmp_path)

    def run(rows=ROWS, source=None, model=HUB_MODEL, output="mine.yaml", **options) -> tuple[NewProfile, Settings]:
        new = new_profile(source or write_rows(Path("rows.jsonl"), rows), model, output and Path(output), **options)
        new.write()
        return new, load_settings(new.path)

    return run


def test_the_profile_labels_every_trajectory_with_cpmi_and_trains_on_it_and_on_one_label_from_several(start):
    new, loaded = start()
    assert (loaded.profile, loaded.shards, loaded.recipe_names) == ("mine", 1, ["cpmi_bce", "right_so_far_bce"])
    cheap = ("position", "final_answer", "final_answer_position", "step_length", "step_surprisal")
    assert loaded.rewards.types == ("cpmi", "first_error", "right_so_far", *cheap)
    assert set(dict(loaded.selection).values()) == {None, False}
    assert loaded.models.labeler.name == loaded.models.backbone.name == HUB_MODEL
    assert loaded.models.policy is loaded.models.prover is new.model_place is None
    assert (loaded.sources.references, loaded.sources.benchmarks, loaded.sources.step_truth) == ((), {}, ())
    assert "miniature" not in new.text.replace("miniature:NAME", "") and "extends" not in new.text


def test_without_a_gpu_a_head_is_trained_alone_and_the_profile_says_what_trains_in_full(start, monkeypatch):
    for has_gpu, backbone in ((False, "frozen"), (True, "full")):
        monkeypatch.setattr("cpmi_dagster.resources.commands.init.sees_gpu", lambda sees=has_gpu: sees)
        written, settings = start(force=True)
        assert settings.training.backbone == backbone
        assert ("`full` trains all weights" in written.text) is not has_gpu


def test_sets_of_gold_answers_wait_for_a_confirmation_and_a_row_without_one_among_others_is_named(start):
    new, loaded = start([*ROWS, {**ROWS[0], "id": "odd", "question": "?", "gold_answer": None}])
    assert "No gold answer in 1 of 4 trajectories" in new.text and not loaded.sources.references
    assert list(new.look.without_gold) == ["odd"]
    new, _ = start([{**row, "gold_answer": None} for row in ROWS], force=True)
    new.path.write_text(new.text.replace("    # ", "    "), encoding="utf-8")
    sources, paper = load_settings(new.path).sources, load_settings(PROFILES / "paper.yaml").sources
    assert sources.references[:-1] == paper.references and sources.references[-1].source == "mine"


def test_how_the_rows_are_read_is_shown_and_written_into_the_profile(start):
    rows = [{"prompt": "2 + 3?", "completion": "I add.\n\n2 + 3\n= 5.", "Answer": 5, "level": 1, "guid": "a"}]
    new, _ = start(rows)
    assert new.look.maps == ["--map gold_answer=Answer", "--map id=guid"]
    told = {"fields": {"gold_answer": "Answer", "id": "guid"}, "steps": "line"}
    new, loaded = start(rows, force=True, **told)
    first = new.look.first
    assert (first.place, first.form, first.question) == ("row 1", "question and solution", "2 + 3?")
    assert (first.steps, first.gold_answer, first.unread) == (["I add.", "2 + 3", "= 5."], "5", ["level"])
    (source,) = loaded.sources.trajectories
    assert (source.fields, source.steps, new.look.maps) == (told["fields"], told["steps"], [])


def test_steps_count_from_0_in_the_first_row_that_init_shows(start, capsys):
    new, _ = start([{"prompt": "2 + 3?", "completion": "I add.\n\nSo 5."}])
    show_first_row(SafeConsole(width=300), new.look.first)
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.startswith("row 1 as it is read (question and solution); steps count from 0 question 2 + 3?")
    assert "step 0 I add. step 1 So 5. gold answer" in shown


def test_a_profile_that_is_there_is_replaced_only_by_force_and_what_is_no_profile_never(start):
    new, _ = start()
    new.path.write_text("mine", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"mine\.yaml already exists; give another --output, or --force"):
        start()
    assert new.path.read_text(encoding="utf-8") == "mine"
    start(force=True)
    assert new.path.read_text(encoding="utf-8") == new.text
    with pytest.raises(SettingsError, match=r"rows\.jsonl is not the name of a profile; give one such as \w+\.yaml"):
        start(output="rows.jsonl", force=True)
    assert Path("rows.jsonl").read_text(encoding="utf-8").startswith('{"id"')


def test_paths_are_those_from_the_folder_of_the_profile(start, tmp_path, monkeypatch):
    model = Path("models/m")
    model.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (model / name).touch()
    Path("profiles").mkdir()
    new, _ = start(model=str(model), output="profiles/mine.yaml")
    assert "{path: ../rows.jsonl}" in new.text
    monkeypatch.chdir("/")
    loaded = load_settings(tmp_path / new.path)
    assert Path(str(loaded.sources.trajectories[0].path)).samefile(tmp_path / "rows.jsonl")
    assert Path(loaded.models.backbone.name).samefile(tmp_path / model)


@settings(deadline=None, max_examples=40)
@given(st.text(st.characters(exclude_categories=("C",), exclude_characters="/\\"), min_size=1, max_size=20))
def test_any_name_of_file_and_model_is_written_so_that_it_is_read_back(name):
    look = look_over("rows.jsonl", [(row, "") for row in ROWS])
    values = yaml.safe_load(profile_text(look, f"p{name}p", {"path": f"./{name}"}, f"org/{name}"))
    assert values["profile"] == f"p{name}p"
    assert values["sources"]["trajectories"] == {"path": f"./{name}"}
    assert values["models"]["labeler"] == {"name": f"org/{name}", "dtype": "auto"} == values["models"]["backbone"]


MISTAKES = [
    ("rows.jsonl", "./nowhere", ModelError, "model folder nowhere does not exist"),
    ("notes.txt", HUB_MODEL, SourceError, r"notes\.txt ends in none of .*\.csv.*; write it as one of these"),
    ("alone.jsonl", HUB_MODEL, SourceError, "where it has questions alone, `--sample 4` samples their solutions"),
]


@pytest.mark.parametrize(("source", "model", "error", "message"), MISTAKES)
def test_mistakes_are_named_and_nothing_is_written(start, tmp_path, source, model, error, message):
    write_rows(Path("rows.jsonl"))
    write_rows(Path("alone.jsonl"), [{"question": "1 + 1?", "answer": "2"}])
    Path("notes.txt").touch()
    with pytest.raises(error, match=message):
        start(source=Path(source), model=model, output=None)
    assert not list(tmp_path.glob("*.yaml"))


def test_judgements_are_checked_at_once_and_named_in_the_profile(start, capsys):
    write_rows(Path("judged.jsonl"), [{"id": "q1", "first_error": 0}, {"id": "q7", "first_error": 0}])
    new, loaded = start(truth="judged.jsonl")
    (truth,) = loaded.sources.step_truth
    assert Path(str(truth.path)).samefile("judged.jsonl") and new.truth
    show_new_profile(SafeConsole(width=300), new)
    assert (
        '1 of 2 judged rows of sources.step_truth fit; row 2: no trajectory has the id "q7"' in capsys.readouterr().out
    )
    rows = [{**row, "id": None, "uid": row["id"]} for row in ROWS]
    pl.DataFrame({"uid": ["q0", "q1"], "wrong_at": [-1, None]}).write_parquet("judged.parquet")
    names = {"id": "uid", "first_error": "wrong_at"}
    new, loaded = start(rows, truth="judged.parquet", fields=names, force=True)
    assert new.truth and new.truth.truth.rows() == [(0, [True], None, None)] and new.truth.unjudged == 1
    assert loaded.sources.trajectories[0].fields == {"id": "uid"} and loaded.sources.step_truth[0].fields == names


@pytest.mark.parametrize("name", ["uid", "qid"])
def test_a_uid_or_qid_is_the_id_that_no_row_has_unless_rows_would_be_lost(start, name):
    rows = [{**{key: row[key] for key in row if key != "id"}, name: row["id"]} for row in ROWS]
    write_rows(Path("judged.jsonl"), [{"id": "q0", "first_error": 0}, {name: "q1", "first_error": 0}])
    new, loaded = start(rows, truth="judged.jsonl")
    assert loaded.sources.trajectories[0].fields == {"id": name} and new.look.identified == 3
    assert new.truth and new.truth.truth["row_number"].to_list() == [0, 1]
    for others in ([{**row, name: "user"} for row in rows], [*rows[:2], {**ROWS[2], "id": None}], [*ROWS, rows[0]]):
        new, loaded = start(others, force=True)
        assert loaded.sources.trajectories[0].fields == {} and new.look.rejected.height == (len(others) > 3)


def test_judgements_by_another_column_of_the_trajectories_are_refused_with_the_option_that_names_it(start):
    write_rows(Path("judged.jsonl"), [{"id": "7", "first_error": 0}])
    rows = [{**row, "conversation": number + 6} for number, row in enumerate(ROWS)]
    with pytest.raises(SourceError, match='their column `conversation` holds "7": give `--map id=conversation` to'):
        start(rows, truth="judged.jsonl")
    new, _ = start(rows, truth="judged.jsonl", fields={"id": "conversation"})
    assert new.truth and new.truth.fitting == 1


@pytest.mark.parametrize(
    ("judged", "options", "error", "message"),
    [
        (
            [{"id": "x", "first_error": 0}],
            {},
            SourceError,
            'no trajectory has the id "x"; the trajectories have ids such as "q0"',
        ),
        ([{"id": "q1"}], {}, SourceError, "of 1 row, none fits a trajectory; row 1: it says of no step whether"),
        ([{"id": "q1", "correct": [None]}], {}, SourceError, "of 1 row, none says which steps are right"),
        ([], {}, SourceError, "judged.jsonl has no rows; give a file of judgements"),
        ([{"id": "q1", "first_error": 0}], {"sample": {"solutions": 2}}, SettingsError, "are not there yet"),
    ],
)
def test_judgements_of_which_none_fits_are_refused_before_a_profile_is_written(
    start, tmp_path, judged, options, error, message
):
    write_rows(Path("judged.jsonl"), judged)
    with pytest.raises(error, match=message):
        start(truth="judged.jsonl", **options)
    assert not list(tmp_path.glob("*.yaml"))


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason=f"the real data sets are not at {SHARED_DATA}")
@pytest.mark.parametrize(("name", "form"), PUBLISHED.items())
def test_rows_of_published_sets_are_recognised_and_all_read(start, name, form):
    look = start(source=SHARED_DATA / name)[0].look
    assert look.forms == {form: look.rows} and look.rows > 5
    assert look.trajectories + look.rejected.filter(stage="duplicate").height == look.rows
