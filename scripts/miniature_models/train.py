"""Trains one of the miniature language models from scratch.

    python -m scripts.miniature_models.train --output cpmi_dagster/miniature/weights/labeler --model labeler

Writes config.json, model.safetensors, generation_config.json and the tokenizer into the output folder every
`--save-every` steps, so that a run can be stopped once the model is good enough.
"""

import argparse
import logging
import math
import random
import time
from collections.abc import Iterator
from copy import deepcopy
from itertools import islice
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from transformers import AutoTokenizer, GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from scripts.miniature_models.batches import Batch, training_batches
from scripts.miniature_models.measure import accuracy
from scripts.miniature_models.muon import Muon
from scripts.miniature_models.recipes import POSITIONS, RECIPES, ModelRecipe
from scripts.miniature_models.tokenizer import EOS_ID, PAD_ID, build_tokenizer
from scripts.miniature_world.held_out import MAKERS, draw

logger = logging.getLogger(__name__)

WARMUP_STEPS = 100
FINAL_LEARNING_RATE_SHARE = 0.02
WEIGHT_DECAY = 0.05
GRADIENT_NORM = 1.0
PROBE_SEED = 99
PROBE_PROBLEMS = 60


def build_model(recipe: ModelRecipe, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A fresh model of the recipe's shape."""
    torch.manual_seed(recipe.seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=recipe.hidden_size,
        intermediate_size=recipe.feed_forward,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.heads // 2,
        head_dim=recipe.head_size,
        max_position_embeddings=POSITIONS,
        tie_word_embeddings=True,
        initializer_range=0.05,
        bos_token_id=None,
        eos_token_id=EOS_ID,
        pad_token_id=PAD_ID,
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config = GenerationConfig(eos_token_id=EOS_ID, pad_token_id=PAD_ID)
    return model


def continued(folder: Path, recipe: ModelRecipe, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A trained model for another tokenizer: a token gets the mean embedding of its tokens in the old one.

    Layers that only the recipe has are added on top, initialised so that they change nothing.
    """
    trained, known = (
        Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32),
        AutoTokenizer.from_pretrained(folder),
    )
    model = build_model(recipe, tokenizer)
    weights = trained.state_dict()
    embedding = weights["model.embed_tokens.weight"]
    vocabulary = known.get_vocab()
    read_as = [
        [vocabulary[token]] if token in vocabulary else known.encode(tokenizer.decode([number]))
        for number, token in enumerate(tokenizer.convert_ids_to_tokens(list(range(len(tokenizer)))))
    ]
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        weights[name] = torch.stack([embedding[ids].mean(0) for ids in read_as])
    model.load_state_dict(weights, strict=False)
    for layer in model.model.layers[trained.config.num_hidden_layers :]:
        torch.nn.init.zeros_(layer.get_parameter("self_attn.o_proj.weight"))
        torch.nn.init.zeros_(layer.get_parameter("mlp.down_proj.weight"))
    return model


def summed_loss(model: Qwen3ForCausalLM, batch: Batch) -> tuple[torch.Tensor, float]:
    """Summed weighted cross-entropy of the predicted tokens, and their weight; only these are projected."""
    hidden = model.model(
        batch.input_ids, attention_mask=batch.sees[:, None], position_ids=batch.positions, use_cache=False
    ).last_hidden_state
    documents, nodes = batch.weights.nonzero(as_tuple=True)
    logits, weights = model.lm_head(hidden[documents, batch.parents[documents, nodes]]), batch.weights[documents, nodes]
    losses = cross_entropy(logits, batch.input_ids[documents, nodes], reduction="none")
    return (losses * weights).sum(), float(weights.sum())


def learning_rate_share(step: int, steps: int) -> float:
    """The learning rate as a share of its peak: linear warm-up, then a cosine."""
    if step < WARMUP_STEPS:
        return step / WARMUP_STEPS
    progress = (step - WARMUP_STEPS) / max(1, steps - WARMUP_STEPS)
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return FINAL_LEARNING_RATE_SHARE + (1 - FINAL_LEARNING_RATE_SHARE) * cosine


def build_optimizers(model: Qwen3ForCausalLM, recipe: ModelRecipe) -> tuple[torch.optim.Optimizer, ...]:
    """Muon for the layers' matrices, AdamW for the embedding and the norms."""
    embedding = model.get_input_embeddings().weight
    matrices = [weight for weight in model.parameters() if weight.ndim == 2 and weight is not embedding]
    others = [embedding, *(weight for weight in model.parameters() if weight.ndim == 1)]
    muon = Muon(matrices, lr=recipe.learning_rate, weight_decay=WEIGHT_DECAY)
    return muon, torch.optim.AdamW(others, lr=recipe.learning_rate, betas=(0.9, 0.98), weight_decay=0.0)


def set_learning_rate(optimizers: tuple[torch.optim.Optimizer, ...], learning_rate: float) -> None:
    """Give every parameter group the same learning rate."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate


def train_steps(model: Qwen3ForCausalLM, recipe: ModelRecipe, batches: Iterator[Batch]) -> Iterator[tuple[int, float]]:
    """Train, yielding the number of steps done and the loss after each.

    Every token weighs the same: batches hold documents of one length, and with a mean over each batch the few tokens of
    short documents would outweigh those of long ones.
    """
    optimizers = build_optimizers(model, recipe)
    for step, batch in enumerate(islice(batches, recipe.steps), start=1):
        set_learning_rate(optimizers, recipe.learning_rate * learning_rate_share(step, recipe.steps))
        model.zero_grad(set_to_none=True)
        loss, tokens = summed_loss(model, batch)
        (loss / recipe.batch_tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), GRADIENT_NORM)
        for optimizer in optimizers:
            optimizer.step()
        yield step, loss.item() / tokens


def probe_problems() -> list[tuple[str, str]]:
    """A few held-out problems, half of each task, to watch a training run."""
    rng = random.Random(PROBE_SEED)
    problems = [draw(make, rng, held_out=True) for _ in range(PROBE_PROBLEMS // 2) for make in MAKERS.values()]
    return [(problem.question, problem.answer) for problem in problems]


def save(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, output: Path, dtype: str) -> None:
    """Write weights (in `dtype`), configuration and tokenizer."""
    deepcopy(model).to(getattr(torch, dtype)).save_pretrained(output)
    tokenizer.save_pretrained(output)


def train(recipe: ModelRecipe, output: Path, save_every: int, initial: Path | None = None) -> None:
    """Train a model and write it to `output`, at every `save_every` steps and at the end.

    Args:
        recipe: Shape and schedule.
        output: Folder of the trained model.
        save_every: Steps between checkpoints.
        initial: Folder of a model to start from; fresh weights if absent.
    """
    tokenizer = build_tokenizer()
    model = continued(initial, recipe, tokenizer) if initial else build_model(recipe, tokenizer)
    logger.info("%d parameters", model.num_parameters())
    probes, started, recent = probe_problems(), time.monotonic(), 0.0
    for step, loss in train_steps(
        model, recipe, training_batches(tokenizer, recipe.batch_tokens, recipe.seed, recipe.marked)
    ):
        recent = loss if step == 1 else 0.95 * recent + 0.05 * loss
        if step % 50 == 0:
            logger.info("step %d  loss %.4f  %.0f s", step, recent, time.monotonic() - started)
        if step % save_every == 0 or step == recipe.steps:
            save(model, tokenizer, output, recipe.saved_as)
            model.eval()
            logger.info("step %d  greedy accuracy %.3f", step, accuracy(model, tokenizer, probes, temperature=0.0))
            model.train()


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="Train a language model of the miniature world from scratch.")
    parser.add_argument("--output", type=Path, required=True, help="folder to write the model to")
    parser.add_argument("--model", choices=sorted(RECIPES), required=True, help="which model")
    parser.add_argument("--initial", type=Path, help="folder of a model to continue from, with fresh optimiser state")
    parser.add_argument("--save-every", type=int, default=500, help="steps between checkpoints")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(arguments.threads)
    train(RECIPES[arguments.model], arguments.output, arguments.save_every, arguments.initial)


if __name__ == "__main__":
    main()
