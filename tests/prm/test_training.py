"""Training learns what the labels say, is repeatable and resumable, and leaves a whole model or none."""

import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from toy_models import RECIPE, random_decoder, toy_examples

from cpmi_dagster.errors import TrainingError
from cpmi_dagster.models.language_models import weights_hash
from cpmi_dagster.prm import load_reward_model, score_steps, trainer
from cpmi_dagster.prm.inputs import EncodedSolution, LabelledSolution, collate, training_set, validation_questions
from cpmi_dagster.prm.settings import Lora
from cpmi_dagster.prm.trainer import SimilarLengthSampler, loss_units, objective, split_batch
from cpmi_dagster.prm.training import last_checkpoint

pytestmark = pytest.mark.slow


def auc(path, examples):
    """How well step probabilities rank right steps over wrong ones."""
    scored = score_steps(load_reward_model(path), examples.drop("labels"), batch_tokens=4096)
    return float(roc_auc_score(examples["labels"].explode().to_numpy() > 0.5, scored["probability"].to_numpy()))


def losses_of(model):
    """The loss of each validation, that at the start first."""
    return [point["loss"] for point in model.curve if point["split"] == "validation"]


def test_wrong_steps_of_unseen_trajectories_are_ranked_below_right_ones_and_the_curve_says_so(trained):
    assert auc(trained.path, toy_examples(40, seed=1)) > 0.9
    points = pl.DataFrame(trained.curve)
    assert points.columns == ["step", "epoch", "split", "loss"]
    assert points.filter(split="validation")["epoch"].to_list() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert losses_of(trained)[-1] < losses_of(trained)[0]


def test_adapters_learn_too_and_are_merged_into_the_layers_that_had_them(train):
    lora = Lora(rank=2, alpha=8, target_modules=("q_proj", "up_proj"))
    model = train("toy", lora=lora, learning_rate=2e-2, epochs=5)
    assert auc(model.path, toy_examples(40, seed=1)) > 0.7
    after = load_reward_model(model.path).model.backbone.state_dict()
    for name, weights in random_decoder().model.base_model.state_dict().items():
        difference = after.pop(name) - weights
        rank = torch.linalg.matrix_rank(difference, rtol=1e-4) if weights.ndim == 2 else difference.abs().max()
        is_adapted = name.split(".")[-2] in ("q_proj", "up_proj")
        assert 1 <= rank <= 2 if is_adapted else rank == 0
    assert not after


def test_the_same_seed_gives_the_same_weights_and_a_recipe_changes_settings_and_draws(train):
    first, again = train("a", 16, seed=7, epochs=2), train("b", 16, seed=7, epochs=2)
    assert (again.weights_fingerprint, again.curve) == (first.weights_fingerprint, first.curve)
    assert first.weights_fingerprint == weights_hash(first.path)
    other = RECIPE.model_copy(update={"seed": 3, "training": {"epochs": 2}})
    assert train("c", 16, seed=4, recipe=other, epochs=1).weights_fingerprint == first.weights_fingerprint
    assert train("d", 16, seed=4, epochs=2).weights_fingerprint != first.weights_fingerprint


def test_validation_questions_are_never_trained_on_and_long_trajectories_lose_their_last_steps():
    examples, tokenizer = toy_examples(60), random_decoder().tokenizer
    data = training_set(examples, tokenizer, 128, 0.2, seed=0)
    held_out = validation_questions(examples["question_id"], 0.2, seed=0)
    kept = examples.filter(~pl.col("question_id").is_in(list(held_out)))
    assert (len(held_out), len(data.train), len(data.validation)) == (6, kept.height, examples.height - kept.height)
    assert (data.train_steps, data.truncated) == (kept["steps"].list.len().sum(), 0)
    cut = training_set(examples, tokenizer, 70, 0.2, seed=0)
    assert cut.train_steps < data.train_steps and 0 < cut.truncated <= 60
    assert all(len(example.labels) == len(example.encoded.step_positions) > 0 for example in cut.train)
    for ids, share, count in (("ab", 0.0, 0), ("aa", 0.5, 0), ("ab", 0.99, 1)):
        assert len(validation_questions(pl.Series(list(ids)), share, seed=0)) == count


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 9))
def test_an_epoch_holds_every_example_once(lengths, batch_size):
    assert sorted(SimilarLengthSampler(lengths, batch_size)) == list(range(len(lengths)))


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(1, 40), st.sampled_from(["bce", "mse", "pqm"]))
@settings(max_examples=30)
def test_the_gradient_of_a_batch_is_the_same_in_whatever_parts_it_is_read(steps, most_tokens, name):
    solutions = [
        LabelledSolution(
            EncodedSolution([1] * (2 + 3 * count), list(range(1, count + 1))), [0.2 + 0.1 * n for n in range(count)]
        )
        for count in steps
    ]
    batch, scores = collate(solutions), torch.linspace(-1, 1, max(steps) * len(steps)).reshape(len(steps), -1)
    whole, parted = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    loss, units = objective(name), loss_units(name, batch["step_mask"])
    loss(whole, batch["labels"], batch["step_mask"]).backward()
    first = 0
    for part in split_batch(batch, most_tokens):
        mask = part["step_mask"]
        count, width = mask.shape
        assert count == 1 or part["input_ids"].numel() <= most_tokens
        share = loss_units(name, mask).sum() / units.sum()
        (loss(parted[first : first + count, :width], part["labels"], mask) * share).backward()
        first += count
    assert first == len(steps)
    assert torch.allclose(parted.grad, whole.grad, atol=1e-6)


def test_a_batch_that_does_not_fit_the_memory_is_trained_in_parts_to_the_same_losses(train, monkeypatch):
    whole = train("whole", 16, epochs=2)
    monkeypatch.setattr(trainer, "training_tokens", lambda *_: 1)
    assert losses_of(train("parts", 16, epochs=2)) == pytest.approx(losses_of(whole), rel=1e-3)


@pytest.mark.parametrize("labels", [[0.5], [0.5, 1.5], [0.5, float("nan")], [0.5, None], None])
def test_labels_that_do_not_fit_the_steps_name_the_trajectory(labels):
    row = {"trajectory_id": "t7", "question_id": "q", "question": "How many ?", "steps": ["we add", "so five"]}
    examples = pl.DataFrame([{**row, "labels": labels}], schema_overrides={"labels": pl.List(pl.Float64)})
    with pytest.raises(TrainingError, match="trajectory t7"):
        training_set(examples, random_decoder().tokenizer, 128, 0.0, seed=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rate": 1e38, "head_learning_rate": 1e38, "warmup_ratio": 0.0}, r"training\.learning_rate"),
        ({"lora": Lora(target_modules=("no_such_layer",))}, r"training\.lora\.target_modules: .*no_such_layer"),
    ],
)
def test_a_training_that_fails_names_the_setting_and_leaves_nothing(train, tmp_path, changes, message):
    with pytest.raises(TrainingError, match=message):
        train("m", 48, **changes)
    assert list(tmp_path.iterdir()) == []


class Killed(BaseException):
    """Nothing in the training may catch it."""


def kill_after(examples):
    """Progress that ends the process, as far as training can tell, once so many examples are done."""

    def progress(count):
        nonlocal examples
        examples -= count
        if examples <= 0:
            raise Killed

    return progress


# 38 to train on, ten steps an epoch
SMALL = {"trajectories": 48, "batch_size": 4, "epochs": 2, "checkpoints": 4, "validations": 4}


def test_a_killed_training_ends_with_the_weights_of_one_that_was_not(train, tmp_path):
    lora = Lora(rank=2, dropout=0.2)
    whole, saves, counts = train("whole", lora=lora, **SMALL), tmp_path / "saves", []
    with pytest.raises(Killed):
        train("m", progress=kill_after(60), checkpoints_in=saves, lora=lora, **SMALL)
    assert not (tmp_path / "m").exists()
    assert last_checkpoint(saves) == str(saves / "checkpoint-15")
    # neither an older one nor one that was cut off is taken
    for number, state in ((9, "{}"), (18, '{"global')):
        (saves / f"checkpoint-{number}").mkdir()
        (saves / f"checkpoint-{number}" / "trainer_state.json").write_text(state)
    assert last_checkpoint(saves) == str(saves / "checkpoint-15")
    resumed = train("m", progress=counts.append, checkpoints_in=saves, lora=lora, **SMALL)
    assert (resumed.weights_fingerprint, resumed.curve) == (whole.weights_fingerprint, whole.curve)
    assert sum(counts) == pytest.approx(2 * 38, abs=2) and len(counts) < 10
    assert {path.name for path in resumed.path.iterdir()} == {path.name for path in whole.path.iterdir()}
