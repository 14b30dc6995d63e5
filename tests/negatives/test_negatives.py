"""Hard negatives: model samples first, then edits of the gold answer, all wrong and all different."""

import re

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.answers.verdicts import decide, is_equivalent
from cpmi_dagster.contracts.tables import HardNegatives
from cpmi_dagster.generation.engine import Generation
from cpmi_dagster.negatives.hard_negatives import (
    LONGEST_ANSWER,
    TRAJECTORIES_PER_CALL,
    clean_sample,
    hard_negatives,
    heuristic_negatives,
    propose,
)
from cpmi_dagster.negatives.settings import Negatives
from cpmi_dagster.trajectories.templates import render_negative_prompt, render_question

WANTED = 4
PROPER = st.fractions(0, 1, max_denominator=99).filter(lambda value: 0 < value < 1)
FRACTIONS = st.builds(
    lambda value, command: f"{'-' if value < 0 else ''}\\{command}{{{abs(value.numerator)}}}{{{value.denominator}}}",
    st.fractions(-99, 99, max_denominator=99).filter(lambda value: value.denominator > 1),
    st.sampled_from(["frac", "dfrac", "tfrac"]),
)
MIXED = st.builds(
    lambda whole, part: f"{whole}\\frac{{{part.numerator}}}{{{part.denominator}}}", st.integers(1, 99), PROPER
)
IN_BASE = st.integers(2, 9).flatmap(
    lambda base: st.text("0123456789"[:base], min_size=2, max_size=7).map(lambda digits: f"1{digits}_{base}")
)
ANY = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.decimals(-(10**4), 10**4, places=2).map(str),
    st.lists(st.integers(-99, 99), min_size=2, max_size=4).map(lambda entries: f"({', '.join(map(str, entries))})"),
    st.builds(lambda left, length: f"[{left}, {left + length})", st.integers(-50, 50), st.integers(3, 50)),
    st.builds(lambda factor, root: f"{factor}\\sqrt{{{root}}}", st.integers(2, 60), st.sampled_from([2, 3, 5, 7, 11])),
    FRACTIONS,
    MIXED,
    IN_BASE,
)
SEEDS = st.integers(0, 2**48)


def shape(answer: str) -> str:
    """The answer with numbers, signs and kinds of brackets made alike; a coefficient of 1 is not written."""
    plain = re.sub(r"\.?[0-9]+(?:\.[0-9]+)?", "n", answer).replace("-", "")
    return re.sub(r"(?:^|n)(?=\\sqrt)", "n", re.sub(r"[\[(]", "(", re.sub(r"[\])]", ")", plain)))


@settings(max_examples=100)
@given(gold=ANY, seed=SEEDS)
def test_four_different_negatives_of_the_form_of_the_gold_answer(gold: str, seed: int):
    answers = [gold, *(negative.answer for negative in heuristic_negatives(gold, WANTED, seed))]
    assert len(answers) == WANTED + 1
    assert {shape(answer) for answer in answers} == {shape(gold)}
    pairs = [(one, other) for place, one in enumerate(answers) for other in answers[:place]]
    assert [pair for pair in pairs if decide(*pair) is not False] == []


SIGNS = "\\{}[]()_^$%,.:;=<>+-/ 0123456789abxAB\u0663fracsqtpi"


@given(gold=st.text(max_size=40) | st.text(alphabet=SIGNS, max_size=30), seed=SEEDS)
def test_no_text_breaks_the_heuristics(gold: str, seed: int):
    answers = [answer for answer, _ in propose(gold, seed)]
    assert len(answers) == len(set(answers))
    assert gold not in answers
    assert not list(propose(f"{gold}{'1' * LONGEST_ANSWER} 1", seed))


@pytest.mark.parametrize(
    ("gold", "answer", "heuristic"),
    [
        ("18", "19", "plus_minus_1"), ("0.25", "0.24", "last_digit"),
        (r"(6,235^\circ)", r"(6,236^\circ)", "inner_number"), (r"\frac{2}{3}", r"\frac{3}{2}", "fraction_swap"),
        ("x^2 - 3x", "x^2 + 3x", "operator_substitution"), (r"(-\infty,\infty)", r"(0,\infty)", "half_line"),
        (r"\text{odd}", r"\text{even}", "word"),
    ],
)  # fmt: skip
def test_heuristics_make_the_mistake_they_are_named_for(gold: str, answer: str, heuristic: str):
    assert (answer, heuristic) in list(propose(gold, seed=0))


# gold answers of kinds that are no numbers, and what their negatives are written with
GOLDS = {
    r"\$18.90": r"\$", r"6.02 \times 10^{23}": r"\times 10^{", r"50\%": r"\%", r"(-\infty,\infty)": ",",
    r"\begin{pmatrix} 1 & 0 \\ -2 & 3 \end{pmatrix}": "pmatrix", "y = 2x - 1": "y", "3 + 4i": "i",
    r"\text{(C)}": r"\text{(", r"\text{Sunday}": "day}", r"\text{Evelyn}": "", "no": "",
}  # fmt: skip


@pytest.mark.parametrize("gold", GOLDS)
def test_every_kind_of_answer_has_four_different_wrong_answers_in_its_notation(gold: str):
    found = [negative.answer for negative in heuristic_negatives(gold, 4, seed=0)]
    assert len(found) == len(set(found)) == 4
    assert all(GOLDS[gold] in answer for answer in found)
    for position, answer in enumerate(found):
        assert not any(is_equivalent(other, answer) for other in [gold, *found[:position]])


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (" 20\nBecause", "20"), ("the answer is The answer is: 7", "7"), (r"\boxed{7} hats", "7"),
        (r"**The answer is: $20$.**", "20"), (r"\frac{1}{", None), ("16=<<12-8=<<16+6", None), ("x" * 33, None),
        ("21365, check your answer", "21365"), ("3, 4 and 5", "3, 4 and 5"), ("4, no", "4, no"),
        ("25\\", "25"),
    ],
)  # fmt: skip
def test_a_sample_is_cut_to_its_first_line(text: str, answer: str | None):
    assert clean_sample(text, max_characters=32) == answer


class ScriptedEngine:
    """Answers every prompt with its gold answer, its length and what the script adds; keeps what it was asked for."""

    identity = "scripted"

    def __init__(self, *more: str) -> None:
        self.more = more
        self.asked: list[tuple] = []

    def prepare(self):
        pass

    def generate(self, prompts, draws, work=None):
        self.asked.append((prompts, draws.sampling, draws.samples, draws.seed, draws.stop))
        texts = [["12", f"{len(prompt)}.\nmore", *self.more] for prompt in prompts]
        return [[Generation(text, 3, False, prompt_tokens=10) for text in group] for group in texts]


def some_trajectories(count: int, repeated: bool = False, gold: str = "12", question: str = "What is 5 + 7?"):
    """Trajectories of one question, of growing length or all with the same steps."""
    rows = [
        (f"t{number:09d}", question, ["5 + 7 = 12."] * (1 if repeated else number + 1), gold) for number in range(count)
    ]
    return pl.DataFrame(rows, schema=["trajectory_id", "question", "steps", "gold_answer"], orient="row")


@pytest.mark.parametrize("repeated", [False, True])
def test_negatives_of_a_trajectory_do_not_depend_on_its_neighbours(repeated: bool):
    count = TRAJECTORIES_PER_CALL + 2
    trajectories, settings_ = some_trajectories(count, repeated), Negatives(samples=2)
    whole = hard_negatives(trajectories, ScriptedEngine(), settings_, seed=7)
    parts = [hard_negatives(part, ScriptedEngine(), settings_, seed=7) for part in trajectories.iter_slices(30)]
    assert whole.negatives.equals(pl.concat([part.negatives for part in parts]))
    assert whole.negatives.schema == HardNegatives.create_empty().schema
    assert whole.negatives["rank"].to_list() == [1, 2, 3, 4] * count
    assert whole.negatives["source"].to_list()[::4] == ["model"] * count
    prompts = 4 if repeated else count  # equal prompts of a call are asked once
    assert (whole.cost.forward_tokens, whole.cost.generated_tokens) == (prompts * 16, prompts * 6)


def test_samples_that_repeat_the_gold_answer_or_one_another_in_other_notation_count_once():
    more = ("12.0", r"\frac{24}{2}", "13.0", r"$\frac{26}{2}$", r"\boxed{14}", "14 because 5 + 9 is fourteen", "15 (")
    for sees in ("solution", "question"):
        asked = Negatives(sees=sees, count=9)
        result = hard_negatives(some_trajectories(1), ScriptedEngine(*more), asked, seed=0)
        sampled = result.negatives.filter(source="model")["answer"].to_list()
        assert sampled[1:3] == ["13.0", "14"]
        assert not any(is_equivalent("12", answer) for answer in result.negatives["answer"])
        assert result.negatives.height == 9


def test_shown_the_question_alone_the_labeler_reads_neither_the_gold_answer_nor_steps_nor_about_them():
    trajectories, engine = some_trajectories(3), ScriptedEngine()
    found = hard_negatives(trajectories, engine, Negatives(sees="question"), seed=7).negatives
    (((prompt,), sampling, samples, seed, stop),) = engine.asked
    # asked once for all three, with the released settings
    assert (samples, seed, stop, Negatives().count, Negatives().max_answer_characters) == (8, 7, "line", 4, 32)
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.max_new_tokens) == (1.05, 0.9, 0, 24)
    assert prompt == f"{render_question('What is 5 + 7?')}The answer is: "
    assert not any(text in prompt for text in ("12", "Gold", "incorrect", *trajectories["steps"].explode()))
    sampled = found.filter(source="model").group_by("trajectory_id", maintain_order=True).agg("answer")["answer"]
    assert sampled.to_list() == [[f"{len(prompt)}"]] * 3


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


def test_without_an_engine_all_negatives_are_heuristic_and_a_trajectory_with_too_few_is_named():
    chances = some_trajectories(3, gold="0.35", question="What is the probability of rain?")
    done: list[int] = []
    result = hard_negatives(chances, None, Negatives(), seed=0, progress=lambda count, *_, **__: done.append(count))
    assert (result.negatives.height, result.short, sum(done)) == (12, [], 3)
    assert result.negatives["answer"].cast(pl.Float64).is_between(0, 1).all()
    assert hard_negatives(some_trajectories(1, gold="?"), None, Negatives(), seed=0).short == ["t000000000"]
