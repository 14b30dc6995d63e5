"""Training under an accelerate configuration: processes that share batches, FSDP, and what happens when one fails."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from accelerate.commands.config import load_config_from_file
from sklearn.metrics import roc_auc_score
from waiting import wait_until

from cpmi_dagster.errors import TrainingError
from cpmi_dagster.prm import load_reward_model, score_steps
from cpmi_dagster.prm.settings import Training

REPOSITORY = Path(__file__).resolve().parents[2]

# what `accelerate config` writes for two GPUs; without GPUs the processes take the CPU
TWO_PROCESSES: dict[str, Any] = {
    "compute_environment": "LOCAL_MACHINE",
    "distributed_type": "MULTI_GPU",
    "machine_rank": 0,
    "mixed_precision": "no",
    "num_machines": 1,
    "num_processes": 2,
}


@pytest.fixture(scope="session")
def backbone(decoder, tmp_path_factory):
    """The random Qwen3 as a folder, which several processes can load."""
    folder = tmp_path_factory.mktemp("backbone")
    decoder.model.save_pretrained(folder)
    decoder.tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_two_processes_share_the_batches_and_learn_what_the_labels_say(backbone, train, toy, tmp_path):
    reported = []
    trained = train("two", backbone=backbone, progress=reported.append, batch_size=4, accelerate=TWO_PROCESSES)
    assert trained.curve[-1]["step"] == 6 * 10
    assert sum(reported) == 6 * 76
    scored = score_steps(load_reward_model(trained.path), toy.drop("labels"), batch_tokens=4096)
    assert roc_auc_score(toy["labels"].explode().to_numpy() > 0.5, scored["probability"].to_numpy()) > 0.9
    assert "4 x 1 trajectories in each of 2 processes" in (trained.path / "README.md").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["two"]


@pytest.mark.slow
def test_what_a_process_complains_of_is_what_the_caller_reads(train, tmp_path):
    with pytest.raises(TrainingError, match=r"recipe toy_bce .*/nowhere"):
        train("m", backbone=tmp_path / "nowhere", accelerate={"num_processes": 1})
    assert list(tmp_path.iterdir()) == []


TRAIN_FOREVER = """
import sys
from pathlib import Path
sys.path.insert(0, "tests/prm")
from conftest import toy_examples
from cpmi_dagster.prm import train_reward_model
from cpmi_dagster.prm.settings import Recipe, Training
training = Training(epochs=10_000, max_tokens=128, bf16=False, accelerate={"num_processes": 1})
recipe, folder = Recipe(name="m", reward_type="mc"), Path(sys.argv[1])
tell = lambda count: print("training", flush=True)
train_reward_model(toy_examples(8), recipe, training, sys.argv[2], folder / "m", 0, progress=tell)
"""


@pytest.mark.slow
def test_the_processes_end_when_the_one_that_asked_for_them_is_killed(backbone, tmp_path):
    command = [sys.executable, "-c", TRAIN_FOREVER, str(tmp_path), str(backbone)]
    asking = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert asking.stdout is not None
    assert asking.stdout.readline() == "training\n"
    asking.kill()
    asking.wait()
    asking.stdout.close()

    def launched() -> list[str]:
        commands = [path.read_bytes().decode(errors="replace") for path in Path("/proc").glob("[0-9]*/cmdline")]
        return [command for command in commands if f"{tmp_path}/.m." in command]

    wait_until(lambda: not launched(), 120, "the processes go on")
    assert not (tmp_path / "m").exists()


def test_a_model_in_memory_and_several_machines_are_refused(train, tmp_path):
    with pytest.raises(ValueError, match="`num_machines`"):
        Training(accelerate={**TWO_PROCESSES, "num_machines": 2})
    with pytest.raises(TrainingError, match="backbone's folder or hub id"):
        train("m", accelerate=TWO_PROCESSES)
    assert list(tmp_path.iterdir()) == []


def test_the_documented_fsdp_configuration_is_one_that_accelerate_reads(tmp_path):
    text = (REPOSITORY / "docs" / "training.md").read_text().split('```yaml title="fsdp.yaml"\n')[1].split("```")[0]
    file = tmp_path / "fsdp.yaml"
    file.write_text(text)
    config = load_config_from_file(str(file))
    assert config.to_dict().items() >= {"distributed_type": "FSDP", "num_processes": 8}.items()
    assert Training(accelerate=file).accelerate == yaml.safe_load(text)  # pyright: ignore[reportArgumentType]
