from functools import partial

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.contracts.tables import Rollouts
from cpmi_dagster.generation.engine import Generation
from cpmi_dagster.generation.monte_carlo import TRAJECTORIES_PER_CALL, prefix_rollouts, sampled
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


def unlike(count: int) -> pl.DataFrame:
    """Trajectories whose second steps differ."""
    steps = [["4 / 2 = 2", f"2 + {number} = {2 + number}"] for number in range(count)]
    return trajectories(count).with_columns(steps=pl.Series(steps))


def test_every_prefix_is_completed_and_judged():
    engine = ScriptedEngine("so\nThe answer is: 3.0\n", "The answer is: 4\n")
    rollouts, cost = prefix_rollouts(trajectories(), engine, None, 1, 2, SAMPLING, seed=0)
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
    prefix_rollouts(trajectories(), engine, None, 0, 1, SAMPLING, seed=0)
    steps = trajectories()["steps"][0].to_list()
    assert engine.prompts == [render_question("Q?"), render_context("Q?", steps[:1]), render_context("Q?", steps)]


def test_a_continuation_without_an_answer_is_wrong_unless_the_prefix_states_it():
    rollouts, _ = prefix_rollouts(trajectories(), ScriptedEngine("no idea"), None, 1, 1, SAMPLING, seed=0)
    assert rollouts.select("answer", "correct").rows() == [(None, False), ("3", True)]


def test_equal_prefixes_of_different_trajectories_are_completed_once_and_share_their_completions():
    engine = ScriptedEngine("The answer is: 3\n", "The answer is: 4\n")
    rollouts, cost = prefix_rollouts(trajectories(3), engine, None, 1, 2, SAMPLING, seed=0)
    assert len(engine.prompts) == 2
    assert rollouts["answer"].to_list() == ["3", "4"] * 6
    assert cost.generated_tokens == 2 * 2 * 5


def test_groups_of_trajectories_are_asked_with_one_seed_and_report_progress():
    engine, finished = ScriptedEngine(""), []
    count = TRAJECTORIES_PER_CALL + 2
    prefix_rollouts(trajectories(count), engine, None, 1, 1, SAMPLING, seed=0, progress=finished.append)
    assert finished == [TRAJECTORIES_PER_CALL, 2]
    assert len(engine.seeds) == 2 and len(set(engine.seeds)) == 1


def test_no_trajectories_give_an_empty_frame():
    rollouts, cost = prefix_rollouts(trajectories().head(0), ScriptedEngine(""), None, 0, 2, SAMPLING, seed=0)
    assert rollouts.is_empty() and cost.generated_tokens == 0
    Rollouts.validate(rollouts)


def test_rollouts_of_a_real_engine_are_reproducible(engine):
    first, second = (
        prefix_rollouts(trajectories(2), engine(rows), None, 0, 2, SAMPLING, seed=3)[0] for rows in (4, 32)
    )
    assert first.equals(second)
    assert first.height == 2 * 3 * 2


@pytest.mark.parametrize(("longest", "shortest", "count"), [(1, 1, 3), (None, 1, 2), (2, 0, 2), (None, 0, 1)])
def test_rollouts_depend_on_their_prefix_and_number_alone(engine, longest, shortest, count):
    """More prefixes, more rollouts or other trajectories in the call change none that was drawn before."""
    drawn = partial(prefix_rollouts, engine=engine(8), sampling=SAMPLING, seed=3)
    at_once, _ = drawn(others := unlike(4), longest=None, shortest=0, count=3)
    few, _ = drawn(others[1:3], longest=longest, shortest=shortest, count=count)
    assert few.height
    assert at_once.join(few, on=Rollouts.primary_key(), how="semi", maintain_order="left").equals(few)


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
    rollouts, _ = prefix_rollouts(trajectories(2), engine, 1, 1, 2, SAMPLING, seed=0)
    assert rollouts["prefix_length"].to_list() == [1] * 4
    assert len(engine.prompts) == 1
