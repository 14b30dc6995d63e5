"""Hard negatives: model samples first, then edits of the gold answer, all wrong and all different."""

import polars as pl
import pytest

from cpmi_dagster.answers.verdicts import is_equivalent
from cpmi_dagster.contracts.tables import HardNegatives
from cpmi_dagster.generation.engine import Generation
from cpmi_dagster.negatives.hard_negatives import (
    HardNegative,
    choose_negatives,
    clean_sample,
    hard_negatives,
    heuristic_negatives,
)
from cpmi_dagster.negatives.settings import Negatives
from cpmi_dagster.trajectories.templates import render_negative_prompt, render_question

GOLDS = [
    "18", "0", "1", "-4", "1234567", "3.50", "0.5", r"1,\!250", r"\$18.90", "75\\%", r"120^\circ", "10 \\text{ cm}",
    r"\frac{2}{3}", r"\frac12", r"-\dfrac{7}{4}", "7/8", r"14\frac{6}{7}", r"2\sqrt{5}", r"\frac{\sqrt{3}}{2}", r"\pi",
    r"4\pi", "(3, -2)", r"\left( 3, \frac{\pi}{2} \right)", "[2, 5)", r"(-\infty, 3]", r"(-\infty,\infty)", "1, -2, 5",
    r"\begin{pmatrix} 1 & 0 \\ -2 & 3 \end{pmatrix}", "x^2 - 3x + 1", "(x+1)(x-2)", "y = 2x - 1", "n", "-i", "3 + 4i",
    "422_8", "05:30", r"\text{(C)}", "B", r"\text{Sunday}", r"\text{odd}", r"\text{Evelyn}", r"\text{A,B,E}",
    "CBAD", "no",
]  # fmt: skip


@pytest.mark.parametrize("gold", GOLDS)
def test_every_kind_of_answer_has_four_different_wrong_answers(gold: str):
    found = [negative.answer for negative in heuristic_negatives(gold, 4, seed=0)]
    assert len(found) == len(set(found)) == 4
    for position, answer in enumerate(found):
        assert not is_equivalent(gold, answer)
        assert not any(is_equivalent(other, answer) for other in found[:position])


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (" 20\nBecause", "20"),
        ("The answer is: 21.", "21"),
        ("the answer is The answer is: 7", "7"),
        ("", None),
        ("\n20", None),
        ("x" * 33, None),
        ("  3.5 ", "3.5"),
        (" .5.", ".5"),
        (r"$\frac{1}{2}$.", r"\frac{1}{2}"),
        (r"\boxed{7}", "7"),
        (r"\boxed{7} hats", "7"),
        (r"\(20\)", "20"),
        ("$$20$$", "20"),
        (r"\[20\]", "20"),
        ("**20**", "20"),
        (r"\fbox{20}", "20"),
        (r"$\boxed{20}$", "20"),
        (r"**The answer is: $20$.**", "20"),
        ("$20", "$20"),
        ("[2, 5)", "[2, 5)"),
        (r"\frac{1}{", None),
        ("16=<<12-8=<<16+6", None),
        ("3+4=", None),
        ("x=5", "x=5"),
        ("x^2+y^2=4", "x^2+y^2=4"),
    ],
)
def test_a_sample_is_cut_to_its_first_line(text: str, answer: str | None):
    assert clean_sample(text, max_characters=32) == answer


def test_model_samples_come_first_and_what_equals_the_gold_is_dropped():
    samples = ["20\nBecause", "18.0", "The answer is: 21.", "20", "", r"\frac{40}{2}"]
    chosen = choose_negatives("18", samples, Negatives(), seed=0)
    assert chosen[:2] == [HardNegative("20", "model"), HardNegative("21", "model")]
    assert len(chosen) == 4
    assert all(negative.source.startswith("plus_minus") for negative in chosen[2:])


class ScriptedEngine:
    """Answers every prompt with its gold answer, its length and what the script adds; keeps what it was asked for."""

    identity = "scripted"

    def __init__(self, *more: str) -> None:
        self.more = more
        self.asked: list[tuple] = []

    def prepare(self):
        pass

    def generate(self, prompts, sampling, samples, seed, stop="answer", first=0):
        self.asked.append((prompts, sampling, samples, seed, stop))
        texts = [["12", f"{len(prompt)}.\nmore", *self.more] for prompt in prompts]
        return [[Generation(text, 3, False, prompt_tokens=10) for text in group] for group in texts]


def some_trajectories(count: int, repeated: bool = False) -> pl.DataFrame:
    """Trajectories of one question, of growing length or all with the same steps."""
    steps = [["5 + 7 = 12."] * (1 if repeated else number + 1) for number in range(count)]
    return pl.DataFrame(
        {
            "trajectory_id": [f"t{number:09d}" for number in range(count)],
            "question": ["What is 5 + 7?"] * count,
            "steps": steps,
            "gold_answer": ["12"] * count,
        }
    )


@pytest.mark.parametrize("repeated", [False, True])
def test_negatives_of_a_trajectory_do_not_depend_on_its_neighbours(repeated: bool):
    trajectories, settings_ = some_trajectories(5, repeated), Negatives(samples=2)
    whole = hard_negatives(trajectories, ScriptedEngine(), settings_, seed=7)
    parts = [
        hard_negatives(trajectories[start : start + 2], ScriptedEngine(), settings_, seed=7) for start in (0, 2, 4)
    ]
    assert whole.negatives.equals(pl.concat([part.negatives for part in parts]))
    assert whole.negatives.schema == HardNegatives.create_empty().schema
    assert whole.negatives["rank"].to_list() == [1, 2, 3, 4] * 5
    assert whole.negatives["source"].to_list()[::4] == ["model"] * 5
    prompts = 1 if repeated else 5
    assert (whole.cost.forward_tokens, whole.cost.generated_tokens) == (prompts * 16, prompts * 6)


@pytest.mark.parametrize("sees", ["solution", "question"])
def test_no_negative_is_the_gold_answer_whatever_the_labeler_is_shown(sees):
    engine, asked = ScriptedEngine("12.0", r"\frac{24}{2}", "13"), Negatives(sees=sees)
    found = hard_negatives(some_trajectories(3), engine, asked, seed=7).negatives
    assert not any(is_equivalent("12", answer) for answer in found["answer"])
    assert found.group_by("trajectory_id").len()["len"].to_list() == [4, 4, 4]


def test_shown_the_question_alone_the_labeler_reads_neither_the_gold_answer_nor_steps_nor_about_them():
    trajectories, engine = some_trajectories(3), ScriptedEngine()
    found = hard_negatives(trajectories, engine, Negatives(sees="question"), seed=7).negatives
    (((prompt,), *_),) = engine.asked
    assert prompt == f"{render_question('What is 5 + 7?')}The answer is: "
    assert not any(text in prompt for text in ("12", "Gold", "incorrect", *trajectories["steps"].explode()))
    sampled = found.filter(source="model").group_by("trajectory_id", maintain_order=True).agg("answer")["answer"]
    assert sampled.to_list() == [[f"{len(prompt)}"]] * 3


def test_the_model_is_asked_once_for_all_with_the_released_settings():
    engine = ScriptedEngine()
    hard_negatives(some_trajectories(3), engine, Negatives(), seed=7)
    ((prompts, sampling, samples, seed, stop),) = engine.asked
    assert (len(prompts), samples, seed, stop) == (3, 8, 7, "line")
    assert (sampling.temperature, sampling.top_p, sampling.max_new_tokens) == (1.05, 0.9, 24)
    assert sampling.top_k == 0
    assert (Negatives().count, Negatives().max_answer_characters) == (4, 32)


def test_the_prompt_is_that_of_the_appendix():
    assert render_negative_prompt("What is 5 + 7?", ["5 + 7 = 13. ", "So 13."], "12") == (
        "You are a careful math solver. Follow the steps methodically. Keep each step concise.\n"
        "At the end, output exactly one line in the format:\n"
        "The answer is: <final answer>\n\n"
        "Problem:\nWhat is 5 + 7?\n"
        "Solution: Let's think step by step.\n"
        "\n(Gold answer: 12)\n\n"
        "Generate several plausible but incorrect answers to the given question. Identify any wrong step and take that "
        "step's wrong computed result or the mistaken number used in it as a hard-negative example. Try to include all "
        "earlier steps' wrong intermediate outputs if possible. If all steps seem correct, return a plausible wrong "
        "number (±1, ±2, or ±10%).\n\n"
        "Output exactly one short line after 'The answer is:' no units or words. \n"
        "\n5 + 7 = 13.\nSo 13.\nThe answer is: "
    )


def test_samples_that_repeat_one_another_in_other_notation_count_once():
    more = ("13.0", r"$\frac{26}{2}$", r"\boxed{14}", "14 because 5 + 9 is fourteen and that is all", "15 (", "16\n17")
    result = hard_negatives(some_trajectories(1), ScriptedEngine(*more), Negatives(count=9), seed=0)
    sampled = result.negatives.filter(pl.col("source") == "model")["answer"].to_list()
    assert sampled[1:] == ["13.0", "14", "16"]
    assert result.negatives.height == 9


def test_without_an_engine_all_negatives_are_heuristic():
    done: list[int] = []
    result = hard_negatives(some_trajectories(3), None, Negatives(), seed=0, progress=done.append)
    assert (result.negatives.height, result.short, sum(done)) == (12, [], 3)
    assert "model" not in result.negatives["source"]


def test_the_question_decides_what_can_be_wrong():
    chances = some_trajectories(3).with_columns(
        question=pl.lit("What is the probability of rain?"), gold_answer=pl.lit("0.35")
    )
    answers = hard_negatives(chances, None, Negatives(), seed=0).negatives["answer"]
    assert answers.cast(pl.Float64).is_between(0, 1).all()


def test_a_trajectory_with_too_few_negatives_is_named():
    trajectories = some_trajectories(1).with_columns(gold_answer=pl.lit("?"))
    result = hard_negatives(trajectories, None, Negatives(), seed=0)
    assert result.short == ["t000000000"]
    assert result.negatives.schema == HardNegatives.create_empty().schema
