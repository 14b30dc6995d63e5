"""Trajectories from questions alone: the policy's solutions become rows, with gold answers, steps, reasons and ids."""

import json
from pathlib import Path

import polars as pl
import pytest
import yaml
from small_run import run_all

from cpmi_dagster.assets import sources
from cpmi_dagster.definitions import home_of
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.generation.settings import SOLUTIONS, SolutionSampling
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.profiles.sources import TrajectorySource
from cpmi_dagster.resources.commands.export import made_with, origins_of
from cpmi_dagster.resources.commands.trace import trace
from cpmi_dagster.resources.dag.states import CURRENT
from cpmi_dagster.resources.lake.lake import Lake

ASKED, SAMPLED, ROWS = "sources/questions", "sources/sampled_solutions", "sources/math_shepherd"
UNTIL_SELECTED = (ASKED, SAMPLED, ROWS, "sources/reference_problems", "alignment", "selection")
POLICY = {"name": "miniature:labeler", "dtype": "float32"}
ASK = {"questions": {"path": "b.jsonl"}, "solutions": 2}
SAMPLING = {"temperature": 0.7, "top_p": 0.95, "max_new_tokens": 96}
QUESTIONS = [
    {"id": "a", "question": "Ann has 4 hats and buys 3 more. How many hats has she?", "answer": "4 + 3 = 7\n#### 7"},
    {"problem": "Bob has 9 pens and loses 2 pens. How many pens has he?", "gold_answer": 7},
    {"id": "c", "question": ["no", "text"]},
    {"prompt": "Tom had 12 cards. He gave away 5 cards. How many cards are left?", "solution": r"So $\boxed{7}$."},
    {"text": "What?"},
]


def profile(folder: Path, solutions: int = 3, rows: list[dict] = QUESTIONS, **changes: object) -> Settings:
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    sample = {"questions": {"path": "./questions.jsonl"}, "solutions": solutions, "sampling": SAMPLING}
    values = {
        "extends": "files",
        "shards": 2,
        "sources": {"trajectories": {"sample": sample}, "references": [], "benchmarks": {}},
        "models": {"policy": POLICY},
        "negatives": {"samples": 0},
        "scoring": {"templates": 1},
        **changes,
    }
    (folder / "own.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return load_settings(folder / "own.yaml", folder / "home")


def run(settings: Settings, *only: str) -> Lake:
    outcome = run_all(settings, only=only or UNTIL_SELECTED)
    assert not outcome.failures, outcome.failures
    return Lake.of(settings)


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Settings:
    settings = profile(tmp_path_factory.mktemp("sampled"))
    run(settings, *UNTIL_SELECTED, "labels", "dataset", "sources/step_labels", "sources/step_truth")
    return settings


def test_every_sound_question_has_its_solutions_and_every_other_one_its_reason(done):
    questions, solutions = Lake.of(done).read(ASKED), Lake.of(done).read(SAMPLED)
    counts = solutions.group_by("question_number").len().sort("question_number").rows()
    assert counts == [(0, 3), (1, 3), (3, 3)]
    assert dict(questions.filter(pl.col("defect").is_not_null()).select("question_number", "defect").rows()) == {
        2: "`question`: it is a list of 2; give one text",
        4: "the row has columns text; it needs a text in question or problem or prompt",
    }
    assert (solutions["generated_tokens"] > 0).all()


def test_solutions_become_trajectories_with_steps_gold_answers_and_ids(done):
    lake = Lake.of(done)
    trajectories, rejected = lake.read("alignment/trajectories"), lake.read("alignment/rejected_rows")
    sampled = lake.read(SAMPLED)
    assert trajectories.height + rejected.height == sampled.height + 2
    texts = {(row["question_number"], row["solution"]): row["text"] for row in sampled.iter_rows(named=True)}
    for row in trajectories.iter_rows(named=True):
        question, solution = divmod(row["row_number"], 1_000)
        assert row["gold_answer"] == "7"
        assert row["source_id"] == (f"a/{solution}" if question == 0 else None)
        assert "".join(row["steps"]).split() == "".join(texts[question, solution].splitlines()).split()
    assert set(rejected.filter(pl.col("row_number").is_in([2_000, 4_000]))["stage"]) == {"read"}


def test_labels_are_traced_to_the_solution_and_the_policy(done):
    first = Lake.of(done).read("dataset/cpmi_80k")["trajectory_id"].min()
    files = trace(done, str(first)).files
    assert files[SAMPLED].model.startswith("miniature:labeler@")
    assert files[SAMPLED].cost["generated_tokens"] > 0


def asked(monkeypatch, broken_at: int | None = None) -> list[tuple[int, int, int]]:
    """The number of prompts, the first sample and the samples of each that the policy is asked for, call by call.

    Args:
        broken_at: the call that is interrupted.
    """
    calls: list[tuple[int, int, int]] = []
    generate = TransformersEngine.generate

    def counted(self, prompts, sampling, samples, seed, stop="answer", first=0):
        calls.append((len(prompts), first, samples))
        if len(calls) == broken_at:
            raise KeyboardInterrupt
        return generate(self, prompts, sampling, samples, seed, stop, first)

    monkeypatch.setattr(TransformersEngine, "generate", counted)
    monkeypatch.setattr(TransformersEngine, "prepare", lambda self: None)  # its prompts are of no question
    return calls


def test_more_solutions_are_added_and_the_others_keep_their_numbers(tmp_path, monkeypatch):
    before = run(profile(tmp_path, solutions=2, shards=1), ASKED, SAMPLED).read(SAMPLED)
    calls = asked(monkeypatch)
    after = run(profile(tmp_path, solutions=5, shards=1), ASKED, SAMPLED).read(SAMPLED)
    assert calls == [(3, 2, 3)]
    assert after.filter(pl.col("solution") < 2).equals(before)
    assert after.height == 3 * 5


def test_other_steps_are_split_without_sampling_again(tmp_path, monkeypatch):
    settings = profile(tmp_path)
    by_rule = run(settings).read("alignment/trajectories")
    calls = asked(monkeypatch)
    [source] = settings.sources.trajectories
    sources = settings.sources.model_copy(update={"trajectories": (source.model_copy(update={"steps": "paragraph"}),)})
    by_paragraph = run(settings.model_copy(update={"sources": sources})).read("alignment/trajectories")
    assert not calls
    assert by_paragraph["steps"].list.len().max() == 1 < int(by_rule["steps"].list.len().to_numpy().max())


def test_a_question_that_is_added_is_the_only_one_to_be_asked(tmp_path, monkeypatch):
    before = run(profile(tmp_path, shards=8), ASKED, SAMPLED).read(SAMPLED)
    calls = asked(monkeypatch)
    added = {"question": "Sue had 3 coins and found 4 coins. How many coins has she?", "answer": 7}
    after = run(profile(tmp_path, rows=[*QUESTIONS, added], shards=8), ASKED, SAMPLED).read(SAMPLED)
    assert calls == [(1, 0, 3)]
    assert after.filter(pl.col("question_number") < len(QUESTIONS)).equals(before)
    assert after.height == before.height + 3


def test_a_run_that_was_stopped_goes_on_after_the_chunks_it_has(tmp_path, monkeypatch):
    settings = profile(tmp_path, shards=1)
    monkeypatch.setattr(sources, "QUESTIONS_PER_CHUNK", 2)
    calls = asked(monkeypatch, broken_at=2)
    assert run_all(settings, only=(ASKED, SAMPLED)).failures
    stopped = run(settings, SAMPLED).read(SAMPLED)
    assert calls == [(2, 0, 3), (1, 0, 3), (1, 0, 3)]
    at_once = run(profile(tmp_path, shards=1).model_copy(update={"home": tmp_path / "other"}), ASKED, SAMPLED)
    assert at_once.read(SAMPLED).equals(stopped)


def test_what_nobody_samples_makes_nothing_stale(tmp_path):
    (tmp_path / "rows.jsonl").write_text(json.dumps({"question": "1 + 1?", "steps": ["2"], "gold_answer": 2}) + "\n")
    read = {"trajectories": {"path": str(tmp_path / "rows.jsonl")}, "references": [], "benchmarks": {}}
    settings = profile(tmp_path, shards=1, sources=read, models={})
    lake = run(settings, ROWS, "sources/reference_problems", "alignment")
    run(settings, ASKED, SAMPLED)
    assert [lake.record(key, "000").notes for key in (ASKED, SAMPLED)] == [[sources.NOT_SAMPLED]] * 2
    run(settings, "selection")  # refuses what is stale
    models = settings.models.model_copy(update={"policy": LanguageModel(**POLICY)})
    other = settings.model_copy(update={"models": models})
    states = home_of(other).states()
    assert {states.state(key, "000") for key in (ROWS, "alignment/trajectories")} == {CURRENT}


def test_solutions_that_are_cut_are_rejected_with_what_to_raise(tmp_path):
    sample = {"questions": {"path": "./questions.jsonl"}, "solutions": 1, "sampling": {"max_new_tokens": 3}}
    own = {"trajectories": {"sample": sample}, "references": [], "benchmarks": {}}
    settings = profile(tmp_path, rows=QUESTIONS[:1], shards=1, sources=own)
    short = SOLUTIONS.model_copy(update={"max_new_tokens": 3})  # what is not given has its default
    assert settings.sources.sample == SolutionSampling(solutions=1, sampling=short)
    rejected = run(settings, "sources", "alignment").read("alignment/rejected_rows")
    assert rejected["reason"].to_list() == ["the policy's solution was cut at 3 tokens; raise `max_new_tokens`"]


def test_judged_steps_of_sampled_solutions_are_a_truth(tmp_path):
    judged = {"trajectory_id": "t000000001", "rewards": [1], "judged": [0], "source_id": None}
    (tmp_path / "own_labels.jsonl").write_text(json.dumps(judged) + "\n")
    settings = profile(tmp_path, shards=1)
    truth = TrajectorySource(path=str(tmp_path / "own_labels.jsonl"))
    sources = settings.sources.model_copy(update={"step_truth": (truth,)})
    lake = run(settings.model_copy(update={"sources": sources}), "sources/step_truth")
    assert lake.read("sources/step_truth")["row_number"].to_list() == [1]


def test_a_pilot_samples_no_more_questions_than_it_labels(tmp_path):
    settings = profile(tmp_path).limited(4)
    assert settings.sources.trajectories[0].limit == 2
    assert settings.selection.trajectories == 4


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        ({"trajectories": {"sample": {"solutions": 2}}}, "`sample` needs its `questions`"),
        ({"trajectories": [{"path": "a.jsonl"}, {"sample": ASK}]}, "solutions are sampled from one source"),
        ({"trajectories": {"sample": ASK}, "step_truth": {"sample": ASK}}, "step_truth is read"),
        ({"trajectories": {"path": "a.jsonl", "sample": ASK}}, "`path` and `sample` are given, and name two"),
        ({"trajectories": {"sample": ASK | {"solutions": 0}}}, "greater than or equal to 1"),
        ({"trajectories": {"sample": ASK | {"temperature": 1}}}, "sample.temperature` is not a setting"),
    ],
)
def test_what_cannot_be_sampled_is_refused(tmp_path, sources, said):
    with pytest.raises(SettingsError, match=said):
        profile(tmp_path, sources=sources)


def test_a_policy_is_needed(tmp_path):
    with pytest.raises(SettingsError, match=r"models\.policy is missing, and sources\.trajectories samples solutions"):
        profile(tmp_path, models={})


def test_the_card_names_the_questions_and_who_wrote_the_solutions(done):
    lake = Lake.of(done)
    assert origins_of(done, "cpmi") == {"questions: questions.jsonl": ""}
    assert made_with(lake, done, "cpmi")["wrote the solutions"] == lake.record(SAMPLED, "000").model
