from functools import partial

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.contracts.tables import Rollouts
from cpmi_dagster.generation.engine import Generation
from cpmi_dagster.generation.monte_carlo import TRAJECTORIES_PER_CALL, Portion, in_order, prefix_rollouts, sampled
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.trajectories.templates import render_context, render_question

SAMPLING = Sampling(temperature=0.6, top_p=0.95, top_k=20, max_new_tokens=16)


class ScriptedEngine:
    """Continues every prompt with the same texts; remembers what it was asked."""

    identity = "scripted@0"

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.prompts: list[str] = []
        self.seeds: list[int] = []

    def prepare(self):
        pass

    def generate(self, prompts, sampling, samples, seed, stop="answer", first=0):
        self.prompts += prompts
        self.seeds.append(seed)
        group = [Generation(self.texts[i % len(self.texts)], 5, False, prompt_tokens=10) for i in range(samples)]
        return [group for _ in prompts]


def trajectories(count: int = 1) -> pl.DataFrame:
    steps = ["4 / 2 = 2", "2 + 1 = 3. The answer is: 3"]
    rows = [
        {"trajectory_id": f"t{i:03d}", "question_id": "q", "question": "Q?", "steps": steps, "gold_answer": "3"}
        for i in range(count)
    ]
    return pl.DataFrame(rows)


def test_every_prefix_is_completed_and_judged():
    engine = ScriptedEngine("so\nThe answer is: 3.0\n", "The answer is: 4\n")
    rollouts, cost = prefix_rollouts(trajectories(), engine, [Portion(1, None, 0, 2)], SAMPLING, seed=0)
    assert rollouts.select("prefix_length", "rollout", "answer", "correct").rows() == [
        (1, 0, "3.0", True),
        (1, 1, "4", False),
        (2, 0, "3.0", True),
        (2, 1, "4", False),
    ]
    assert (cost.forward_tokens, cost.generated_tokens) == (2 * 10 + 4 * 5, 4 * 5)
    Rollouts.validate(rollouts)


def test_prompts_are_the_first_template_with_the_first_steps():
    engine = ScriptedEngine("")
    prefix_rollouts(trajectories(), engine, [Portion(0, None, 0, 1)], SAMPLING, seed=0)
    steps = trajectories()["steps"][0].to_list()
    assert engine.prompts == [render_question("Q?"), render_context("Q?", steps[:1]), render_context("Q?", steps)]


def test_a_continuation_without_an_answer_is_wrong_unless_the_prefix_states_it():
    rollouts, _ = prefix_rollouts(trajectories(), ScriptedEngine("no idea"), [Portion(1, None, 0, 1)], SAMPLING, seed=0)
    assert rollouts.select("answer", "correct").rows() == [(None, False), ("3", True)]


def test_equal_prefixes_of_different_trajectories_are_completed_for_each():
    engine = ScriptedEngine("")
    prefix_rollouts(trajectories(3), engine, [Portion(1, None, 0, 1)], SAMPLING, seed=0)
    assert len(engine.prompts) == 6


def test_groups_of_trajectories_have_seeds_of_their_own_and_report_progress():
    engine, finished = ScriptedEngine(""), []
    count = TRAJECTORIES_PER_CALL + 2
    prefix_rollouts(trajectories(count), engine, [Portion(1, None, 0, 1)], SAMPLING, seed=0, progress=finished.append)
    assert finished == [TRAJECTORIES_PER_CALL, 2]
    assert len(set(engine.seeds)) == 2


def test_no_trajectories_give_an_empty_frame():
    rollouts, cost = prefix_rollouts(
        trajectories().head(0), ScriptedEngine(""), [Portion(0, None, 0, 2)], SAMPLING, seed=0
    )
    assert rollouts.is_empty() and cost.generated_tokens == 0
    Rollouts.validate(rollouts)


def test_rollouts_of_a_real_engine_are_reproducible(engine):
    first, second = (
        prefix_rollouts(trajectories(2), engine(rows), [Portion(0, None, 0, 2)], SAMPLING, seed=3)[0]
        for rows in (4, 32)
    )
    assert first.equals(second)
    assert first.height == 2 * 3 * 2


@pytest.mark.parametrize("shortest", [0, 1])
@pytest.mark.parametrize(("steps", "count"), [(1, 3), (1, 2), (None, 2), (2, 3), (None, 3)])
def test_rollouts_asked_for_later_are_those_that_would_have_been_drawn_at_once(engine, steps, count, shortest):
    drawn = partial(prefix_rollouts, trajectories(3), engine(8), sampling=SAMPLING, seed=3)
    at_once, _ = drawn([Portion(shortest, None, 0, 3)])
    before, _ = drawn([Portion(shortest, steps, 0, count)])
    longer = [] if steps is None else [Portion(steps + 1, None, 0, 3)]
    added, _ = drawn([*longer, *([Portion(shortest, steps, count, 3 - count)] if count < 3 else [])])
    assert in_order(pl.concat([before, added]), trajectories(3)).equals(at_once)
    assert added.height == at_once.height - before.height


@given(st.integers(0, 20), st.integers(0, 25), st.integers(0, 25), st.integers(0, 9))
def test_a_sample_keeps_the_order_and_a_larger_one_adds_to_it(size, count, more, seed):
    names = pl.DataFrame({"trajectory_id": [f"t{number:09d}" for number in range(size)]})
    smaller, larger = (sampled(names, wanted, seed)["trajectory_id"].to_list() for wanted in (count, count + more))
    assert len(smaller) == min(size, count)
    assert smaller == [name for name in larger if name in set(smaller)]
    assert larger == sorted(larger)
    assert sampled(names, None, seed).equals(names)


def test_only_the_prefixes_asked_for_are_completed():
    engine = ScriptedEngine("")
    rollouts, _ = prefix_rollouts(trajectories(2), engine, [Portion(1, 1, 0, 2)], SAMPLING, seed=0)
    assert rollouts["prefix_length"].to_list() == [1] * 4
    assert len(engine.prompts) == 2
