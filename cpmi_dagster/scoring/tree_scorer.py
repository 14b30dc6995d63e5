"""Score trajectories through packed token trees: one forward pass per row, vocabulary only where a target is predicted.

Question of 120 tokens, 6 steps of 40, 5 answers of 8 sharing 5, contexts of three conditionings, one template: 80
sequences of 128 to 368 tokens written out are one tree of about 800.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cpmi_dagster.language_models import LoadedModel
from cpmi_dagster.scoring.admission import TokenizedTrajectory
from cpmi_dagster.scoring.attention import check_reads_trees, model_mask
from cpmi_dagster.scoring.packing import Row, lay_out, pack
from cpmi_dagster.scoring.scored import Scored
from cpmi_dagster.scoring.tokens import TokenIds
from cpmi_dagster.scoring.trees import TokenTree, grow_branches

if TYPE_CHECKING:
    import torch

VOCABULARY_SLICE = 512


def score_packed(model: LoadedModel, trajectories: Sequence[TokenizedTrajectory], row_tokens: int) -> Scored:
    """Log-probabilities of every answer under every context and template of the trajectories.

    A value that is not finite spreads to all trees of its row; its trajectories are scored once more, each alone, so
    that only the one it comes from keeps it.

    Args:
        model: the labeler.
        trajectories: at least one.
        row_tokens: tokens of a row; a larger tree gets a row of its own.

    Raises:
        ModelError: the model cannot read token trees.
    """
    check_reads_trees(model.model, max(trajectory.longest_sequence for trajectory in trajectories))
    scored = _score(model, trajectories, row_tokens)
    finite = scored.logprobs["logprob_sum"].is_finite()
    tainted = set(scored.logprobs.filter(~finite)["trajectory_id"])
    if not tainted or len(trajectories) == 1:
        return scored
    again = [
        _score(model, [trajectory], row_tokens) for trajectory in trajectories if trajectory.trajectory_id in tainted
    ]
    kept = scored.logprobs.filter(~pl.col("trajectory_id").is_in(list(tainted)))
    return Scored(
        logprobs=pl.concat([kept, *(part.logprobs for part in again)]),
        forward_tokens=scored.forward_tokens + sum(part.forward_tokens for part in again),
    )


def _score(model: LoadedModel, trajectories: Sequence[TokenizedTrajectory], row_tokens: int) -> Scored:
    trees = list(_trees(trajectories, row_tokens))
    rows = [lay_out([trees[item] for item in row]) for row in pack([len(tree) for tree in trees], row_tokens)]
    frames = [frame for row in rows for frame in _row_frames(row, row_logprobs(model, row))]
    return Scored(pl.concat(frames), sum(len(row.tokens) for row in rows))


def _trees(trajectories: Sequence[TokenizedTrajectory], row_tokens: int) -> Iterator[TokenTree]:
    """Trees of all questions and templates; a question's branches are the same below every template."""
    for prompts, group in _by_question(trajectories).items():
        room = row_tokens - max(map(len, prompts))
        for branches in grow_branches(group, room):
            for template, prompt in enumerate(prompts):
                yield branches.under(prompt, template)


def _by_question(
    trajectories: Sequence[TokenizedTrajectory],
) -> dict[tuple[TokenIds, ...], list[TokenizedTrajectory]]:
    groups: dict[tuple[TokenIds, ...], list[TokenizedTrajectory]] = {}
    for trajectory in trajectories:
        groups.setdefault(trajectory.prompts, []).append(trajectory)
    return groups


def row_logprobs(model: LoadedModel, row: Row) -> NDArray[np.float64]:
    """Log-probability of every target token of a row: one forward pass, float32 log-softmax.

    Returns:
        Natural logarithms in the order of `row.predicted`, [target tokens].
    """
    import torch

    device = model.device
    kept, predictor = np.unique(row.predictors, return_inverse=True)
    with torch.inference_mode():
        logits = model.model(
            input_ids=torch.from_numpy(row.tokens)[None].to(device),
            attention_mask=model_mask(model.model, torch.from_numpy(row.end).to(device)),
            position_ids=torch.from_numpy(row.depth)[None].to(device),
            logits_to_keep=torch.from_numpy(kept).to(device),
            use_cache=False,
        ).logits[0]
        return _picked(
            logits, torch.from_numpy(predictor).to(logits.device), torch.from_numpy(row.predicted).to(logits.device)
        )


def _picked(logits: "torch.Tensor", predictor: "torch.Tensor", predicted: "torch.Tensor") -> NDArray[np.float64]:
    """log p of token `predicted[n]` under `logits[predictor[n]]`; the float32 copy is made a slice at a time."""
    import torch

    picked = torch.empty(len(predicted), device=logits.device)
    for first in range(0, len(logits), VOCABULARY_SLICE):
        logprobs = logits[first : first + VOCABULARY_SLICE].float().log_softmax(-1)
        inside = (predictor >= first) & (predictor < first + VOCABULARY_SLICE)
        picked[inside] = logprobs[predictor[inside] - first, predicted[inside]]
    return picked.cpu().numpy().astype(np.float64)


def _row_frames(row: Row, logprobs: NDArray[np.float64]) -> Iterator[pl.DataFrame]:
    """One frame per tree: its targets with their sums."""
    first = 0
    for tree in row.trees:
        counts = tree.targets["token_count"].to_numpy()
        own = logprobs[first : first + len(tree.predicted)]
        yield tree.targets.with_columns(logprob_sum=pl.Series(np.add.reduceat(own, np.cumsum(counts) - counts)))
        first += len(own)
