"""Tiny random decoders with a word tokenizer, and a toy corpus in which steps with the word `oops` are wrong."""

import random
from copy import deepcopy
from functools import cache
from typing import Any

import polars as pl
import pytest
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.prm.model import LoadedRewardModel, RewardModel
from cpmi_dagster.prm.settings import Recipe, Training
from cpmi_dagster.prm.training import train_reward_model
from cpmi_dagster.trajectories.templates import render_context

WORDS = ["we", "add", "two", "and", "three", "then", "oops", "five", "hence", "so"]
CONTEXT = 128


@cache
def word_tokenizer(bos: bool) -> PreTrainedTokenizerFast:
    """One token per word or punctuation mark of the template and the toy steps; with `bos`, one before every text."""
    split = pre_tokenizers.Split(Regex(r"\n|\w+|[^\w\s]"), behavior="removed", invert=True)
    known = dict.fromkeys(piece for piece, _ in split.pre_tokenize_str(render_context("How many ?", [" ".join(WORDS)])))
    vocabulary = {word: index for index, word in enumerate(["<unk>", "<s>", *known])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = split
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", unk_token="<unk>")


@cache
def random_decoder(architecture: str = "qwen3", bos: bool = False, context: int = CONTEXT) -> LoadedModel:
    """A randomly initialised causal model of two layers."""
    tokenizer = word_tokenizer(bos)
    size: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": context,
    }
    config = CONFIG_MAPPING[architecture](**size)
    torch.manual_seed(0)
    return LoadedModel(AutoModelForCausalLM.from_config(config), tokenizer, f"random:{architecture}@0", context)


def random_reward_model(architecture: str = "qwen3", bos: bool = False, context: int = CONTEXT) -> LoadedRewardModel:
    """A reward model on a copy of that decoder, not trained."""
    decoder = random_decoder(architecture, bos, context)
    backbone = deepcopy(decoder.model.base_model)
    assert isinstance(backbone, PreTrainedModel)
    return LoadedRewardModel(RewardModel.from_backbone(backbone).eval(), decoder.tokenizer, decoder.identity)


@cache
def toy_examples(trajectories: int, seed: int = 0) -> pl.DataFrame:
    """Trajectories of one to five steps; a step is wrong, soft label 0.1, where it says `oops`, else right, 0.9."""
    rng = random.Random(seed)
    rows = []
    for number in range(trajectories):
        steps = [" ".join(rng.choices(WORDS, k=rng.randint(3, 6))) for _ in range(rng.randint(1, 5))]
        labels = [0.1 if "oops" in step else 0.9 for step in steps]
        rows.append((f"t{number:09d}", f"q{number // 2}", f"How many {WORDS[number % 5]} ?", steps, labels))
    columns = ["trajectory_id", "question_id", "question", "steps", "labels"]
    return pl.DataFrame(rows, schema=columns, orient="row")


@pytest.fixture(scope="session")
def build_decoder():
    """`build_decoder(architecture="qwen3", bos=False, context=128)`."""
    return random_decoder


@pytest.fixture(scope="session")
def build_reward_model():
    """`build_reward_model(architecture="qwen3", bos=False, context=128)`."""
    return random_reward_model


@pytest.fixture(scope="session")
def build_examples():
    """`build_examples(trajectories, seed)`."""
    return toy_examples


@pytest.fixture(scope="session")
def decoder():
    """A random Qwen3."""
    return random_decoder()


@pytest.fixture(scope="session")
def toy():
    """The toy corpus that models are trained on: 96 trajectories of 48 questions."""
    return toy_examples(96)


@pytest.fixture(scope="session")
def recipe():
    """The default recipe."""
    return Recipe(name="toy_bce", reward_type="mc")


@pytest.fixture(scope="session")
def training():
    """Settings under which the toy is learnt in a second."""
    rates = {"learning_rate": 3e-3, "head_learning_rate": 3e-3}
    sizes = {"batch_size": 8, "gradient_accumulation": 1, "max_tokens": CONTEXT}
    return Training(epochs=6, bf16=False, validation_share=0.2, validations=6, **rates, **sizes)


@pytest.fixture(scope="session")
def trained(decoder, toy, recipe, training, tmp_path_factory):
    """A model trained on the toy, once for all tests."""
    folder = tmp_path_factory.mktemp("models") / "toy_bce"
    return train_reward_model(toy, recipe, training, decoder, folder, seed=0, data_version="labels-1")


@pytest.fixture
def train(decoder, recipe, training, tmp_path):
    """`train("m", 8, epochs=1)`: a model in a folder of that name, from the toy with changed training settings."""
    default = recipe

    def run(name, trajectories=96, seed=0, recipe=default, backbone=decoder, progress=None, saves=None, **changes):
        examples, own = toy_examples(trajectories), training.model_copy(update=changes)
        return train_reward_model(examples, recipe, own, backbone, tmp_path / name, seed, progress, checkpoints=saves)

    return run
