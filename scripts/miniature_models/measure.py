"""Measures how many problems a model solves as a policy; the last `The answer is:` line of a solution counts.

    python -m scripts.miniature_models.measure --model cpmi_dagster/miniature/weights/labeler

Reports the world's question sets one a line, `gsm8k_test      greedy 0.71   sampled 0.60`.
"""

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoTokenizer, GenerationConfig, PreTrainedTokenizerFast, Qwen3ForCausalLM

from cpmi_dagster.trajectories.templates import ANSWER_PREFIX, render_question
from scripts.miniature_models.tokenizer import EOS_ID, PAD_ID
from scripts.miniature_world.world import world_rows

logger = logging.getLogger(__name__)

BATCH_SIZE = 40
SAMPLING_TEMPERATURE = 0.6
NEW_TOKENS = 320


def stated_answer(continuation: str) -> str | None:
    """What follows the last `The answer is:` on its line, or None without one."""
    _before, prefix, after = continuation.rpartition(ANSWER_PREFIX)
    return after.split("\n")[0].strip() if prefix else None


@torch.inference_mode()
def write_solutions(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, questions: Sequence[str], temperature: float
) -> list[str]:
    """One continuation for each question under the first template; temperature 0 is greedy."""
    prompts = tokenizer([render_question(question) for question in questions], padding=True, return_tensors="pt")
    settings = GenerationConfig(
        max_new_tokens=NEW_TOKENS,
        do_sample=temperature > 0,
        temperature=temperature or None,
        eos_token_id=EOS_ID,
        pad_token_id=PAD_ID,
    )
    # pyright does not bind `generate`, because the class lacks optional attributes
    output = model.generate(**prompts, generation_config=settings)  # pyright: ignore[reportAttributeAccessIssue]
    return tokenizer.batch_decode(output[:, prompts["input_ids"].shape[1] :], skip_special_tokens=True)


def accuracy(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    problems: Sequence[tuple[str, str]],
    temperature: float,
    seed: int = 0,
) -> float:
    """The share of problems whose stated answer is the gold answer, character for character.

    Args:
        model: A causal language model.
        tokenizer: Its tokenizer, padding on the left.
        problems: Questions and gold answers.
        temperature: 0 for greedy.
        seed: Seed of the sampling.
    """
    torch.manual_seed(seed)
    solved = 0
    for start in range(0, len(problems), BATCH_SIZE):
        batch = problems[start : start + BATCH_SIZE]
        written = write_solutions(model, tokenizer, [question for question, _gold in batch], temperature)
        solved += sum(stated_answer(text) == gold for text, (_question, gold) in zip(written, batch, strict=True))
    return solved / len(problems)


def question_sets(seed: int = 0) -> dict[str, list[tuple[str, str]]]:
    """The world's questions and gold answers, in distribution (GSM8K, MATH) and out of it (Omni-MATH)."""
    rows = world_rows(seed)
    words = [(str(row["question"]), str(row["answer"]).rpartition("#### ")[2]) for row in rows["gsm8k_test"]]
    expressions = {
        name: [(str(row["problem"]), str(row["answer"])) for row in rows[name]]
        for name in ("math500_test", "omni_math_test")
    }
    return {"gsm8k_test": words, **expressions}


def main() -> None:
    """Measure a packaged or freshly trained model on the world's question sets."""
    parser = argparse.ArgumentParser(description="Measure a miniature language model as a policy.")
    parser.add_argument("--model", type=Path, required=True, help="folder of the model")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    folder = parser.parse_args().model
    model, tokenizer = Qwen3ForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    for name, problems in question_sets().items():
        greedy = accuracy(model, tokenizer, problems, temperature=0.0)
        sampled = accuracy(model, tokenizer, problems, temperature=SAMPLING_TEMPERATURE)
        logger.info("%-15s greedy %.2f   sampled %.2f", name, greedy, sampled)


if __name__ == "__main__":
    main()
