"""Ways to score the same answers after the same contexts with the same model; each returns log p of every answer.

Contexts "q" and "q s", answers "a b" and "a c"; what goes through the model:

    released    q a b | q a c | q s a b | q s a c     a sequence each, padded batches of 12 in the order they come
    harness     q s a | q a                           a sequence per text without its last token, longest first
    tree        q s a a                               ours; its seconds include tokenising and building tables
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple, cast

import polars as pl
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from cpmi_dagster.contracts.contexts import contexts_of
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.logprobs import answer_logprobs
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.trajectories.templates import render_question, render_step, render_target

RELEASED_BATCH = 12
KEY_COLUMNS = ("trajectory_id", "template", "context", "step_index", "answer_rank")
TokenIds = tuple[int, ...]
Key = tuple[str, int, str, int, int]
Logprobs = Mapping[Key, float]


class Request(NamedTuple):
    """A target to score after a context; the key is that of `labels.answer_logprobs`."""

    key: Key
    context: TokenIds
    target: TokenIds


def requests_of(
    trajectories: pl.DataFrame, negatives: pl.DataFrame, tokenizer: PreTrainedTokenizerBase, scoring: Scoring
) -> list[Request]:
    """One request per trajectory, template, context and answer, built without the scorer."""

    def ids(text: str) -> TokenIds:
        return tuple(tokenizer.encode(text, add_special_tokens=False))

    wrong = dict(negatives.sort("rank").group_by("trajectory_id").agg("answer").iter_rows())
    requests = []
    for row in trajectories.iter_rows(named=True):
        name, steps = row["trajectory_id"], [ids(render_step(step)) for step in row["steps"]]
        targets = [ids(render_target(answer)) for answer in (row["gold_answer"], *wrong[name])]
        contexts = contexts_of(scoring.conditionings, len(steps))
        for template, context in product(range(scoring.templates), contexts):
            prompt = ids(render_question(row["question"], template))
            read = sum((steps[step] for step in context.steps(len(steps))), prompt)
            keys = ((name, template, context.kind, context.step_index, rank) for rank in range(len(targets)))
            requests += [Request(key, read, target) for key, target in zip(keys, targets, strict=True)]
    return requests


def distinct_tokens(requests: Iterable[Request]) -> int:
    """Number of distinct non-empty prefixes of all contexts with answers, without last tokens."""
    texts = sorted({request.context + request.target[:-1] for request in requests})
    return sum(map(len, texts)) - sum(_common_length(left, right) for left, right in pairwise(texts))


def _common_length(left: TokenIds, right: TokenIds) -> int:
    return next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), len(left))


class TokenMeter:
    """Counts by hooks what goes through a model inside a `with` block.

    Attributes:
        tokens: tokens through the layers, padding included.
        projected: positions projected to the vocabulary.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        body: Any = model.base_model
        self._layer = next(module for module in body.modules() if isinstance(module, torch.nn.ModuleList))[0]
        self._projection: Any = model.get_output_embeddings()
        self.passes = self.tokens = self.projected = 0

    def __enter__(self) -> "TokenMeter":
        """Attach the hooks."""
        read = self._layer.register_forward_pre_hook(self._count_read, with_kwargs=True)
        self._handles = [read, self._projection.register_forward_pre_hook(self._count_projected)]
        return self

    def __exit__(self, *_: object) -> None:
        """Take them off."""
        for handle in self._handles:
            handle.remove()

    def _count_read(self, _: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.passes += 1
        self.tokens += (args[0] if args else kwargs["hidden_states"]).shape[:2].numel()

    def _count_projected(self, _: torch.nn.Module, args: tuple[Any, ...]) -> None:
        self.projected += args[0].shape[:-1].numel()


def tree(model: LoadedModel, trajectories: pl.DataFrame, negatives: pl.DataFrame, scoring: Scoring) -> Logprobs:
    """Our scorer, from text to table; with `scorer: reference`, one sequence at a time."""
    table = answer_logprobs(trajectories, negatives, model, scoring).logprobs
    return {cast(Key, row[:-1]): row[-1] for row in table.select(*KEY_COLUMNS, "logprob_sum").iter_rows()}


def released(model: LoadedModel, requests: Sequence[Request]) -> Logprobs:
    """The authors' procedure: sequences padded on the right with a mask, logits of every position, log-softmax over
    the target's."""
    scored: dict[Key, float] = {}
    for first in range(0, len(requests), RELEASED_BATCH):
        part = requests[first : first + RELEASED_BATCH]
        lengths = torch.tensor([len(each.context) + len(each.target) for each in part])
        longest = int(lengths.max())
        texts = [[*each.context, *each.target, *[0] * longest][:longest] for each in part]
        ids = torch.tensor(texts).to(model.device)
        mask = (torch.arange(longest) < lengths[:, None]).long().to(model.device)
        with torch.inference_mode():
            logits = model.model(input_ids=ids, attention_mask=mask, use_cache=False).logits
            for request, row, tokens in zip(part, logits, ids, strict=True):
                start, end = len(request.context), len(request.context) + len(request.target)
                logprobs = row[start - 1 : end - 1].float().log_softmax(-1)
                scored[request.key] = float(logprobs.gather(1, tokens[start:end, None]).double().sum())
    return scored


class Harness:
    """lm-evaluation-harness on the loaded model, with `batch` sequences a forward pass.

    `HFLM.loglikelihood` tokenises the pair and moves the newline that ends a context into the target, so this calls
    `HFLM._loglikelihood_tokens`, which sorts by length, computes sequences that differ only in their last token once,
    and projects every position to the vocabulary.
    """

    def __init__(self, model: LoadedModel, batch: int) -> None:
        from lm_eval.models import huggingface

        logging.getLogger("lm_eval").setLevel(logging.ERROR)
        harness: Any = huggingface.HFLM
        self._model = harness(
            pretrained=model.model, tokenizer=model.tokenizer, batch_size=batch, max_length=model.context_length
        )

    def __call__(self, requests: Sequence[Request]) -> Logprobs:
        """log p of every target."""
        pairs = [(None, list(request.context), list(request.target)) for request in requests]
        outcomes = self._model._loglikelihood_tokens(pairs, disable_tqdm=True)
        return {request.key: value for request, (value, _) in zip(requests, outcomes, strict=True)}
