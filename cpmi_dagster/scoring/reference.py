"""The unpacked reference scorer: one ordinary sequence per template, context and answer, one at a time.

    template 0, prefix/1, gold   ->   [BOS] question, step 0, step 1, "The answer is: 72"

Slow and simple: the reference for token trees, and the scorer of models that cannot read them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, product
from typing import TYPE_CHECKING

import polars as pl

from cpmi_dagster.contracts.tables import AnswerLogprobs
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.models.tokens import TokenIds
from cpmi_dagster.scoring.admission import TokenizedTrajectory
from cpmi_dagster.scoring.windows import Scored, Window

if TYPE_CHECKING:
    import torch


def unpacked_scores(model: LoadedModel, windows: Iterable[Window], advance: Callable[[int], None]) -> Iterator[Scored]:
    """Log-probabilities of every answer under every context and template, window by window.

    Args:
        model: any causal language model of transformers.
        windows: at least one trajectory admitted in each.
        advance: called with the number of trajectories that went through the model since the last call.
    """
    for window in windows:
        rows, forward_tokens = [], 0
        for key, context, target in written_out(window.trajectories):
            logprobs = token_logprobs(model, context, target).cpu().double()
            rows.append((*key, float(logprobs.sum()), len(target)))
            forward_tokens += len(context) + len(target)
        yield Scored(pl.DataFrame(rows, AnswerLogprobs.create_empty().schema, orient="row"), forward_tokens)
        advance(window.size)


def written_out(
    trajectories: Sequence[TokenizedTrajectory],
) -> Iterator[tuple[tuple[str, int, str, int, int], TokenIds, TokenIds]]:
    """Every sequence to be scored: template by template, context by context, answer by answer.

    Yields:
        Key (trajectory_id, template, context, step_index, answer_rank), context ids and target ids.
    """
    for trajectory in trajectories:
        templates = enumerate(trajectory.prompts, trajectory.first_template)
        for (template, prompt), context in product(templates, trajectory.contexts):
            before = (*prompt, *chain.from_iterable(trajectory.context_steps(context)))
            for rank, target in trajectory.targets_under(context).items():
                key = (trajectory.trajectory_id, template, context.kind, context.step_index, rank)
                yield key, before, target


def token_logprobs(model: LoadedModel, context: TokenIds, target: TokenIds) -> "torch.Tensor":
    """log p(token | everything before it) of each token of the target, natural log, float32, [target tokens].

    Args:
        model: any causal language model of transformers.
        context: token ids of question and steps; at least one.
        target: token ids of the answer line, the last perhaps a draw; at least one.
    """
    import torch

    with torch.inference_mode():
        sequence = torch.tensor([[*context, *target[:-1]]], device=model.device)
        logits = model.model(input_ids=sequence, use_cache=False).logits[0, len(context) - 1 :]
        tokens = torch.tensor(target, device=logits.device)
        places = torch.arange(len(target), device=logits.device)
        return logits.float().log_softmax(-1)[places, tokens]
