"""A model trained on the toy corpus, and the training of others."""

import pytest
from toy_models import RECIPE, TRAINING, random_decoder, toy_examples

from cpmi_dagster.prm.training import train_reward_model


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A model trained on 96 trajectories of the toy, once for all tests."""
    folder, decoder = tmp_path_factory.mktemp("models") / "toy_bce", random_decoder()
    return train_reward_model(toy_examples(96), RECIPE, TRAINING, decoder, folder, seed=0, data_version="labels-1")


@pytest.fixture
def train(tmp_path):
    """`train("m", 8, epochs=1)`: a model in a folder of that name, from the toy with changed training settings."""

    def run(name, trajectories=96, recipe=RECIPE, decoder=None, seed=0, **options):
        arguments = {"progress": "progress", "checkpoints_in": "checkpoints", "features": "features"}
        given = {argument: options.pop(key) for key, argument in arguments.items() if key in options}
        training, decoder = TRAINING.model_copy(update=options), decoder or random_decoder()
        return train_reward_model(toy_examples(trajectories), recipe, training, decoder, tmp_path / name, seed, **given)

    return run
