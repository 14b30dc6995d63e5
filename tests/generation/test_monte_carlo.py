"""Rollouts of every prefix, graded; a rollout depends on its prefix and number alone (Eq. 1)."""

from functools import partial

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.contracts.tables import Rollouts
from cpmi_dagster.generation.engine import Generation
from cpmi_dagster.generation.monte_carlo import TRAJECTORIES_PER_CALL, prefix_rollouts, sample_trajectories
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.trajectories.templates import render_context, render_question

SAMPLING = Sampling(temperature=0.6, top_p=0.95, top_k=20, max_new_tokens=16)
STEPS = ["4 / 2 = 2", "2 + 1 = 3. The answer is: 3"]


class ScriptedEngine:
    """Continues every prompt with the same texts; remembers what it was asked."""

    identity = "scripted@0"

    def __init__(self, *texts: str, truncated: bool = False) -> None:
        self.texts, self.truncated = texts, truncated
        self.prompts: list[str] = []

    def prepare(self):
        pass

    def generate(self, prompts, draws, work=None):
        self.prompts += prompts
        group = [Generation(self.texts[i % len(self.texts)], 5, self.truncated, 10) for i in range(draws.samples)]
        return [group for _ in prompts]


def trajectories(count: int = 1, last: str = STEPS[1]) -> pl.DataFrame:
    """Trajectories of one question; the last step may have its number in it."""
    rows = [(f"t{i:03d}", "Q?", [STEPS[0], last.format(i)], "3") for i in range(count)]
    return pl.DataFrame(rows, schema=["trajectory_id", "question", "steps", "gold_answer"], orient="row")


def test_every_prefix_is_completed_and_judged():
    engine, finished = ScriptedEngine("so\nThe answer is: 3.0\n", "no idea"), []

    def progress(count: int, done: float | None = None, left: float | None = None) -> None:
        finished.append((count, left))

    rollouts, cost = prefix_rollouts(trajectories(3), engine, None, 0, 2, SAMPLING, seed=0, progress=progress)
    # equal prefixes are completed once; without an answer, the one that the prefix states counts
    assert engine.prompts == [render_question("Q?"), render_context("Q?", STEPS[:1]), render_context("Q?", STEPS)]
    assert rollouts.select("trajectory_id", "prefix_length", "rollout", "answer", "correct").rows() == [
        (f"t00{i}", length, *row)
        for i in range(3)
        for length in range(3)
        for row in ((0, "3.0", True), (1, *((None, False) if length < 2 else ("3", True))))
    ]
    assert (cost.forward_tokens, cost.generated_tokens) == (3 * 10 + 6 * 5, 6 * 5)
    characters = len(STEPS[0]) + len(STEPS[1])
    assert finished == [(0, 2 * (characters + 1 + len(STEPS[1]) + 1 + 1)), (3, 0)]
    Rollouts.validate(rollouts)
    Rollouts.validate(prefix_rollouts(trajectories(0), engine, None, 0, 2, SAMPLING, seed=0)[0])


@pytest.mark.parametrize(("truncated", "answer"), [(False, "3"), (True, None)])
def test_the_last_sentence_of_a_continuation_is_no_answer_if_it_was_cut_off(truncated, answer):
    engine = ScriptedEngine("So she has 3.", truncated=truncated)
    rollouts, _ = prefix_rollouts(trajectories(), engine, 1, 1, 1, SAMPLING, seed=0)
    assert rollouts["answer"].to_list() == [answer]


def test_only_the_prefixes_asked_for_are_completed_of_any_number_of_trajectories():
    count = TRAJECTORIES_PER_CALL + 2
    rollouts, _ = prefix_rollouts(trajectories(count), ScriptedEngine(""), 1, 1, 1, SAMPLING, seed=0)
    assert rollouts["prefix_length"].to_list() == [1] * count


@pytest.mark.parametrize(("longest", "shortest", "count"), [(1, 1, 3), (None, 1, 2), (None, 0, 1)])
def test_rollouts_depend_on_their_prefix_and_number_alone(tiny_model, longest, shortest, count):
    draw = partial(prefix_rollouts, sampling=SAMPLING, seed=3)
    others = trajectories(4, "2 + {0} = {0}")
    at_once, _ = draw(others, TransformersEngine(tiny_model, 8), longest=None, shortest=0, count=3)
    few, _ = draw(others[1:3], TransformersEngine(tiny_model, 4), longest=longest, shortest=shortest, count=count)
    assert few.height
    assert at_once.join(few, on=Rollouts.primary_key(), how="semi", maintain_order="left").equals(few)


@given(st.integers(0, 20), st.integers(0, 25), st.integers(0, 25), st.integers(0, 9))
def test_a_sample_keeps_the_order_and_a_larger_one_adds_to_it(size, count, more, seed):
    names = pl.DataFrame({"trajectory_id": [f"t{number:09d}" for number in range(size)]})
    smaller, larger = (
        sample_trajectories(names, wanted, seed)["trajectory_id"].to_list() for wanted in (count, count + more)
    )
    assert len(smaller) == min(size, count)
    assert smaller == [name for name in larger if name in set(smaller)]
    assert larger == sorted(larger)
    assert sample_trajectories(names, None, seed).equals(names)
