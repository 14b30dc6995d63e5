"""Data of one's own through the DAG: rows, labels and judged steps, questions alone, and rows of the real data sets."""

import json
from io import StringIO
from pathlib import Path

import polars as pl
import pytest
import yaml
from rich.console import Console
from small_run import run_all

from cpmi_dagster.assets.reports import figures
from cpmi_dagster.contracts.keys import FIGURES, SAMPLED
from cpmi_dagster.definitions import home_of
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.commands.export import made_with
from cpmi_dagster.resources.commands.summary import left_out
from cpmi_dagster.resources.commands.trace import trace
from cpmi_dagster.resources.dag.making import bring_up_to_date
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.lake.lake import Lake

pytestmark = pytest.mark.usefixtures("published_at_the_end")
LABELER = {"name": "miniature:labeler", "dtype": "float32"}
QUICK = {"extends": "files", "shards": 1, "negatives": {"samples": 0}, "scoring": {"templates": 1}}
SELECTED = ("sources", "alignment", "selection")
LABELLED = (*SELECTED, "labels", "dataset")


def write(folder: Path, name: str, rows: list[dict]) -> dict:
    """Rows as a file beside the profile; returns what the profile says of it."""
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return {"path": f"./{name}"}


def profile(folder: Path, sources: dict, home: str = "home", **changes: object) -> Settings:
    sources = {"references": [], "benchmarks": {}, **sources}
    (folder / "mine.yaml").write_text(yaml.safe_dump({**QUICK, "sources": sources, **changes}), encoding="utf-8")
    return load_settings(folder / "mine.yaml", folder / home)


def run(settings: Settings, *only: str) -> Lake:
    outcome = run_all(settings, only=only)
    assert not outcome.failures, outcome.failures
    return Lake.of(settings)


def solution(number: int, **changes: object) -> dict:
    question = f"Ann has {number} hats and buys 3 more. How many hats has she?"
    steps = [f"She buys 3 hats. {number} + 3 = {number + 3}.", f"The answer is: {number + 3}"]
    return {"id": f"row-{number}", "question": question, "steps": steps, "gold_answer": number + 3, **changes}


@pytest.mark.slow
def test_rows_become_a_data_set_with_their_ids_and_each_gets_the_labels_that_it_has_what_is_needed_for(tmp_path):
    rows = [solution(0, labels=["+", "-"]), *map(solution, (1, 2, 3)), solution(3), solution(7, gold_answer=None)]
    judged = [{"row_number": number, "rewards": [0.9, 0.25]} for number in (0, 1, 2, 3, 5)]
    sources = {
        "trajectories": write(tmp_path, "rows.jsonl", rows),
        "step_labels": {"judge": {**write(tmp_path, "judged.jsonl", judged[:2]), "probabilities": True}},
    }
    types = ["cpmi", "math_shepherd", "step_length"]
    settings = profile(tmp_path, sources, rewards={"types": types}, recipes=[])
    assert any("step labels `judge` lack" in failure for failure in run_all(settings, only=LABELLED).failures)
    assert not Lake.of(settings).has_table("labels/hard_negatives"), "a model was asked before labels were checked"
    write(tmp_path, "judged.jsonl", judged)
    lake = run(settings, *LABELLED)
    assert lake.read("alignment/rejected_rows").select("row_number", "reason").rows() == [
        (4, 'row 4 has the id "row-3" already; give every row its own')
    ]
    refused = lake.read("labels/rejected_trajectories")
    assert refused["trajectory_id"].to_list() == ["t000000005"] and "has no gold answer" in refused["reason"][0]
    assert ("row-7", "has no gold answer") in [
        (row["first"], row["reason"][:18]) for row in left_out(settings).to_dicts()
    ]
    rewards = lake.read("labels/step_rewards")
    assert dict(rewards.group_by("reward_type").len().iter_rows()) == {
        "cpmi": 4 * 2, "math_shepherd": 2, "step_length": 5 * 2, "judge": 5 * 2
    }  # fmt: skip
    assert rewards.filter(reward_type="math_shepherd").sort("step_index")["reward"].to_list() == [1, 0]
    soft = lake.read("dataset/soft_labels").filter(reward_type="judge").sort("trajectory_id", "step_index")
    assert soft["soft_label"].to_list() == [0.9, 0.25] * 5
    data = lake.read("dataset/cpmi_80k").sort("trajectory_id")
    assert data.select("source_id", "task", "gold_answer").rows() == [(f"row-{n}", "OWN", str(n + 3)) for n in range(4)]
    assert trace(settings, "row-2").facts["trajectory"]["match_source"] == "given/train/row-2"


@pytest.mark.slow
def test_labels_of_judged_solutions_are_measured_up_to_the_first_error_and_rollouts_on_their_sample(tmp_path):
    first_errors = [1, -1, 0, 2, 0, -1] * 3  # 27 judged steps are right and 12 wrong
    rows = [
        {"id": f"sums-{n}", "problem": f"{n} + 3?", "label": label,
         "steps": [f"{n} + 3 = {n + 3}.", "That is all.", f"The answer is: {n + 3}"]}
        for n, label in enumerate(first_errors)
    ]  # fmt: skip
    files = [write(tmp_path, "first.jsonl", rows[:3]), write(tmp_path, "second.jsonl", rows[3:])]
    references = write(tmp_path, "references.jsonl", [{"question": f"{n} + 3?", "answer": n + 3} for n in range(18)])
    settings = profile(
        tmp_path, {"trajectories": files, "step_truth": files, "references": [{"source": "sums", **references}]},
        extends="human-steps", profile="own", rewards={"types": ["cpmi", "mc"]},
        models=dict.fromkeys(("labeler", "backbone"), LABELER), benchmarks={"bootstrap_samples": 20},
        rollouts={"sample": 3, "policy_count": 2, "sampling": {"max_new_tokens": 16}},
    )  # fmt: skip
    lake = run(settings, *SELECTED, "labels")
    assert lake.read("sources/step_truth").filter(row_number=4)["correct"].to_list() == [[False, None, None]]
    sampled = lake.read("labels/policy_rollouts")["trajectory_id"].n_unique()
    costs = lake.read("labels/labeling_costs").group_by("method").agg(pl.col("trajectories").sum())
    assert dict(costs.iter_rows()) == {"cpmi": 18, "mc": sampled} and 0 < sampled <= 3
    assert bring_up_to_date(StageRun(figures, home_of(settings), "labels", "r", print))
    quality = lake.read(FIGURES, "labels").filter(column="Label AUC").rows_by_key("row", named=True)
    assert quality["CPMI"][0]["n"] == 27 + 12 > quality["MC"][0]["n"]


@pytest.mark.slow
def test_judgements_are_found_by_id_and_checked_before_a_model_is_asked_and_one_that_does_not_fit_ends_no_run(tmp_path):
    judged = [{"id": "row-2", "first_error": 1}, {"id": "row-9", "first_error": 0}, {"id": "row-0", "first_error": -1}]
    sources = {
        "trajectories": write(tmp_path, "rows.jsonl", [solution(number) for number in range(4)]),
        "step_truth": write(tmp_path, "judged.jsonl", judged[1:2]),
    }
    settings = profile(tmp_path, sources, rewards={"types": ["cpmi"]}, recipes=[], shards=2)
    (failure,) = run_all(settings, only=LABELLED).failures
    assert 'no trajectory has the id "row-9"; the trajectories have ids such as "row-' in failure
    assert not Lake.of(settings).has_table("labels/hard_negatives"), "a model was asked before judgements were checked"
    write(tmp_path, "judged.jsonl", judged)
    lake, said = Lake.of(settings), StringIO()
    assert not run_all(settings, only=SELECTED, console=Console(file=said, width=300)).failures
    note = '2 of 3 judged rows of sources.step_truth fit; row 2: no trajectory has the id "row-9"'
    assert note in said.getvalue()
    truth = lake.read("sources/step_truth").select("row_number", "correct").rows()
    assert truth == [(2, [True, False]), (0, [True, True])]
    rejected = left_out(settings).to_dicts()
    assert rejected == [{"reason": note.partition(": ")[2], "count": 1, "first": "row 2 of sources.step_truth"}]


QUESTIONS = [
    {"id": "a", "question": "Ann has 4 hats and buys 3 more. How many hats has she?", "answer": "4 + 3 = 7\n#### 7"},
    {"problem": "Bob has 9 pens and loses 2 pens. How many pens has he?", "gold_answer": 7},
    {"id": "c", "question": ["no", "text"]},
    {"text": "What?"},
]
SAMPLING = {"temperature": 0.7, "top_p": 0.95, "max_new_tokens": 96}


def sampling(folder: Path, solutions: int, rows: list[dict] = QUESTIONS, **changes: object) -> Settings:
    sample = {"questions": write(folder, "questions.jsonl", rows), "solutions": solutions, "sampling": SAMPLING}
    return profile(folder, {"trajectories": {"sample": sample}}, models={"policy": LABELER}, **changes)


@pytest.mark.slow
def test_solutions_of_questions_become_trajectories_and_the_policy_is_asked_for_each_once(tmp_path, monkeypatch):
    calls, generate = [], TransformersEngine.generate

    def counted(self, prompts, draws, work=None):
        calls.append((len(prompts), draws.first, draws.samples))
        return generate(self, prompts, draws)

    monkeypatch.setattr(TransformersEngine, "generate", counted)
    monkeypatch.setattr(TransformersEngine, "prepare", lambda self: None)  # its prompts are of no question
    assert sampling(tmp_path, 3).limited(4).sources.trajectories[0].limit == 2, "a pilot samples what it labels"
    settings = sampling(tmp_path, 2)
    before = run(settings, "sources/questions", SAMPLED).read(SAMPLED)
    added = {"question": "Sue had 3 coins and found 4 coins. How many coins has she?", "answer": 7}
    lake = run(sampling(tmp_path, 3, [*QUESTIONS, added]), *LABELLED)
    assert calls[:1] == [(2, 0, 2)] and sorted(calls[1:]) == [(1, 0, 3), (2, 2, 1)]
    sampled, defects = lake.read(SAMPLED), lake.read("sources/questions").drop_nulls("defect")
    assert sampled.join(before, on=before.columns, how="semi").height == before.height == 4
    assert sampled.group_by("question_number").len().sort("question_number").rows() == [(0, 3), (1, 3), (4, 3)]
    assert dict(defects.select("question_number", "defect").rows()) == {
        2: "`question`: it is a list of 2; give one text",
        3: "the row has columns text; it needs a text in question or problem or prompt",
    }
    trajectories, rejected = lake.read("alignment/trajectories"), lake.read("alignment/rejected_rows")
    assert trajectories.height + rejected.height == sampled.height + 2
    texts = {(row["question_number"], row["solution"]): row["text"] for row in sampled.iter_rows(named=True)}
    for row in trajectories.iter_rows(named=True):
        question, number = divmod(row["row_number"], 1_000)
        assert row["gold_answer"] == "7"
        assert row["source_id"] == (f"a/{number}" if question == 0 else None)
        assert "".join(row["steps"]).split() == "".join(texts[question, number].splitlines()).split()
    assert made_with(lake, settings, "cpmi")["wrote the solutions"].startswith("miniature:labeler@")
