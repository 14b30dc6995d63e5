"""Two scorers of answers: token trees in packed rows, and single sequences.

The second is slow and simple: the reference for the first, and the scorer of models that cannot read token trees.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import polars as pl

from cpmi_dagster.contracts.tables import AnswerLogprobs
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.models.tokens import piece_ids, start_ids
from cpmi_dagster.scoring.answer_trees import AnswerTree, Window, trees_of, written_out
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.scoring.tokenization import TokenizedTrajectory
from cpmi_dagster.tree_forward.next_tokens import predicted_logprobs, token_logprobs
from cpmi_dagster.tree_forward.probe import Probe, Take
from cpmi_dagster.tree_forward.row_readers import check_token_ids
from cpmi_dagster.tree_forward.tree_reader import TreeReader
from cpmi_dagster.tree_forward.trees import Branch, TokenTree

PROBE_QUESTION, PROBE_STEPS = "Ana has 48 shells. ", ("48 / 2 = 24\n", "48 + 24 = 72\n")
PROBE_ANSWERS = ("The answer is: 72", "The answer is: 74", "The answer is: 24")
# on CUDA the tree is long enough for blocks seen in full and blocks skipped
PROBE_REPEATS = {"cuda": 100}
# nats of a token, bounds of rounding by precision
TOLERANCE = {"float64": 1e-3, "float32": 1e-3, "float16": 0.1, "bfloat16": 0.5}


class Scored(NamedTuple):
    """Log-probabilities of a window.

    Attributes:
        logprobs: columns of `labels.answer_logprobs`, unsorted; sums may be NaN or infinite.
        forward_tokens: tokens of the forward passes.
    """

    logprobs: pl.DataFrame
    forward_tokens: int


Scorer = Callable[[Iterable[Window], Callable[[int], None]], Iterator[Scored]]
"""Windows, each with a trajectory, and a callback of the number just finished -> scores by window."""


def scorer_of(model: LoadedModel, scoring: Scoring) -> Scorer:
    """The scorer that the settings name, warmed up by a short forward pass.

    Raises:
        ModelError: the model cannot read token trees, or its tokenizer is another model's.
    """
    if scoring.scorer == "tree":
        return partial(_score_trees, labeler_reader(model, scoring))
    token_logprobs(model.model, (0,), (0,))
    return partial(_score_written_out, model)


def labeler_reader(model: LoadedModel, scoring: Scoring) -> TreeReader:
    """A tree reader whose values are log-probabilities of predicted tokens; errors as of `scorer_of`."""
    take = partial(predicted_logprobs, model.model)
    return TreeReader(model, take, partial(_probe, model, take), scoring.reader, scoring.row_tokens)


def _probe(model: LoadedModel, take: Take) -> Probe:
    """Three answers to a question, after no step, each of two steps and both."""
    import torch

    question = PROBE_QUESTION * PROBE_REPEATS.get(model.device.type, 1) + "\n"
    ids = piece_ids(model.tokenizer, [question, *PROBE_STEPS, *PROBE_ANSWERS])
    check_token_ids(model.model, model.identity, chain(*ids.values()))
    prompt, (first, second) = start_ids(model.tokenizer) + ids[question], (ids[step] for step in PROBE_STEPS)
    pairs = [(prompt + steps, ids[answer]) for steps in ((), first, second, first + second) for answer in PROBE_ANSWERS]
    branches = [
        Branch(before + target[:-1], range(len(before) - 1, len(before) + len(target) - 1), target)
        for before, target in pairs
    ]
    expected = torch.cat([token_logprobs(model.model, before, target) for before, target in pairs])
    return Probe(branches, take, expected, TOLERANCE[str(model.model.dtype).removeprefix("torch.")])


def _score_trees(reader: TreeReader, windows: Iterable[Window], advance: Callable[[int], None]) -> Iterator[Scored]:
    launched: deque[Window] = deque()

    def trees() -> Iterator[tuple[list[TokenTree], int]]:
        for window in windows:
            launched.append(window)
            yield [answers.tree for answers in window.trees], window.size

    for values in reader.read(trees(), advance):
        window = launched.popleft()
        scored = Scored(_sum_targets(window.trees, values.by_tree), values.forward_tokens)
        broken = scored.logprobs.filter(~pl.col("logprob_sum").is_finite())["trajectory_id"].unique().to_list()
        if not broken or len(window.trajectories) == 1:
            yield scored
            continue
        # a value that is not finite spreads to its whole row: read each of these trajectories alone
        again = [_score_alone(reader, item) for item in window.trajectories if item.trajectory_id in broken]
        kept = scored.logprobs.filter(~pl.col("trajectory_id").is_in(broken))
        yield Scored(
            logprobs=pl.concat([kept, *(part.logprobs for part in again)]),
            forward_tokens=scored.forward_tokens + sum(part.forward_tokens for part in again),
        )


def _score_alone(reader: TreeReader, trajectory: TokenizedTrajectory) -> Scored:
    trees = trees_of([trajectory])
    (values,) = reader.read([([answers.tree for answers in trees], 0)])
    return Scored(_sum_targets(trees, values.by_tree), values.forward_tokens)


def _sum_targets(trees: Sequence[AnswerTree], values: Sequence[np.ndarray]) -> pl.DataFrame:
    """Sum the log-probabilities of each target's tokens."""
    frames = []
    for answers, logprobs in zip(trees, values, strict=True):
        counts = answers.targets["token_count"].to_numpy()
        sums = np.add.reduceat(logprobs.astype(np.float64), np.cumsum(counts) - counts)
        frames.append(answers.targets.with_columns(logprob_sum=pl.Series(sums)))
    return pl.concat(frames)


def _score_written_out(
    model: LoadedModel, windows: Iterable[Window], advance: Callable[[int], None]
) -> Iterator[Scored]:
    for window in windows:
        rows, forward_tokens = [], 0
        for key, context, target in written_out(window.trajectories):
            logprobs = token_logprobs(model.model, context, target).cpu().double()
            rows.append((*key, float(logprobs.sum()), len(target)))
            forward_tokens += len(context) + len(target)
        yield Scored(pl.DataFrame(rows, AnswerLogprobs.create_empty().schema, orient="row"), forward_tokens)
        advance(window.size)
