"""Tiny random decoders with a word tokenizer, and a toy corpus in which steps with the word `oops` are wrong."""

import random
from copy import deepcopy
from functools import cache
from typing import Any

import polars as pl
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.prm.model import LoadedRewardModel, RewardModel
from cpmi_dagster.prm.settings import Recipe, Training
from cpmi_dagster.trajectories.templates import render_context

WORDS = ["we", "add", "two", "and", "three", "then", "oops", "five", "hence", "so"]
CONTEXT = 128
RECIPE = Recipe(name="toy_bce", reward_type="mc")
# under which the toy is learnt in a second
TRAINING = Training(
    epochs=4,
    bf16=False,
    validation_share=0.2,
    validations=4,
    learning_rate=3e-3,
    head_learning_rate=3e-3,
    batch_size=8,
    gradient_accumulation=1,
    max_tokens=CONTEXT,
)


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
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[architecture](**size))
    return LoadedModel(model, tokenizer, f"random:{architecture}@0", context)


def random_reward_model(
    architecture: str = "qwen3", bos: bool = False, context: int = CONTEXT, head_layers: int = 2
) -> LoadedRewardModel:
    """A reward model on a copy of that decoder, not trained; its head is large enough for probabilities to differ."""
    decoder = random_decoder(architecture, bos, context)
    backbone = deepcopy(decoder.model.base_model)
    assert isinstance(backbone, PreTrainedModel)
    model = RewardModel.from_backbone(backbone, head_layers).eval()
    torch.manual_seed(1)
    for parameter in model.head.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return LoadedRewardModel(model, decoder.tokenizer, decoder.identity)


@cache
def toy_examples(trajectories: int, seed: int = 0) -> pl.DataFrame:
    """Trajectories of one to five steps; a step is wrong, soft label 0.1, if it says `oops`, else right, 0.9."""
    rng = random.Random(seed)
    rows = []
    for number in range(trajectories):
        steps = [" ".join(rng.choices(WORDS, k=rng.randint(3, 6))) for _ in range(rng.randint(1, 5))]
        labels = [0.1 if "oops" in step else 0.9 for step in steps]
        rows.append((f"t{number:09d}", f"q{number // 2}", f"How many {WORDS[number % 5]} ?", steps, labels))
    return pl.DataFrame(rows, ["trajectory_id", "question_id", "question", "steps", "labels"], orient="row")
