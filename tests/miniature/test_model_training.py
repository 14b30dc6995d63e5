"""The training loop and the measurement, on a model of toy size."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from scripts.miniature_models.batches import encode, group_by_length, pad, training_batches
from scripts.miniature_models.corpus import documents
from scripts.miniature_models.measure import accuracy, stated_answer
from scripts.miniature_models.muon import orthogonalise
from scripts.miniature_models.recipes import RECIPES
from scripts.miniature_models.tokenizer import EOS_ID, build_tokenizer
from scripts.miniature_models.train import (
    build_model,
    learning_rate_share,
    probe_problems,
    save,
    summed_loss,
    train_steps,
)

TOY = replace(RECIPES["prover"], hidden_size=32, feed_forward=64, layers=1, head_size=8, steps=60, batch_tokens=400)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer()


def test_training_lowers_the_loss(tokenizer: PreTrainedTokenizerFast) -> None:
    model = build_model(TOY, tokenizer)
    losses = [loss for _step, loss in train_steps(model, TOY, training_batches(tokenizer, TOY.batch_tokens, seed=1))]
    assert len(losses) == TOY.steps
    assert max(losses[-3:]) < min(losses[:3])


def test_only_continuations_are_predicted(tokenizer: PreTrainedTokenizerFast) -> None:
    chunk = list(islice(documents(3), 5))
    encoded = encode(tokenizer, chunk)
    batch = pad(encoded)
    for row, document in enumerate(chunk):
        predicted = batch.input_ids[row][batch.is_target[row]]
        assert tokenizer.decode(predicted[:-1]) == document.continuation
        assert predicted[-1] == EOS_ID
    _loss, tokens = summed_loss(build_model(TOY, tokenizer), batch)
    assert tokens == batch.is_target.sum()


def test_groups_keep_every_document_and_the_token_budget(tokenizer: PreTrainedTokenizerFast) -> None:
    encoded = encode(tokenizer, list(islice(documents(4), 60)))
    groups = group_by_length(encoded, batch_tokens=1_500)
    assert sorted(map(str, encoded)) == sorted(str(document) for group in groups for document in group)
    assert all(len(group) * max(len(document.ids) for document in group) <= 1_500 for group in groups)


def test_the_learning_rate_rises_and_falls() -> None:
    shares = [learning_rate_share(step, 1_000) for step in range(1, 1_001)]
    peak = shares.index(max(shares))
    assert shares[: peak + 1] == sorted(shares[: peak + 1])
    assert shares[peak:] == sorted(shares[peak:], reverse=True)


@pytest.mark.parametrize("shape", [(8, 8), (6, 20), (20, 6)])
def test_orthogonalised_updates_have_singular_values_near_one(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    singular_values = torch.linalg.svdvals(orthogonalise(torch.randn(shape)))
    assert singular_values.min() > 0.3
    assert singular_values.max() < 1.4


def test_a_saved_model_is_measured(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    model = build_model(TOY, tokenizer)
    save(model, tokenizer, tmp_path)
    assert (tmp_path / "model.safetensors").exists()
    assert accuracy(model.eval(), tokenizer, probe_problems()[:2], temperature=0.6) == 0.0


def test_the_last_stated_answer_counts() -> None:
    assert stated_answer("So 3. The answer is: 3\nThe answer is: 4\n") == "4"
    assert stated_answer("No idea.") is None
