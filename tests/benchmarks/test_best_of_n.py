"""Best-of-N: every aggregation by hand, ties, votes and what cannot be chosen from."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.benchmarks.best_of_n import AGGREGATIONS, STEP_AGGREGATIONS, choose, sample_candidates, ties
from cpmi_dagster.contracts.tables import CandidateSolutions
from cpmi_dagster.errors import BenchmarkError
from cpmi_dagster.generation.engine import Generation
from cpmi_dagster.generation.settings import Sampling


def frames(*candidates, problem_id="p"):
    """Candidates and scores of one problem from (answer, correct, probabilities) triples."""
    names = {"benchmark": "gsm8k", "problem_id": problem_id}
    rows = [
        names | {"candidate": number, "answer": answer, "correct": correct, "steps": ["step"] * len(scores)}
        for number, (answer, correct, scores) in enumerate(candidates)
    ]
    steps = [
        names | {"candidate": number, "step_index": index, "probability": probability}
        for number, (_, _, scores) in enumerate(candidates)
        for index, probability in enumerate(scores)
    ]
    keys = {"benchmark": pl.String, "problem_id": pl.String, "candidate": pl.Int64}
    return (
        pl.DataFrame(rows, schema_overrides={"answer": pl.String, "steps": pl.List(pl.String)}),
        pl.DataFrame(steps, schema={**keys, "step_index": pl.Int64, "probability": pl.Float64}),
    )


def picked(choices, aggregation):
    return choices.filter(aggregation=aggregation).select("candidate", "correct").row(0)


EXAMPLE = (("7", False, [0.9, 0.9]), ("18", True, [0.8, 1.0]), ("18", True, [0.5]))


def test_every_aggregation_of_the_worked_example():
    choices = choose(*frames(*EXAMPLE), ns=[3])
    expected = {
        "mean": (0, 0.0),
        "min": (0, 0.0),
        "last": (1, 1.0),
        "product": (0, 0.0),
        "weighted_vote": (None, 1.0),
        "majority": (None, 1.0),
        "pass_at_n": (None, 1.0),
        "pass_at_1": (None, 2 / 3),
    }
    assert set(expected) == set(AGGREGATIONS)
    assert {name: picked(choices, name) for name in AGGREGATIONS} == expected


@pytest.mark.parametrize(
    ("candidates", "picks"),
    [
        # a sure candidate outvotes two doubtful ones by weight alone
        ([("1", True, [0.9]), ("2", False, [0.2]), ("2", False, [0.3])], {"weighted_vote": 1, "majority": 0}),
        # a candidate without steps ranks below one with probability 0
        ([("1", True, []), ("2", False, [0.0])], dict.fromkeys(STEP_AGGREGATIONS, 0)),
        # products too small for a float still rank
        ([("1", False, [1e-9] * 60), ("2", True, [2e-9] * 60)], {"product": 1}),
        # a candidate without an answer has no vote
        ([(None, False, [0.9]), (None, False, [0.9]), ("5", True, [0.1])], {"majority": 1, "weighted_vote": 1}),
        ([(None, False, [0.9]), (None, False, [0.9])], {"majority": 0}),
    ],
)
def test_which_candidate_or_answer_wins(candidates, picks):
    choices = choose(*frames(*candidates), ns=[len(candidates)])
    assert {name: picked(choices, name)[1] for name in picks} == picks


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 6), st.integers(0, 4).map(lambda n: n / 4))
def test_ties_go_to_the_first_candidate_and_are_counted(count, probability):
    candidates, scores = frames(*[(str(number), number == 0, [probability]) for number in range(count)])
    choices = choose(candidates, scores, ns=[count])
    assert all(picked(choices, reward) == (0, 1.0) for reward in STEP_AGGREGATIONS)
    assert picked(choices, "majority") == (None, 1.0)
    several = int(count > 1)
    assert ties(choices) == dict.fromkeys([*STEP_AGGREGATIONS, "weighted_vote", "majority"], several)
    assert choices.filter(pl.col("tied").is_null())["aggregation"].to_list() == ["pass_at_1", "pass_at_n"]


def test_only_the_first_n_candidates_are_considered():
    sixteen = frames(*[(str(number), number == 9, [number / 20]) for number in range(16)])
    choices = choose(*sixteen, ns=[1, 8, 16])
    assert choices.filter(aggregation="mean")["candidate"].to_list() == [0, 7, 15]
    assert choices.filter(aggregation="pass_at_n")["correct"].to_list() == [0, 0, 1]


def test_what_cannot_be_chosen_from_is_named():
    candidates, scores = frames(*EXAMPLE)
    with pytest.raises(BenchmarkError, match=r"candidates \[0, 1, 2\]; best of 4 needs each of 0 to 3"):
        choose(candidates, scores, ns=[4])
    with pytest.raises(BenchmarkError, match=r"candidate 2 .* `p` of gsm8k has 1 steps and 0"):
        choose(candidates, scores.filter(pl.col("candidate") != 2), ns=[3])
    with pytest.raises(BenchmarkError, match=r"probability in \[0, 1\]"):
        choose(candidates, scores.with_columns(probability=pl.lit(float("nan"))), ns=[3])


class Solver:
    """Answers an open question and a multiple choice with two texts each."""

    identity = "solver@0"
    texts = (["2 + 3 = 5\n\n  so \nThe answer is: 5\n", "well"], ["The answer is: (B)\n", "The answer is: 4\n"])

    def prepare(self):
        pass

    def generate(self, prompts, draws, work=None):
        return [[Generation(text, 3, False) for text in self.texts["(A)" in prompt]] for prompt in prompts]


def test_sampled_solutions_are_split_into_lines_and_graded():
    asked = {"benchmark": "set", "question": ["2 + 3?", "2 + 3?\n(A) 4\n(B) 5"], "choices": [None, ["4", "5"]]}
    problems = pl.DataFrame({**asked, "problem_id": ["1", "2"], "answer": ["5", "B"]})
    sampling = Sampling(temperature=0.7, top_p=0.95, max_new_tokens=16)
    candidates, cost = sample_candidates(problems, Solver(), 2, sampling, seed=0)
    CandidateSolutions.validate(candidates)
    rows = [("1", 0, "5", True), ("1", 1, None, False), ("2", 0, "(B)", True), ("2", 1, "4", False)]
    assert candidates.select("problem_id", "candidate", "answer", "correct").rows() == rows
    assert candidates["steps"][0].to_list() == ["2 + 3 = 5", "so", "The answer is: 5"]
    assert cost.generated_tokens == 12
