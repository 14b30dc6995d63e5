r"""Rewards of completions in reinforcement learning: of the final answer, and of the steps by `label` or `judge`.

prompts      ["Ann has 3 hats and buys 2. How many?"]    completions  ["3 + 2 = 5.\nThe answer is: 5"]
gold_answer  ["5"]                                       -> outcome 1.0, steps [0.41, 0.09], total 1.0 + 0.25
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, Unpack

from cpmi_dagster.answers.extraction import extract_answer
from cpmi_dagster.answers.gold import read_gold_answer
from cpmi_dagster.answers.verdicts import equivalent
from cpmi_dagster.contracts.contexts import PAPERS, Conditioning
from cpmi_dagster.errors import ScoringError, SettingsError
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.negatives.hard_negatives import heuristic_negatives
from cpmi_dagster.negatives.settings import Negatives
from cpmi_dagster.prm.judge_models import load_judge
from cpmi_dagster.prm.judging import Solution, judged_rows
from cpmi_dagster.prm.model import LoadedRewardModel
from cpmi_dagster.rewards.labeling import label_in_full, labeler_demand
from cpmi_dagster.scoring.given_rows import plain
from cpmi_dagster.scoring.trajectories import ReadingOptions, loaded_model
from cpmi_dagster.trajectories.chats import ASSISTANT, is_of_user, messages_of, read_chat, text_of
from cpmi_dagster.trajectories.solution_text import split_steps

PRM = "prm"
"""In the place of a reward type: the model is a process reward model."""
OVER_STEPS: Mapping[str, Callable] = {"mean": fmean, "min": min, "sum": sum, "last": lambda rewards: rewards[-1]}
logger = logging.getLogger(__name__)


class CompletionReward(NamedTuple):
    """The reward of a completion and its parts; in the total, what is missing counts 0."""

    outcome: float | None
    """1 if its final answer is the gold answer, else 0; None if one of the two was not found."""
    steps: list[float]
    """Of each step; none if the completion could not be scored."""
    total: float


@dataclass(frozen=True)
class RewardFunction:
    """What `reward_function` returns, called as TRL's reward functions are."""

    step_rewards: Callable[[list[dict[str, Any]]], tuple[dict[str, Any], list[str]]]
    """Rows with id, question, steps, gold_answer, negative_answers -> rewards of steps by id, and why others lack."""
    reward: str
    over_steps: str
    outcome_weight: float
    step_weight: float
    answers: str

    @property
    def __name__(self) -> str:
        return f"{self.reward}_reward"

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float]:
        """The reward of each completion, as TRL asks for it.

        Args:
            prompts: texts, or chats.
            completions: texts, or the messages of the answer.
            columns: of the data set, a value per completion: the gold answers; `question`, else the prompt is read, of
                a chat the last message of the user; `negative_answers` (lists), else edits of the gold answer are the
                wrong ones. Others are ignored. With TRL's `log_metric`, the parts are logged.
        """
        rewards = self.in_parts(prompts, completions, **columns)
        if log := columns.get("log_metric"):
            scored = [OVER_STEPS[self.over_steps](reward.steps) for reward in rewards if reward.steps]
            outcomes = [reward.outcome for reward in rewards if reward.outcome is not None]
            log(f"{self.__name__}/outcome", fmean(outcomes or [0.0]))
            log(f"{self.__name__}/no_answer", 1 - len(outcomes) / len(rewards))
            log(f"{self.__name__}/steps", fmean(scored or [0.0]))
            log(f"{self.__name__}/unscored", 1 - len(scored) / len(rewards))
        return [reward.total for reward in rewards]

    def in_parts(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[CompletionReward]:
        """The reward of each completion with its outcome and its steps; otherwise as when it is called."""
        if self.answers not in columns:
            raise ScoringError(f"there are no gold answers in `{self.answers}`; add it, or name another as `answers`")
        questions = [_question(prompt) for prompt in plain(columns.get("question", prompts))]
        texts = [each if isinstance(each, str) else read_chat(each, [ASSISTANT])[0] for each in plain(completions)]
        golds = [_read(gold) for gold in plain(columns[self.answers])]
        wrongs = plain(columns.get("negative_answers", [None] * len(texts)))
        fields = ("id", "question", "steps", "gold_answer", "negative_answers")
        values = zip(map(str, range(len(texts))), questions, map(split_steps, texts), golds, wrongs, strict=True)
        steps, reasons = self.step_rewards([dict(zip(fields, row, strict=True)) for row in values])
        if reasons:
            logger.warning("%d of %d completions have no step rewards: %s", len(reasons), len(texts), reasons[0])
        answers = [(gold or "", extract_answer(text) or "") for gold, text in zip(golds, texts, strict=True)]
        same = equivalent(*zip(*answers, strict=True))
        rewards = []
        for number, (pair, is_same) in enumerate(zip(answers, same, strict=True)):
            outcome, scores = float(is_same) if all(pair) else None, steps.get(str(number)) or []
            total = self.outcome_weight * (outcome or 0.0)
            if scores:
                total += self.step_weight * OVER_STEPS[self.over_steps](scores)
            rewards.append(CompletionReward(outcome, scores, total))
        return rewards

    def compute_score(
        self, data_source: str, solution_str: str, ground_truth: str, extra_info: Mapping[str, Any]
    ) -> float:
        """The reward of one completion, as verl asks for it; the question is in `extra_info`."""
        return self.compute_scores([data_source], [solution_str], [ground_truth], [extra_info])[0]

    def compute_scores(
        self, data_sources: Sequence[str], solution_strs: Sequence[str], ground_truths: Sequence[str], extra_infos: Any
    ) -> list[float]:
        """The rewards of a batch, as verl's reward manager `batch` asks for them; questions are in `extra_infos`."""
        return self([extra["question"] for extra in extra_infos], solution_strs, **{self.answers: ground_truths})


def reward_function(
    model: str | Path | LoadedModel | LoadedRewardModel,
    reward: str = "cpmi",
    over_steps: str = "mean",
    outcome_weight: float = 1.0,
    step_weight: float = 1.0,
    answers: str = "gold_answer",
    default_conditioning: Conditioning = PAPERS,
    form: str | None = None,
    **options: Unpack[ReadingOptions],
) -> RewardFunction:
    """A reward function for reinforcement learning, of the outcome and of the steps; loads the model once.

    A completion is split into steps as `cpmi init --split auto` splits a text. All completions of a call are scored
    together, and what completions of one question share is read once. The wrong answers that CPMI contrasts with are
    the data set's `negative_answers`, else edits of the gold answer; text is sampled only for a gold answer that has no
    edits, such as a lone sign.

    Args:
        model: for a reward type, the labeler, as for `label`; for `prm`, the reward model, as for `judge`.
        reward: a reward type, of those that `label` gives, or `prm`.
        over_steps: how the rewards of a completion's steps become one number: mean, min, sum or last.
        outcome_weight: factor of the outcome, which is 1 for a right final answer and 0 for a wrong one.
        step_weight: factor of that one number for the steps.
        answers: name of the data set's column of gold answers.
        default_conditioning: as for `label`.
        form: of a reward model of others, as its files say by default.
        options: as for `label`; of a reward model, device, dtype and revision.

    Raises:
        SettingsError: `reward` or `over_steps` does not exist, or the type needs more than trajectory and labeler.
        ModelError: the model cannot be loaded.

    Examples:
        >>> from cpmi_dagster import reward_function
        >>> reward = reward_function("miniature:labeler", step_weight=0)
        >>> reward(["What is 3 + 2?"], ["3 + 2 = 5.\\nThe answer is: 5"], gold_answer=["5"])
        [1.0]
    """
    if over_steps not in OVER_STEPS:
        raise SettingsError(f"there is no `over_steps` {over_steps!r}; choose from {', '.join(OVER_STEPS)}")
    if reward == PRM or isinstance(model, LoadedRewardModel):
        device, dtype = options.get("device", "auto"), options.get("dtype", "auto")
        reward, step_rewards = PRM, partial(_judge, load_judge(model, device, dtype, form, options.get("revision")))
    else:
        labeler_demand([reward], default_conditioning, options)
        labeler = model if isinstance(model, LoadedModel) else loaded_model(model, options)
        step_rewards = partial(_label, labeler, reward, default_conditioning, options)
    return RewardFunction(step_rewards, reward, over_steps, outcome_weight, step_weight, answers)


def _judge(model: LoadedRewardModel, rows: list[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    judged = judged_rows(model, [Solution.model_validate(row) for row in rows], 0.0, lambda _: None)
    return {row["id"]: row["probabilities"] for row in judged}, [row["reason"] for row in judged if "reason" in row]


def _label(
    labeler: LoadedModel, reward: str, conditioning: Conditioning, options: ReadingOptions, rows: list[dict[str, Any]]
) -> tuple[dict[str, Any], list[str]]:
    count, seed = options.get("negatives", Negatives().count), options.get("seed", 0)
    for row in rows:
        if not row["negative_answers"] and (gold := row["gold_answer"]):
            edits = heuristic_negatives(gold, count, seed, row["question"])
            row["negative_answers"] = [edit.answer for edit in edits]
    labelled = label_in_full(rows, labeler, [reward], conditioning, **options)
    rewards = labelled.labels.group_by("id", maintain_order=True).agg("reward")
    return dict(rewards.iter_rows()), [*labelled.rejected["reason"], *labelled.notes]


def _question(prompt: Any) -> str:
    """The prompt; of a chat the last message of the user."""
    if isinstance(prompt, str):
        return prompt
    return next((text_of(message) for message in reversed(messages_of(prompt)) if is_of_user(message)), "")


def _read(gold: Any) -> str | None:
    """A gold answer as it is read; None if it cannot be, which costs its own completion alone."""
    try:
        return read_gold_answer(gold)
    except ValueError:
        return None
