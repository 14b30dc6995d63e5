"""Tiny random models, a small byte-level BPE, and trajectories with everything that makes a token tree awkward."""

from functools import cache
from typing import Any

import polars as pl
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from cpmi_dagster.contracts.contexts import CONDITIONINGS
from cpmi_dagster.contracts.tables import AnswerLogprobs
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.logprobs import ScoredAnswers, answer_logprobs
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.trajectories.templates import TEMPLATES

QWEN_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA_PATTERN = QWEN_PATTERN.replace(r"\p{N}|", r"\p{N}{1,3}|")
TEXTS = [
    *TEMPLATES,
    "one\n\ntwo\n\nthree",
    "The answer is: 48\nShe sold 48 / 2 = 24 clips.\n\n  72 apples; 12 + 30 = 42.\n",
] * 9
VOCABULARY = 400

ALL_CONDITIONINGS = tuple(CONDITIONINGS)
KEY = AnswerLogprobs.primary_key()


@cache
def byte_level_bpe(pattern: str = QWEN_PATTERN, bos: bool = False) -> PreTrainedTokenizerFast:
    """A byte-level BPE with the given word pattern; with `bos`, one that puts a BOS before every text by default."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")


@cache
def random_model(architecture: str, bos: bool = False, **settings: Any) -> LoadedModel:
    """A randomly initialised model of two layers; its outputs are spread out so that mistakes show."""
    config = CONFIG_MAPPING[architecture](
        **{
            "vocab_size": VOCABULARY,
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "initializer_range": 0.2,
            "max_position_embeddings": 2048,
            "pad_token_id": None,
            **settings,
        }
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    return LoadedModel(model, byte_level_bpe(bos=bos), f"random:{architecture}", config.max_position_embeddings)


SHELLS = "Ana has 48 shells and finds half as many. How many?"
AWKWARD = [
    # ragged steps, a repeated step, a step that states an answer, answers that are prefixes of one another
    ("t1", "q1", SHELLS, ["48 / 2 = 24", "48 / 2 = 24", "Sum: 72."], "7"),
    # shares question and first step with t1, and ends in the very words of the target
    ("t2", "q1", SHELLS, ["48 / 2 = 24", "The answer is: 72"], "72"),
    # one step only, with leading tokens of t1's
    ("t3", "q1", SHELLS, ["48 / 2 = 25 and so on, at some length"], "72"),
    ("t4", "q2", r"What is $\frac{1}{2} + {q}$?", [" It is  ", "", "é – 0.5 "], r"\frac{1}{2}"),
]
AWKWARD_NEGATIVES = {"t1": ["72", "720", "7200"], "t2": ["74", "72 ", "7"], "t3": ["74"], "t4": ["-1", "1", "1", "2"]}


def frame_of(rows: list[tuple[str, str, str, list[str], str]]) -> pl.DataFrame:
    """Trajectories as a frame."""
    return pl.DataFrame(rows, schema=["trajectory_id", "question_id", "question", "steps", "gold_answer"], orient="row")


def negatives_of(answers: dict[str, list[str]]) -> pl.DataFrame:
    """Hard negatives as a frame, ranked in their order."""
    rows = [(name, rank, answer, "model") for name, listed in answers.items() for rank, answer in enumerate(listed, 1)]
    return pl.DataFrame(
        rows,
        schema={"trajectory_id": pl.String, "rank": pl.Int64, "answer": pl.String, "source": pl.String},
        orient="row",
    )


TRAJECTORIES, NEGATIVES = frame_of(AWKWARD), negatives_of(AWKWARD_NEGATIVES)


def scored(
    model: LoadedModel, trajectories: pl.DataFrame = TRAJECTORIES, negatives: pl.DataFrame = NEGATIVES, **settings: Any
) -> ScoredAnswers:
    """Answers under one template and all conditionings, unless `settings` say otherwise."""
    scoring = Scoring(**{"templates": 1, "conditionings": ALL_CONDITIONINGS, **settings})
    return answer_logprobs(trajectories, negatives, model, scoring)


def assert_same_values(left: pl.DataFrame, right: pl.DataFrame, tolerance: float = 1e-4) -> None:
    """Two tables have the same rows, and log-probabilities that differ by less than `tolerance` nats per token."""
    assert left.height
    assert left[[*KEY, "token_count"]].equals(right[[*KEY, "token_count"]])
    assert ((left["logprob_sum"] - right["logprob_sum"]).abs() / left["token_count"]).max() < tolerance
