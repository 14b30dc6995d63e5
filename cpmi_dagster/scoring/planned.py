"""How many tokens scoring will compute, from the trees alone: no weights, no forward pass.

two trajectories of one question, four templates   ->   4 trees of about 1,700 nodes: 6,800 tokens
"""

from typing import TYPE_CHECKING, Literal

import polars as pl

from cpmi_dagster.scoring.admission import TokenizedTrajectory, admit
from cpmi_dagster.scoring.packing import rows_of, whole
from cpmi_dagster.scoring.readers.choice import BY_DEVICE
from cpmi_dagster.scoring.readers.flex import padded_length
from cpmi_dagster.scoring.reference import written_out
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.scoring.tree_scorer import LONGEST_ROW
from cpmi_dagster.scoring.windows import slices, trees_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def forward_tokens(
    trajectories: pl.DataFrame,
    negatives: pl.DataFrame,
    tokenizer: "PreTrainedTokenizerBase",
    context_length: int,
    scoring: Scoring,
    device: Literal["cpu", "cuda"] = "cpu",
    contrasted: bool = True,
) -> tuple[int, list[TokenizedTrajectory]]:
    """Tokens that `answer_logprobs` sends through the model for these trajectories, padding included.

    Args:
        trajectories: columns trajectory_id, question, steps, gold_answer; those that a run scores together.
        negatives: columns of `labels.hard_negatives`.
        context_length: tokens the labeler reads.
        device: what it will run on: cuda rows are longer, and padded to few lengths.
        contrasted: hard negatives are scored beside the gold answer.

    Returns:
        The number, and the trajectories that are scored; rejected ones cost nothing. The number is exact where memory
        does not force shorter rows and the model can use the device's first reader.
    """
    reader = BY_DEVICE[device][0] if scoring.reader == "auto" else scoring.reader
    total, scored = 0, []
    for part in slices(trajectories):
        admitted, _ = admit(part, negatives, tokenizer, context_length, scoring, contrasted=contrasted)
        scored += admitted
        if scoring.scorer == "reference":
            total += sum(len(before) + len(target) for _, before, target in written_out(admitted))
            continue
        lengths = [len(row) for row in rows_of(whole(*trees_of(admitted)), scoring.row_tokens or LONGEST_ROW[device])]
        total += sum(map(padded_length, lengths) if reader == "flex" else lengths)
    return total, scored
