"""The world's files: determinism, the real fields, questions kept apart."""

import json
from collections import Counter
from pathlib import Path

import pytest
from sample_problems import SMALL

from cpmi_dagster.miniature import WORLD_FILES, write_world
from cpmi_dagster.miniature.held_out import is_held_out

FIELDS = {
    "math_shepherd": {"input", "label", "task"},
    "step_truth": {"row_number", "correct", "kind", "operations_left"},
    "gsm8k_train": {"question", "answer"},
    "math_train": {"problem", "level", "type", "solution"},
    "gsm8k_test": {"question", "answer"},
    "math500_test": {"problem", "solution", "answer", "subject", "level", "unique_id"},
    "omni_math_test": {"domain", "difficulty", "problem", "solution", "answer", "source"},
    "mmlu_stem_test": {"question", "type", "choices", "answer"},
    "folio_validation": {"premises", "premises-FOL", "conclusion", "conclusion-FOL", "label"},
    "logiqa2_test": {"id", "answer", "text", "question", "options", "type"},
    "logicnli_test": {"id", "facts", "rules", "statements", "labels"},
    **{
        f"processbench_{subset}": {"id", "generator", "problem", "steps", "final_answer_correct", "label"}
        for subset in ("gsm8k", "math", "olympiadbench", "omnimath")
    },
    "prmbench": {
        "original_question", "modified_question", "original_process", "modified_process", "modified_steps",
        "error_steps", "reason", "idx", "question", "classification",
    },
}  # fmt: skip


LOGIC = ("folio_validation", "logiqa2_test", "logicnli_test")
SOLVED = [name for name in FIELDS if name not in ("math_shepherd", "step_truth", *LOGIC)]


def read(folder: Path, name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / WORLD_FILES[name]).read_text(encoding="utf-8").splitlines()]


def questions(folder: Path, name: str) -> set[str]:
    return {str(row.get("question") or row["problem"]) for row in read(folder, name)}


@pytest.mark.parametrize("name", WORLD_FILES)
def test_rows_have_the_fields_of_the_real_source(small_world, name):
    rows = read(small_world, name)
    assert rows
    assert all(set(row) == FIELDS[name] for row in rows)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_another_world(small_world, tmp_path):
    write_world(tmp_path, seed=3, size=SMALL)
    assert {path.name for path in small_world.iterdir()} == set(WORLD_FILES.values())
    for file in WORLD_FILES.values():
        assert (tmp_path / file).read_bytes() == (small_world / file).read_bytes()
    (tmp_path / "other").mkdir()
    write_world(tmp_path / "other", seed=4, size=SMALL)
    assert not questions(tmp_path / "other", "gsm8k_train") & questions(small_world, "gsm8k_train")


def test_no_question_is_in_two_files_and_every_one_is_held_out_from_training(small_world):
    sets = [questions(small_world, name) for name in SOLVED]
    assert sum(map(len, sets)) == len(set().union(*sets))
    assert all(map(is_held_out, set().union(*sets)))


def test_no_logic_problem_occurs_twice(small_world):
    rows = [json.dumps(row, sort_keys=True) for name in LOGIC for row in read(small_world, name)]
    assert len(set(rows)) == len(rows)


def test_math_shepherds_questions_are_among_the_references(small_world):
    references = questions(small_world, "gsm8k_train") | questions(small_world, "math_train")
    rows = read(small_world, "math_shepherd")
    for truth in read(small_world, "step_truth"):
        question = str(rows[int(str(truth["row_number"]))]["input"]).split(" Step 1: ")[0]
        assert question.replace("  ", " ") in references


def test_half_of_processbench_is_right(small_world):
    for name in WORLD_FILES:
        if name.startswith("processbench"):
            assert sum(row["label"] == -1 for row in read(small_world, name)) == SMALL.processbench // 2


def test_prmbench_has_three_questions_for_each_row_of_a_category(small_world):
    rows = read(small_world, "prmbench")
    assert len({row["original_question"] for row in rows}) == 3 * SMALL.prmbench
    assert set(Counter(row["classification"] for row in rows).values()) == {SMALL.prmbench}
    assert set(Counter(row["idx"] for row in rows).values()) == {3}
