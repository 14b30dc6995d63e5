"""`cpmi score`: writes Parquet files of scores.

{"id": "a", "question": "1 + 1?", "steps": ["1 + 1 = 2"], "gold_answer": "2", "negative_answers": ["3"]}
"""

from collections.abc import Callable
from pathlib import Path
from typing import Unpack

from cpmi_dagster.errors import SourceError
from cpmi_dagster.files.whole_files import whole_file
from cpmi_dagster.scoring.trajectories import ScoredTrajectories, ScoreOptions, score_in_full
from cpmi_dagster.trajectories.given_rows import GivenRows

OTHER_FORMATS = (".csv", ".tsv", ".json", ".jsonl")


def score_file(
    model: str,
    given: GivenRows,
    output: Path,
    logprobs_output: Path | None,
    advance: Callable[[int, int], None],
    **options: Unpack[ScoreOptions],
) -> ScoredTrajectories:
    """Score the rows of a file; the output files appear whole or not at all.

    Args:
        given: the rows.
        advance: called with the number of trajectories just finished and the number of all.
        options: see `ScoreOptions`.

    Raises:
        SourceError: an output has the name of another format, or cannot be written.
        ScoringError: no trajectory could be scored.
    """
    outputs = [path for path in (output, logprobs_output) if path is not None]
    for path in outputs:
        if path.suffix in OTHER_FORMATS:
            raise SourceError(f"the output {path} is written as Parquet; give it a name that ends in .parquet")
    options["progress"] = lambda count: advance(count, len(given.rows))
    result = score_in_full(given, model, **options)
    for path, rows in zip(outputs, (result.scores, result.logprobs), strict=False):
        with whole_file(path) as unfinished:
            rows.write_parquet(unfinished)
    return result
