"""The reward function of reinforcement learning: outcome and steps of completions, as TRL and verl ask for them."""

import json
import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from toy_models import random_reward_model

from cpmi_dagster import explode_steps, judge, label, reward_function
from cpmi_dagster.errors import ScoringError, SettingsError
from cpmi_dagster.models.language_models import load_language_model
from cpmi_dagster.trajectories.steps import split_steps

ROOT = Path(__file__).resolve().parents[2]
TRL_PYTHON = ROOT / ".venv-trl" / "bin" / "python"
QUESTION = "Ann has 3 hats and buys 2. How many has she?"
RIGHT, WRONG = "3 + 2 = 5.\n\nThe answer is: $5.00", "3 - 2 = 1.\nThe answer is: 1"
PROMPTS, COMPLETIONS, GOLDS, WRONGS = [QUESTION] * 2, [RIGHT, WRONG], ["5", "5"], [["6", "1"]] * 2


@pytest.fixture(scope="module")
def labeler():
    return load_language_model("miniature:labeler", dtype="float32", device="cpu")


def test_steps_have_the_rewards_of_label_and_the_outcome_is_the_final_answer(labeler):
    reward = reward_function(labeler, outcome_weight=2.0, step_weight=0.5, over_steps="min")
    right, wrong = reward.in_parts(PROMPTS, COMPLETIONS, gold_answer=GOLDS, negative_answers=WRONGS)
    rows = [
        {"question": QUESTION, "steps": split_steps(text), "gold_answer": "5", "negative_answers": WRONGS[0]}
        for text in COMPLETIONS
    ]
    expected = explode_steps(label(rows, labeler, ["cpmi"]))["reward"].to_list()
    assert [*right.steps, *wrong.steps] == pytest.approx(expected, abs=1e-5)
    assert (right.outcome, wrong.outcome) == (1.0, 0.0)
    assert right.total == pytest.approx(2.0 + 0.5 * min(right.steps))
    assert wrong.total == pytest.approx(0.5 * min(wrong.steps))


def test_what_stands_after_the_thoughts_is_the_outcome(labeler):
    thought, said = "The answer is: 5. Or is one lost?", "She has **4** hats."
    message = {"role": "assistant", "reasoning_content": thought, "content": said}
    completions = [f"<think>{thought}</think>{said}", f"<think>{thought}"]
    of_texts = reward_function(labeler, step_weight=0).in_parts([QUESTION] * 2, completions, gold_answer=["5", "5"])
    [of_chat] = reward_function(labeler, step_weight=0).in_parts([QUESTION], [[message]], gold_answer=["5"])
    assert [each.outcome for each in (*of_texts, of_chat)] == [0.0, None, 0.0]


def test_wrong_answers_that_equal_the_gold_answer_do_not_count(labeler):
    reward = reward_function(labeler)
    given = [["5.0", "6", "1", "12/2"], ["10/2"]]
    first, second = reward.in_parts(PROMPTS, COMPLETIONS, gold_answer=GOLDS, negative_answers=given)
    expected = reward.in_parts(PROMPTS, COMPLETIONS, gold_answer=GOLDS, negative_answers=WRONGS)[0]
    assert first.steps == pytest.approx(expected.steps, abs=1e-5) and second.steps == []


def test_a_completion_without_an_answer_fares_like_one_with_a_wrong_answer(labeler, caplog):
    reward = reward_function(labeler, "right_so_far", outcome_weight=0)
    none, wrong, right = reward.in_parts(
        [QUESTION] * 3, ["3 + 2 = 5.\nDone.", *COMPLETIONS[::-1]], gold_answer=["5"] * 3
    )
    assert [none.steps[-1], wrong.steps[-1]] == pytest.approx([0, 0], abs=1e-9), "an error is somewhere"
    assert right.steps[-1] > 0.5 and not caplog.records


def test_a_reward_model_gives_the_probabilities_of_judge():
    model = random_reward_model(context=512)
    right, wrong = reward_function(model).in_parts(PROMPTS, COMPLETIONS, gold_answer=GOLDS)
    rows = [{"question": QUESTION, "steps": split_steps(text)} for text in COMPLETIONS]
    judged = [probability for row in judge(rows, model) for probability in row["probabilities"]]
    assert [*right.steps, *wrong.steps] == pytest.approx(judged, abs=1e-6)


def test_a_completion_has_the_same_reward_whatever_form_and_batch_it_comes_in(labeler):
    reward = reward_function(labeler)
    expected = reward(prompts=PROMPTS, completions=COMPLETIONS, gold_answer=GOLDS)
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    answers = [[{"role": "assistant", "content": [{"type": "text", "text": text}]}] for text in COMPLETIONS]
    assert reward([chat] * 2, answers, gold_answer=[5, 5]) == pytest.approx(expected, abs=1e-5)
    shared = [[{"from": "gpt", "value": text}] for text in COMPLETIONS]
    asked = np.array([[{"from": "human", "value": QUESTION}]] * 2)
    assert reward(asked, shared, gold_answer=np.array(GOLDS)) == pytest.approx(expected, abs=1e-5)
    assert reward(["Solve: …"] * 2, COMPLETIONS, gold_answer=GOLDS, question=PROMPTS) == expected
    alone = [reward([QUESTION], [text], gold_answer=["5"])[0] for text in COMPLETIONS]
    assert alone == pytest.approx(expected, abs=1e-5)
    extras = [{"question": QUESTION}] * 2
    assert reward.compute_scores(["gsm8k"] * 2, COMPLETIONS, GOLDS, extras) == expected
    assert reward.compute_score("gsm8k", RIGHT, "5", extras[0]) == pytest.approx(expected[0], abs=1e-5)


def test_what_cannot_be_scored_has_its_outcome_alone_and_is_logged(labeler, caplog):
    logged = {}
    reward = reward_function(labeler)
    long = "So " * 3000 + "\nThe answer is: 5"
    right, empty, long = reward(
        [QUESTION] * 3, [RIGHT, " \n", long], gold_answer=["5"] * 3, log_metric=logged.__setitem__, trainer_state=None
    )
    assert (empty, long) == (0.0, 1.0) and right > 1
    assert "2 of 3 completions have no step rewards" in caplog.text
    assert logged == pytest.approx(
        {
            "cpmi_reward/outcome": 1,
            "cpmi_reward/no_answer": 1 / 3,
            "cpmi_reward/steps": right - 1,
            "cpmi_reward/unscored": 2 / 3,
        }
    )


def test_a_final_answer_or_gold_answer_that_is_not_found_is_neither_right_nor_wrong(labeler, caplog):
    reward = reward_function(labeler)
    rows = reward.in_parts(
        [QUESTION] * 6,
        [RIGHT, "So it is more.", *[RIGHT] * 4],
        gold_answer=[5.0, "5", "nan", "6", True, "She has 5.\n#### 5"],
    )
    assert [row.outcome for row in rows] == [1.0, None, None, 0.0, None, 1.0]
    assert [len(row.steps) for row in rows] == [2, 1, 0, 2, 0, 2]
    assert "2 of 6 completions have no step rewards: completion 3: has no gold answer" in caplog.text


def test_a_call_without_gold_answers_and_a_reward_that_needs_more_are_refused(labeler):
    reward = reward_function(labeler)
    with pytest.raises(ScoringError, match="there are no gold answers in `gold_answer`; add it"):
        reward(PROMPTS, COMPLETIONS, answer=GOLDS)
    with pytest.raises(SettingsError, match="`mc` needs more"):
        reward_function(labeler, reward="mc")


@pytest.mark.slow
def test_trl_trains_ten_steps_of_grpo_with_it():
    if not (TRL_PYTHON.exists() or find_spec("trl")):
        pytest.skip("TRL is not installed; `make test-trl` makes an environment of its own and runs this there")
    python = str(TRL_PYTHON) if TRL_PYTHON.exists() else sys.executable
    script, rows = Path(__file__).with_name("grpo_run.py"), ROOT / "docs" / "examples" / "trajectories.jsonl"
    done = subprocess.run([python, str(script), str(rows)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout.splitlines()[-1])
    steps = [entry for entry in printed["log"] if "loss" in entry]
    assert [later["step"] - earlier["step"] for earlier, later in pairwise(steps)] == [1] * 9
    assert printed["moved"] > 0 and all(entry["cpmi_reward/unscored"] == 0 for entry in steps)
    for entry in steps:
        parts = entry["cpmi_reward/outcome"] + entry["cpmi_reward/steps"]
        assert entry["rewards/cpmi_reward/mean"] == pytest.approx(parts, abs=1e-5)
