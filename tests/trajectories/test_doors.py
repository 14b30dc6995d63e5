"""A row is the same trajectory by every door: a run, `label`, `score`, `judge`, from a file and from Python."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cpmi_dagster import label
from cpmi_dagster.contracts.contexts import PAPERS
from cpmi_dagster.definitions import read_file
from cpmi_dagster.scoring.trajectories import score_in_full
from cpmi_dagster.trajectories.given_rows import read_table
from cpmi_dagster.trajectories.rows import number_rows

QUESTION, STEPS = "Zoë has 3 hats and buys 2. How many has she?", ["3 + 2 = 5.", "So she has 5. The answer is: 5"]
TEXT, MODEL = "\n\n".join(STEPS), "miniature:labeler"
FORMS: dict[str, dict[str, Any]] = {
    "Math-Shepherd": {
        "input": f"{QUESTION} Step 1: {STEPS[0]} ки\nStep 2: {STEPS[1]} ки",
        "label": f"{QUESTION} Step 1: {STEPS[0]} +\nStep 2: {STEPS[1]} -",
    },
    "TRL": {"prompt": QUESTION, "completions": STEPS, "labels": [True, False]},
    "PRM800K": {
        "question": {"problem": QUESTION},
        "label": {
            "steps": [
                {"completions": [{"text": STEPS[0], "rating": 1}], "chosen_completion": 0},
                {"completions": [{"text": STEPS[1], "rating": -1}], "chosen_completion": None},
            ]
        },
    },
    "ProcessBench": {"problem": QUESTION, "steps": STEPS, "label": 1},
    "PRMBench": {"modified_question": QUESTION, "modified_process": STEPS, "error_steps": [2]},
    "question and steps": {"question": QUESTION, "steps": STEPS},
    "problem and steps": {"problem": QUESTION, "steps": STEPS},
    "steps as text": {"question": QUESTION, "steps": json.dumps(STEPS)},
    "list in a solution": {"question": QUESTION, "solution": json.dumps(STEPS)},
    "chat": {"messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": TEXT}]},
    "ShareGPT": {"conversations": [{"from": "human", "value": QUESTION}, {"from": "gpt", "value": TEXT}]},
    "solution": {"question": QUESTION, "response": TEXT},
    "ends of steps": {"question": QUESTION, "response": f"{'<extra_0>'.join(STEPS)}<extra_0>"},
    "verdicts": {"question": QUESTION, "steps": [f"{STEPS[0]} +", f"{STEPS[1]} -"]},
}


def changed(value: Any, before: str, after: str) -> Any:
    """A value with its texts, at any depth, between two others."""
    if isinstance(value, str):
        return f"{before}{value}{after}"
    if isinstance(value, dict):
        return {
            name: changed(inner, before, after) if name not in ("role", "from") else inner
            for name, inner in value.items()
        }
    return [changed(inner, before, after) for inner in value] if isinstance(value, list) else value


def by_every_door(row: dict[str, Any], folder: Path) -> list[pl.DataFrame]:
    """The trajectory as a run reads it, from JSON Lines, Parquet, a list of dicts and a polars frame."""
    (folder / "rows.jsonl").write_text(
        "\ufeff" + json.dumps(row, ensure_ascii=False) + "\r\n", encoding="utf-8", newline=""
    )
    given = [read_file(str(folder / "rows.jsonl"), []), read_table([row])]
    if not isinstance(row.get("label"), dict):  # a list of structs has every field in every row
        frame = pl.DataFrame([row])
        frame.write_parquet(folder / "rows.parquet")
        given += [read_file(str(folder / "rows.parquet"), []), read_table(frame)]
    run = number_rows([row], 0, 1).drop("shard")
    return [run, *(each.trajectories.select(run.columns) for each in given)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("before", "after"), [("", ""), ("  ", " "), ("\t", "\t\n"), ("", "\r\n"), ("\ufeff", "\u200b")], ids=repr
)
def test_every_form_is_one_trajectory_by_every_door(form, before, after, tmp_path):
    is_text = form in ("steps as text", "list in a solution", "Math-Shepherd", "ends of steps")
    row = changed(FORMS[form], "" if is_text else before, "" if is_text else after) | {
        "id": "a",
        "gold_answer": " 5 ",
        "note": None,
    }
    first, *others = by_every_door(row, tmp_path)
    assert first["defect"].item() is None
    assert all(each.equals(first) for each in others)
    expected = {"question": QUESTION, "steps": STEPS, "gold_answer": "5", "final_answer": "5", "source_id": "a"}
    assert first.select(*expected).row(0, named=True) == expected


def test_composed_and_decomposed_letters_stay_as_they_were_given(tmp_path):
    for text in ("Zo\u00eb has 3. How many?", "Zoe\u0308 has 3. How many?"):
        first, *others = by_every_door({"question": text, "steps": ["3"], "gold_answer": "3"}, tmp_path)
        assert first["question"].item() == text and all(each.equals(first) for each in others)


def test_blanks_change_no_figure_of_any_door(tmp_path):
    plain = {"question": QUESTION, "steps": STEPS, "gold_answer": "5", "negative_answers": ["6", "1"]}
    blank = {name: changed(value, " \t", "\r\n") for name, value in plain.items()}
    expected = label([plain], MODEL)[0]["rewards"]["cpmi"]
    assert label([blank], MODEL)[0]["rewards"]["cpmi"] == expected
    (tmp_path / "rows.jsonl").write_text(json.dumps(blank))
    for given in ([plain], [blank], read_file(str(tmp_path / "rows.jsonl"), [])):
        scores = score_in_full(given, MODEL).scores.filter(conditioning=PAPERS)
        means = scores.group_by("step_index", maintain_order=True).agg(pl.mean("cpmi"))["cpmi"].to_list()
        assert means == pytest.approx(expected, abs=1e-6)
