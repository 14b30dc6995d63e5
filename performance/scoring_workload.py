"""Trajectories to score, and a random Qwen3 with a tokenizer for them; speed does not depend on the weights.

ProcessBench  {"id": "gsm8k-0", "problem": "Sue lives in a fun neighborhood. ...", "steps": ["To find out ...", ...]}
GSM8K         {"question": "Sue lives in a fun neighborhood. ...", "answer": "... #### 6"}
-> trajectory gsm8k-0, its question and steps, gold answer "6"; negatives "7", "5", "8", "4"

shape      width  layers  heads  kv  head  intermediate        parameters without embeddings
25m          512       8     16   8    32          1536        25.2 million
qwen3-8b    4096      36     32   8   128         12288        6.9 billion
"""

import gzip
import hashlib
import json
import random
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import polars as pl
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen3Config

from cpmi_dagster.alignment import align_questions, read_references
from cpmi_dagster.miniature.names import local_path
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.negatives.hard_negatives import hard_negatives
from cpmi_dagster.negatives.settings import Negatives
from cpmi_dagster.trajectories.templates import TEMPLATES, render_question, render_step, render_target

REFERENCE_FILES = {
    "gsm8k": ("gsm8k/train.jsonl.gz", "gsm8k/test.jsonl"),
    "math": ("math/train.jsonl.gz", "math/test_without_math500_odd.jsonl.gz"),
}
REFERENCE_FIELDS = {"gsm8k": ("question", "answer"), "math": ("id", "problem", "solution")}
STEP_FILES = {"gsm8k": "processbench/gsm8k.even.jsonl.gz", "math": "processbench/math.even.jsonl.gz"}
SENTENCE_END = re.compile(r"\n+|(?<=[.!])\s+")
COLUMNS = {"trajectory_id": pl.String, "subset": pl.String, "question": pl.String, "steps": pl.List(pl.String)}
NEGATIVES, DRAWS = 4, 2000
TYPICAL = (155.0, 4.8, 83.0)
"""Tokens of template and question, steps, and tokens per step of the sets that the targets are for."""
QWEN_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CACHE = Path(tempfile.gettempdir()) / "cpmi-scoring-bench"
END = "<|endoftext|>"
SHAPES = {
    "tiny": (64, 2, 4, 2, 16, 192),
    "25m": (512, 8, 16, 8, 32, 1536),
    "qwen3-8b": (4096, 36, 32, 8, 128, 12_288),
}
QWEN_VOCABULARY = 151_936


def read_trajectories(data: Path | None) -> tuple[pl.DataFrame, list[str]]:
    """Trajectories whose problems have gold answers, and the texts of all problems, for a tokenizer.

    Args:
        data: folder with `REFERENCE_FILES` and `STEP_FILES`; None takes problems of the embedded world, whose own
            solutions, sentence by sentence, are their attempts.

    Returns:
        Columns trajectory_id, subset (gsm8k, math), question, steps, gold_answer; texts.
    """
    parts, texts = [], []
    for subset, names in REFERENCE_FILES.items():
        files = [data / name for name in names] if data else [local_path(f"miniature:{subset}_train")]
        rows = [row for file in files for row in _json_lines(file)]
        kept = [{name: row[name] for name in REFERENCE_FIELDS[subset] if name in row} for row in rows]
        references = read_references(kept, subset, "all")
        solved = list(references.select("question", "solution").iter_rows())
        texts += [f"{question}\n{solution}\n" for question, solution in solved]
        if data:
            attempts = [(row["id"], row["problem"], row["steps"]) for row in _json_lines(data / STEP_FILES[subset])]
        else:
            sentences = ([text for text in SENTENCE_END.split(solution) if text.strip()] for _, solution in solved)
            attempts = [(f"{subset}-{n}", solved[n][0], steps) for n, steps in enumerate(sentences)]
        steps = pl.DataFrame([(name, subset, *rest) for name, *rest in attempts], schema=COLUMNS, orient="row")
        matches = align_questions(steps, references)["reference_row"]
        golds = [None if row is None else references["answer"][row] for row in matches]
        parts.append(steps.with_columns(gold_answer=pl.Series(golds, dtype=pl.String)))
    return pl.concat(parts).filter(pl.col("gold_answer") != ""), texts


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    content = path.read_bytes()
    return map(json.loads, (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines())


def negatives_of(trajectories: pl.DataFrame, count: int, seed: int) -> pl.DataFrame:
    """Hard negatives of every trajectory: edits of its gold answer."""
    return hard_negatives(trajectories, None, Negatives(count=count), seed).negatives


def representative(
    trajectories: pl.DataFrame, tokenizer: PreTrainedTokenizerFast, count: int, seed: int
) -> pl.DataFrame:
    """Of many draws of `count` trajectories, half of each subset, the nearest to `TYPICAL`.

    A random draw of a few is longer or shorter than the set by a third, and every ratio changes with that. It also
    has as many answers that differ before their last token as the set, because the harness computes others once.
    """

    def tokens(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False)

    wrong = dict(negatives_of(trajectories, NEGATIVES, seed).group_by("trajectory_id").agg("answer").iter_rows())
    sizes, names = {}, {subset: [] for subset in STEP_FILES}
    for row in trajectories.iter_rows(named=True):
        name, steps = row["trajectory_id"], row["steps"]
        prompt = mean(len(tokens(render_question(row["question"], template))) for template in range(len(TEMPLATES)))
        targets = (render_target(answer) for answer in (row["gold_answer"], *wrong[name]))
        answers = len({tuple(tokens(target)[:-1]) for target in targets})
        sizes[name] = prompt, len(steps), sum(len(tokens(render_step(step))) for step in steps), answers
        names[row["subset"]].append(name)
    wanted = (*TYPICAL, mean(mean(sizes[name][3] for name in subset) for subset in names.values()))

    def distance(draw: list[str]) -> float:
        prompt, steps, length, answers = (mean(sizes[name][place] for name in draw) for place in range(4))
        drawn = prompt, steps, length / steps, answers
        return sum(abs(value / other - 1) for value, other in zip(drawn, wanted, strict=True))

    rng, shares = random.Random(seed), [(count + place) // len(names) for place in range(len(names))]
    draws = [
        [name for subset, share in zip(names.values(), shares, strict=True) for name in rng.sample(subset, share)]
        for _ in range(DRAWS)
    ]
    return trajectories.filter(pl.col("trajectory_id").is_in(min(draws, key=distance)))


def byte_level_bpe(texts: Iterable[str], vocabulary: int, name: str) -> PreTrainedTokenizerFast:
    """A byte-level BPE with Qwen's word pattern, digits one by one; trained once and kept in the temporary folder.

    Args:
        texts: what it is trained on, the templates aside.
        name: says which texts these are.
    """
    settings = hashlib.sha256(f"{QWEN_PATTERN}{TEMPLATES}{name}{vocabulary}".encode()).hexdigest()[:12]
    file = CACHE / f"bpe-{vocabulary}-{settings}.json"
    if not file.is_file():
        tokenizer = Tokenizer(models.BPE())
        split = pre_tokenizers.Split(Regex(QWEN_PATTERN), behavior="isolated")
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
        )
        tokenizer.train_from_iterator([*texts, *TEMPLATES], trainer)
        CACHE.mkdir(parents=True, exist_ok=True)
        tokenizer.save(str(file))
    return PreTrainedTokenizerFast(tokenizer_file=str(file), eos_token=END, pad_token=END)


def random_model(
    shape: str, tokenizer: PreTrainedTokenizerFast, vocabulary: int, device: str = "cpu", dtype: str = "float32"
) -> LoadedModel:
    """A Qwen3 of one of the `SHAPES`; the tokenizer's ids are below `vocabulary`."""
    width, layers, heads, kv_heads, head, intermediate = SHAPES[shape]
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head,
        max_position_embeddings=32_768,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype)).eval()
    return LoadedModel(model, tokenizer, f"random:{shape}", config.max_position_embeddings)
