"""Training under an accelerate configuration: processes that share batches, FSDP, and what happens when one fails."""

import subprocess
import sys
from pathlib import Path

import pytest
from toy_models import random_decoder
from waiting import wait_until

from cpmi_dagster.prm import load_reward_model

REPOSITORY = Path(__file__).resolve().parents[2]
TRAIN_FOREVER = """
import sys
from pathlib import Path
sys.path.insert(0, "tests/prm")
from toy_models import toy_examples
from cpmi_dagster.prm import train_reward_model
from cpmi_dagster.prm.settings import Recipe, Training
training = Training(epochs=10_000, max_tokens=128, bf16=False, accelerate={"num_processes": 1})
recipe, folder = Recipe(name="m", reward_type="mc"), Path(sys.argv[1])
tell = lambda count: print("training", flush=True)
train_reward_model(toy_examples(8), recipe, training, sys.argv[2], folder / "m", 0, progress=tell)
"""


@pytest.fixture(scope="session")
def backbone(tmp_path_factory):
    """The random Qwen3 as a folder, which several processes can load."""
    folder = tmp_path_factory.mktemp("backbone")
    random_decoder().model.save_pretrained(folder)
    random_decoder().tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_two_processes_share_the_batches(backbone, train, tmp_path):
    counts, configuration = [], {"distributed_type": "MULTI_GPU", "num_processes": 2}
    trained = train("two", decoder=backbone, progress=counts.append, batch_size=4, epochs=1, accelerate=configuration)
    assert (trained.curve[-1]["step"], sum(counts)) == (10, 76)
    losses = [point["loss"] for point in trained.curve if point["split"] == "validation"]
    assert losses[-1] < losses[0]
    assert "4 x 1 trajectories in each of 2 processes" in (trained.path / "README.md").read_text()
    assert load_reward_model(trained.path).identity.startswith("two@")
    assert [path.name for path in tmp_path.iterdir()] == ["two"]


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
