import polars as pl

from cpmi_dagster.benchmarks.candidates import sample_candidates
from cpmi_dagster.contracts.tables import CandidateSolutions
from cpmi_dagster.generation.engine import Generation
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.trajectories.templates import render_question

SAMPLING = Sampling(temperature=0.7, top_p=0.95, max_new_tokens=16)
OPEN = "What is 2 + 3?"
CHOICE = "What is 2 + 3?\n(A) 4\n(B) 5"
TEXTS = {
    render_question(OPEN): ["2 + 3 = 5\n\n  so \nThe answer is: 5\n", "well"],
    render_question(CHOICE): ["The answer is: (B)\n", "The answer is: 4\n"],
}


class Solver:
    """Answers each question with its own two texts."""

    identity = "solver@0"

    def prepare(self):
        pass

    def generate(self, prompts, sampling, samples, seed, stop="answer", first=0):
        return [[Generation(text, 3, False) for text in TEXTS[prompt]] for prompt in prompts]


def problems() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "benchmark": ["set", "set"],
            "problem_id": ["1", "2"],
            "question": [OPEN, CHOICE],
            "choices": [None, ["4", "5"]],
            "answer": ["5", "B"],
        }
    )


def test_solutions_are_split_into_lines_and_graded():
    finished = []
    candidates, cost = sample_candidates(problems(), Solver(), 2, SAMPLING, seed=0, progress=finished.append)
    assert candidates.select("problem_id", "candidate", "answer", "correct").rows() == [
        ("1", 0, "5", True),
        ("1", 1, None, False),
        ("2", 0, "(B)", True),
        ("2", 1, "4", False),
    ]
    assert candidates["steps"][0].to_list() == ["2 + 3 = 5", "so", "The answer is: 5"]
    assert cost.generated_tokens == 12
    assert finished == [2]
    CandidateSolutions.validate(candidates)
