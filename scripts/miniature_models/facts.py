"""Measures how well free controls label the world's steps, and how much its models know.

    python -m scripts.miniature_models.facts --model cpmi_dagster/miniature/weights/labeler

    label AUC of final answer, then position                          0.712   over 3196 steps
    gold answer between 0.05 and 0.95                                 0.473   of 300 right prefixes
    some rollout recovers                                             0.097   of 300 wrong steps

A control is a label that costs nothing. If a control ranks steps as well as a method, the world cannot tell them apart.
"""

import argparse
import logging
import random
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import torch
from sklearn.metrics import roc_auc_score

from cpmi_dagster.generation.engine import Draws
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.math_shepherd import parse_row
from cpmi_dagster.models.language_models import LoadedModel, load_language_model
from cpmi_dagster.trajectories.templates import ANSWER_PREFIX, render_context, render_question, render_step
from cpmi_dagster.tree_forward.next_tokens import token_logprobs
from scripts.miniature_models.measure import stated_answer
from scripts.miniature_world.question_rows import JsonRow
from scripts.miniature_world.world import world_rows

logger = logging.getLogger(__name__)

ROLLOUTS = Sampling(temperature=0.6, top_p=0.95, top_k=20, max_new_tokens=192)
BATCH_SEQUENCES = 128
UNSURE = (0.05, 0.95)


class TrueStep(NamedTuple):
    """A step of a Math-Shepherd trajectory of the world, with its truth.

    Attributes:
        question: The question.
        steps: The steps up to this one.
        gold: The gold answer.
        kinds: What is wrong with each of `steps`; None if nothing is.
        operations_left: Operations still to do after it.
        place: Its place in the trajectory, above 0, at most 1.
        answer_is_right: Whether the trajectory's final answer is.
    """

    question: str
    steps: tuple[str, ...]
    gold: str
    kinds: tuple[str | None, ...]
    operations_left: int
    place: float
    answer_is_right: bool

    @property
    def is_right(self) -> bool:
        """Whether this step is right."""
        return self.kinds[-1] is None

    @property
    def is_early(self) -> bool:
        """Whether it ends a right prefix that is not the whole trajectory."""
        return self.place < 1 and not any(self.kinds)


def true_steps(rows: Mapping[str, Sequence[JsonRow]]) -> list[TrueStep]:
    """Every step of the world's Math-Shepherd trajectories."""
    references: Any = rows["gsm8k_train"], rows["math_train"]
    golds = {row["question"]: row["answer"].rpartition("#### ")[2] for row in references[0]}
    golds |= {row["problem"]: row["solution"].rpartition(r"$\boxed{")[2].removesuffix("}$.") for row in references[1]}
    steps = []
    for truth in rows["step_truth"]:
        row: Any = rows["math_shepherd"][int(str(truth["row_number"]))]
        trajectory = parse_row(row["input"], row["label"])
        gold = golds[trajectory.question.replace("  ", " ")]
        facts: Any = truth
        steps += [
            TrueStep(
                question=trajectory.question,
                steps=trajectory.steps[:count],
                gold=gold,
                kinds=tuple(facts["kind"][:count]),
                operations_left=facts["operations_left"][count - 1],
                place=count / len(trajectory.steps),
                answer_is_right=trajectory.final_answer == gold,
            )
            for count in range(1, len(trajectory.steps) + 1)
        ]
    return steps


def free_controls(steps: Sequence[TrueStep], model: LoadedModel) -> dict[str, float]:
    """Label AUC of labels that cost nothing; of lengths in the better direction."""
    position = [-step.place for step in steps]
    answer = [float(step.answer_is_right) for step in steps]
    tokens = model.tokenizer([render_step(step.steps[-1]) for step in steps])["input_ids"]
    return {
        "position": label_auc(steps, position),
        "final answer": label_auc(steps, answer),
        "final answer, then position": label_auc(
            steps, [1.0 if step.answer_is_right else -step.place for step in steps]
        ),
        "length in characters": _better_way(label_auc(steps, [float(len(step.steps[-1])) for step in steps])),
        "length in tokens": _better_way(label_auc(steps, [float(len(ids)) for ids in tokens])),
    }


def label_auc(steps: Sequence[TrueStep], labels: Sequence[float]) -> float:
    """The chance that a right step has a higher label than a wrong one; a tie counts half."""
    return float(roc_auc_score([step.is_right for step in steps], labels))


def _better_way(auc: float) -> float:
    return max(auc, 1 - auc)


def gold_probability(model: LoadedModel, question: str, steps: Sequence[str], gold: str) -> float:
    """p(the gold answer's own tokens | question, steps, `The answer is:`) under the first template."""
    texts = [render_question(question), *map(render_step, steps), ANSWER_PREFIX, f" {gold}"]
    return float(_of_last(model, texts).sum().exp())


def early_probabilities(model: LoadedModel, steps: Sequence[TrueStep]) -> list[float]:
    """The gold answer's probability after each right prefix that is not the whole solution."""
    return [gold_probability(model, step.question, step.steps, step.gold) for step in steps if step.is_early]


def unsure_share(probabilities: Sequence[float]) -> float:
    """The share of probabilities within `UNSURE`."""
    low, high = UNSURE
    return sum(low <= probability <= high for probability in probabilities) / len(probabilities)


def recovery_shares(model: LoadedModel, steps: Sequence[TrueStep], samples: int = 8, seed: int = 0) -> list[float]:
    """For each step, the share of its rollouts that state the gold answer."""
    prompts = [render_context(step.question, step.steps) for step in steps]
    engine = TransformersEngine(model, BATCH_SEQUENCES)
    written = engine.generate(prompts, Draws(ROLLOUTS, samples, seed))
    return [
        sum(stated_answer(rollout.text) == step.gold for rollout in of_step) / samples
        for of_step, step in zip(written, steps, strict=True)
    ]


def familiarity(model: LoadedModel, step: TrueStep) -> float:
    """Mean log-probability of the step's tokens in nats: its negative surprisal."""
    return float(_of_last(model, [render_question(step.question), *map(render_step, step.steps)]).mean())


def _of_last(model: LoadedModel, texts: list[str]) -> torch.Tensor:
    """Log-probabilities of the last text's tokens after the others, each text tokenised on its own."""
    *context, target = model.tokenizer(texts)["input_ids"]
    return token_logprobs(model.model, tuple(chain.from_iterable(context)), target)


def sample(steps: Sequence[TrueStep], count: int, seed: int = 0) -> list[TrueStep]:
    """At most `count` of the steps, the same for the same seed."""
    return random.Random(seed).sample(list(steps), min(count, len(steps)))


def main() -> None:
    """Measure the facts for a packaged or freshly trained model."""
    parser = argparse.ArgumentParser(description="Measure the facts of the miniature world.")
    parser.add_argument("--model", type=Path, required=True, help="folder of the model")
    parser.add_argument("--steps", type=int, default=300, help="steps to measure each fact of a model on")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    arguments = parser.parse_args()
    model, steps, count = load_language_model(arguments.model), true_steps(world_rows()), arguments.steps
    for name, auc in free_controls(steps, model).items():
        logger.info("label AUC of %-52s %.3f   over %d steps", name, auc, len(steps))
    drawn = sample(steps, count)
    surprise = _better_way(label_auc(drawn, [familiarity(model, step) for step in drawn]))
    logger.info("label AUC of %-52s %.3f   over %d steps", "surprisal", surprise, len(drawn))
    _log_knowledge(model, sample([step for step in steps if step.is_early], count))
    wrong = sample([step for step in steps if not step.is_right], count)
    recovered = [share > 0 for share in recovery_shares(model, wrong)]
    logger.info("%-65s %.3f   of %d wrong steps", "some rollout recovers", sum(recovered) / len(wrong), len(wrong))


def _log_knowledge(model: LoadedModel, early: Sequence[TrueStep]) -> None:
    known = early_probabilities(model, early)
    logger.info(
        "%-65s %.3f   of %d right prefixes", "gold answer between 0.05 and 0.95", unsure_share(known), len(known)
    )
    for left in sorted({step.operations_left for step in early}):
        values = sorted(value for value, step in zip(known, early, strict=True) if step.operations_left == left)
        median, count = values[len(values) // 2], len(values)
        logger.info("  %d left: %.2f unsure, median %.3f, of %d", left, unsure_share(values), median, count)


if __name__ == "__main__":
    main()
