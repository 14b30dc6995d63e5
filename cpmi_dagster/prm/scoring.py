"""Probability that each step of a solution is right, by a trained reward model.

in   benchmark         problem_id  question       steps
     processbench_math math-3      What is ...    [First, ..., Then ...]
out  benchmark         problem_id  step_index  probability
     processbench_math math-3      0           0.93
     processbench_math math-3      1           0.21
"""

from collections.abc import Callable, Sequence

import polars as pl

from cpmi_dagster.errors import ScoringError
from cpmi_dagster.prm.inference import step_probabilities
from cpmi_dagster.prm.inputs import EncodedSolution, encode_solutions
from cpmi_dagster.prm.model import LoadedRewardModel, RewardModel


def score_steps(
    model: LoadedRewardModel,
    solutions: pl.DataFrame,
    batch_tokens: int,
    progress: Callable[[int], None] | None = None,
) -> pl.DataFrame:
    """Score every step of every solution.

    Args:
        solutions: any columns that say which solution it is, then `question` and `steps` (list of strings).
        batch_tokens: most tokens under way at once, padding included; a longer solution goes alone.
        progress: called with the number of solutions just scored.

    Returns:
        The other columns of `solutions` in their order, `step_index` (from 0) and `probability` (in [0, 1]); one row
        per step, solutions in the order given. A solution without steps has no rows.

    Raises:
        ScoringError: a solution is longer than the model's context, or a score is not a finite number.
    """
    judged = solutions.filter(pl.col("steps").list.len() > 0)
    rows = judged.drop("question", "steps")
    encoded = encode_solutions(model.tokenizer, judged["question"].to_list(), judged["steps"].to_list())
    _check_lengths(rows, encoded, model)
    report = progress or (lambda count: None)
    report(solutions.height - judged.height)
    probabilities = _score_all(encoded, model.model, batch_tokens, report)
    scored = rows.with_columns(
        judged["steps"].list.eval(pl.int_range(pl.len())).alias("step_index"),
        pl.Series("probability", probabilities, pl.List(pl.Float64)),
    ).explode("step_index", "probability")
    _check_finite(scored)
    return scored


def _score_all(
    encoded: Sequence[EncodedSolution], model: RewardModel, batch_tokens: int, report: Callable[[int], None]
) -> list[list[float]]:
    """Step probabilities of every solution; what occurs several times is scored once."""
    places: dict[tuple[int, ...], list[int]] = {}
    for index, solution in enumerate(encoded):
        places.setdefault((*solution.token_ids, -1, *solution.step_positions), []).append(index)
    repeats = list(places.values())
    distinct = [encoded[indices[0]] for indices in repeats]
    probabilities: list[list[float]] = [[] for _ in encoded]
    for scores in step_probabilities(distinct, model, batch_tokens):
        for number, values in scores:
            for index in repeats[number]:
                probabilities[index] = values
        report(sum(len(repeats[number]) for number, _ in scores))
    return probabilities


def _check_lengths(rows: pl.DataFrame, encoded: Sequence[EncodedSolution], model: LoadedRewardModel) -> None:
    for index, solution in enumerate(encoded):
        if len(solution.token_ids) > model.context_length:
            raise ScoringError(
                f"the solution with {_name(rows, index)} has {len(solution.token_ids)} tokens, but {model.identity} "
                f"reads at most {model.context_length}; leave it out or use a reward model with a longer context"
            )


def _check_finite(scored: pl.DataFrame) -> None:
    wrong = scored.filter(~pl.col("probability").is_finite()).drop("probability")
    if wrong.height:
        raise ScoringError(
            f"the score of {_name(wrong, 0)} is not a finite number; score in float32, or train the model again"
        )


def _name(rows: pl.DataFrame, index: int) -> str:
    named = ", ".join(f"{column} {value}" for column, value in rows.row(index, named=True).items())
    return named or f"row {index}"
