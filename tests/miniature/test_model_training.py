"""The training loop and the measurement, on a model of toy size."""

from dataclasses import replace
from itertools import islice

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from scripts.miniature_models.batches import TokenTree, encode, group_by_length, pad, training_batches
from scripts.miniature_models.corpus import documents
from scripts.miniature_models.measure import accuracy, stated_answer
from scripts.miniature_models.muon import orthogonalise
from scripts.miniature_models.recipes import RECIPES
from scripts.miniature_models.tokenizer import build_tokenizer
from scripts.miniature_models.train import (
    build_model,
    continued,
    learning_rate_share,
    probe_problems,
    save,
    summed_loss,
    train_steps,
)

pytestmark = pytest.mark.slow

TOY = replace(RECIPES["prover"], hidden_size=32, feed_forward=64, layers=1, head_size=8, steps=60, batch_tokens=400)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer()


def test_training_lowers_the_loss(tokenizer):
    model = build_model(TOY, tokenizer)
    losses = [loss for _step, loss in train_steps(model, TOY, training_batches(tokenizer, TOY.batch_tokens, seed=1))]
    assert len(losses) == TOY.steps
    assert max(losses[-3:]) < min(losses[:3])


def branch(tree: TokenTree, node: int) -> list[int]:
    """The nodes from the root to a node."""
    return [] if node < 0 else [*branch(tree, tree.parents[node]), node]


def leaves(tree: TokenTree) -> list[list[int]]:
    return [branch(tree, node) for node in set(range(len(tree))) - set(tree.parents)]


def test_a_tree_holds_the_document_and_its_early_answers(tokenizer):
    document = next(documents(3))
    (tree,) = encode(tokenizer, [document])
    texts = {tokenizer.decode([tree.ids[node] for node in leaf]) for leaf in leaves(tree)}
    early = {f"{document.prompt}{''.join(steps)}The answer is: {answer}\n" for steps, answer in document.early}
    assert texts == {f"{document.prompt}{document.continuation}{tokenizer.eos_token}", *early}


def test_only_continuations_and_early_answers_are_predicted(tokenizer):
    document = next(documents(3))
    (tree,) = encode(tokenizer, [document])
    predicted = {tokenizer.decode([tree.ids[node] for node in leaf if tree.weights[node]]) for leaf in leaves(tree)}
    # an early answer after no step shares its "The" with a document that begins so
    endings = (f" {document.early[0].answer}\n", f"{document.continuation}{tokenizer.eos_token}")
    assert all(text.endswith(endings) for text in predicted)
    assert endings[1] in predicted


def test_an_early_answer_is_read_as_if_it_stood_alone(tokenizer):
    model = build_model(TOY, tokenizer).eval()
    (tree,) = encode(tokenizer, [next(documents(3))])
    batch = pad([tree])
    with torch.inference_mode():
        together = model.model(batch.input_ids, attention_mask=batch.sees[:, None], position_ids=batch.positions)
        for leaf in leaves(tree):
            alone = model.model(torch.tensor([[tree.ids[node] for node in leaf]]))
            torch.testing.assert_close(
                together.last_hidden_state[0, leaf], alone.last_hidden_state[0], atol=1e-4, rtol=1e-4
            )


def test_every_token_that_is_predicted_counts(tokenizer):
    trees = encode(tokenizer, list(islice(documents(3), 5)))
    _loss, tokens = summed_loss(build_model(TOY, tokenizer), pad(trees))
    assert tokens == sum(sum(tree.weights) for tree in trees)


def test_groups_keep_every_document_and_the_token_budget(tokenizer):
    encoded = encode(tokenizer, list(islice(documents(4), 60)))
    groups = group_by_length(encoded, batch_tokens=1_500)
    assert sorted(map(id, encoded)) == sorted(id(tree) for group in groups for tree in group)
    assert all(len(group) * max(map(len, group)) <= 1_500 for group in groups)


def test_a_continued_model_reads_known_tokens_as_before(tokenizer, tmp_path):
    model = build_model(TOY, tokenizer)
    save(model, tokenizer, tmp_path, "float32")
    weights = continued(tmp_path, TOY, tokenizer).state_dict()
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())


def test_layers_on_top_of_a_continued_model_add_nothing_before_they_are_trained(tokenizer, tmp_path):
    model = build_model(TOY, tokenizer).eval()
    save(model, tokenizer, tmp_path, "float32")
    taller = continued(tmp_path, replace(TOY, layers=TOY.layers + 1), tokenizer).eval()
    tokens = torch.arange(2, 12)[None]
    with torch.inference_mode():
        assert torch.allclose(taller(tokens).logits, model(tokens).logits, atol=1e-5)


def test_of_a_marked_solution_the_marks_alone_are_learned(tokenizer):
    document = next(one for one in documents(3, marked=1.0) if len(one.marks) > 1)
    (tree,) = encode(tokenizer, [document])
    assert len(document.marks) == document.continuation.count("\n")
    marks = {mark: tokenizer(mark)["input_ids"] for mark in document.marks}
    learned = [node for node, weight in enumerate(tree.weights) if weight]
    assert {tree.ids[node] for node in learned} == {token for ids in marks.values() for token in ids}
    assert len(learned) == sum(len(marks[mark]) for mark in document.marks)


def test_the_learning_rate_rises_and_falls():
    shares = [learning_rate_share(step, 1_000) for step in range(1, 1_001)]
    peak = shares.index(max(shares))
    assert shares[: peak + 1] == sorted(shares[: peak + 1])
    assert shares[peak:] == sorted(shares[peak:], reverse=True)


@pytest.mark.parametrize("shape", [(8, 8), (6, 20), (20, 6)])
def test_orthogonalised_updates_have_singular_values_near_one(shape):
    torch.manual_seed(0)
    singular_values = torch.linalg.svdvals(orthogonalise(torch.randn(shape)))
    assert singular_values.min() > 0.3
    assert singular_values.max() < 1.4


def test_a_saved_model_is_measured(tokenizer, tmp_path):
    model = build_model(TOY, tokenizer)
    save(model, tokenizer, tmp_path, "float16")
    assert (tmp_path / "model.safetensors").exists()
    assert accuracy(model.eval(), tokenizer, probe_problems()[:2], temperature=0.6) == 0.0


def test_the_last_stated_answer_counts():
    assert stated_answer("So 3. The answer is: 3\nThe answer is: 4\n") == "4"
    assert stated_answer("No idea.") is None
