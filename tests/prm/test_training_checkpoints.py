"""A killed training goes on from its last checkpoint, to the weights it would have had; the best weights are kept."""

import pytest
import torch
from pytest import approx

from cpmi_dagster.prm import load_reward_model
from cpmi_dagster.prm.examples import training_set
from cpmi_dagster.prm.fitting import last_checkpoint
from cpmi_dagster.prm.inputs import pad_batch, pad_rows
from cpmi_dagster.prm.objectives import binary_cross_entropy
from cpmi_dagster.prm.settings import Lora, Training
from cpmi_dagster.prm.trainer import StepTrainer

pytestmark = pytest.mark.slow

SMALL = {"trajectories": 48, "batch_size": 4}
"""38 to train on, ten steps an epoch."""
PATIENT = {**SMALL, "epochs": 6, "validations": 12}


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


@pytest.mark.parametrize("lora", [None, Lora(rank=2, dropout=0.2)])
def test_a_killed_training_ends_with_the_weights_of_one_that_was_not(train, tmp_path, lora):
    short = {**SMALL, "epochs": 2, "checkpoints": 4, "validations": 3, "lora": lora}
    whole, saves, reported = train("whole", **short), tmp_path / "saves", []
    with pytest.raises(Killed):
        train("m", progress=kill_after(60), saves=saves, **short)
    assert not (tmp_path / "m").exists()
    assert last_checkpoint(saves) == str(saves / "checkpoint-15")
    resumed = train("m", progress=reported.append, saves=saves, **short)
    assert (resumed.weights_fingerprint, resumed.curve) == (whole.weights_fingerprint, whole.curve)
    assert sum(reported) == approx(2 * 38, abs=2)
    assert len(reported) < 10
    assert {path.name for path in resumed.path.iterdir()} == {path.name for path in whole.path.iterdir()}


def test_a_checkpoint_that_was_cut_off_is_passed_over(tmp_path):
    for number, text in ((9, "{}"), (10, "{}"), (12, '{"global'), (13, None)):
        folder = tmp_path / f"checkpoint-{number}"
        folder.mkdir()
        if text is not None:
            (folder / "trainer_state.json").write_text(text)
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")
    assert last_checkpoint(tmp_path / "checkpoint-13") is last_checkpoint(None) is None


@pytest.fixture
def script(monkeypatch):
    """`script(losses)`: the loss of each validation, five steps apart; returns the weights at each of them."""

    def scripted_by(losses):
        evaluation_loop, weights = StepTrainer.evaluation_loop, {}

        def scripted(trainer, *args, **kwargs):
            output = evaluation_loop(trainer, *args, **kwargs)
            number = trainer.state.global_step // 5
            weights[number] = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
            return output._replace(metrics={**output.metrics, "eval_loss": losses[number]})

        monkeypatch.setattr(StepTrainer, "evaluation_loop", scripted)
        return weights

    return scripted_by


def validation_losses(trained):
    """The loss of each validation, that at the start first."""
    return [point["loss"] for point in trained.curve if point["split"] == "validation"]


LATER_BETTER = [0.7, *(0.6 - 0.01 * number for number in range(12))]


@pytest.mark.parametrize(
    ("losses", "last", "best"),
    [
        ([0.7, 0.5, 0.6, 0.6], 3, 1),
        ([0.7, 0.5, 0.6, 0.4, 0.45, 0.3, 0.35, 0.35], 7, 5),
        ([0.7, 0.5, 0.5, 0.5], 3, 1),
        ([0.3, 0.5, 0.4, 0.45, 0.45], 4, 2),
        ([*LATER_BETTER[:-1], 0.9], 12, 11),
    ],
    ids=["at once", "later", "a loss as good is not better", "the start does not count", "all but the last"],
)
def test_early_stopping_ends_the_training_and_keeps_the_best_weights(train, script, losses, last, best):
    weights = script(losses)
    stopped = train("stopped", early_stopping=2, **PATIENT)
    assert validation_losses(stopped) == losses[: last + 1]
    kept = load_reward_model(stopped.path).model.state_dict()
    assert max(weights) == last
    assert all(torch.equal(kept[name], tensor) for name, tensor in weights[best].items())


def test_early_stopping_goes_by_the_losses_of_the_validation_set(train, build_examples):
    stopped = train("stopped", learning_rate=0.05, early_stopping=2, **PATIENT)
    losses = validation_losses(stopped)[1:]
    # how these losses go is the processor's business
    without_better = [number - losses.index(min(losses[: number + 1])) for number in range(len(losses))]
    assert all(count < 2 for count in without_better[:-1])
    assert without_better[-1] == 2 or len(losses) == 12

    loaded = load_reward_model(stopped.path)
    validation = training_set(build_examples(48), loaded.tokenizer, 128, 0.2, seed=0).validation
    by_length = sorted(validation, key=lambda example: len(example.encoded.token_ids))
    total = 0.0
    for batch in (by_length[start : start + 4] for start in range(0, len(by_length), 4)):
        inputs, mask = pad_batch([example.encoded for example in batch])
        labels, _ = pad_rows([example.labels for example in batch], torch.float32)
        with torch.no_grad():
            total += len(batch) * float(binary_cross_entropy(loaded.model(**inputs).logits, labels, mask))
    assert total / len(by_length) == approx(min(losses), abs=1e-4)


def test_a_killed_training_keeps_its_patience(train, script, tmp_path):
    script([0.7, 0.6, 0.5, 0.55, 0.55, 0.55, *LATER_BETTER[6:]])
    whole, saves = train("whole", early_stopping=3, **PATIENT), tmp_path / "saves"
    assert whole.curve[-1]["step"] == 25
    with pytest.raises(Killed):
        # between the last two validations, when most of the patience is gone
        train("m", progress=kill_after(38 * 25 // 10 - 10), saves=saves, early_stopping=3, **PATIENT)
    assert last_checkpoint(saves) == str(saves / "checkpoint-20")
    resumed = train("m", saves=saves, early_stopping=3, **PATIENT)
    assert (resumed.weights_fingerprint, resumed.curve) == (whole.weights_fingerprint, whole.curve)


def test_early_stopping_without_validation_is_a_contradiction():
    with pytest.raises(ValueError, match="`validation_share`"):
        Training(early_stopping=2, validation_share=0)
