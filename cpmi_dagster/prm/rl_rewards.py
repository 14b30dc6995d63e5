r"""Rewards of completions for reinforcement learning: outcome, and rewards of steps by `label` or `judge`.

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

import polars as pl

from cpmi_dagster.answers.extraction import extract_answer
from cpmi_dagster.answers.gold import read_gold_answer
from cpmi_dagster.answers.verdicts import equivalent
from cpmi_dagster.contracts.contexts import PAPERS, Conditioning
from cpmi_dagster.errors import MalformedRow, ScoringError, SettingsError
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.negatives.hard_negatives import heuristic_negatives
from cpmi_dagster.prm.model import LoadedRewardModel
from cpmi_dagster.prm.predict import predict_rows
from cpmi_dagster.prm.published import load_prm
from cpmi_dagster.rewards.labeling import LabelOptions, label_in_full, labeler_demand
from cpmi_dagster.scoring.trajectories import load_named_model, sampled_negatives
from cpmi_dagster.trajectories.chats import ASSISTANT, is_of_user, messages_of, read_chat, text_of
from cpmi_dagster.trajectories.choices import LETTERS, LISTED, as_options, name_choice, with_options
from cpmi_dagster.trajectories.given_rows import read_table, to_plain, without_trajectory

PRM = "prm"
"""Reward name of a process reward model."""
UNSTATED = "no answer"
"""Final answer of a completion that states none: like no gold answer."""
OVER_STEPS: Mapping[str, Callable] = {"mean": fmean, "min": min, "sum": sum, "last": lambda rewards: rewards[-1]}
logger = logging.getLogger(__name__)


class CompletionReward(NamedTuple):
    """The reward of a completion and its parts; a missing part counts 0 in the total."""

    outcome: float | None
    """1 if the final answer is the gold answer, else 0; None if either was not found."""
    steps: list[float]
    """Reward of each step; empty if the completion could not be scored."""
    total: float


@dataclass(frozen=True)
class RewardFunction:
    """A reward function with the signature of TRL."""

    step_rewards: Callable[[list[dict[str, Any]]], tuple[dict[int, Any], list[str]]]
    """Rows with question, completion, gold_answer, negative_answers -> rewards by row, reasons of rejections."""
    reward: str
    over_steps: str
    outcome_weight: float
    step_weight: float
    answers: str

    @property
    def __name__(self) -> str:
        return f"{self.reward}_reward"

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float]:
        """The reward of each completion, with the arguments of TRL.

        Args:
            prompts: texts or chats.
            completions: texts or messages of the answer.
            columns: columns of the data set, a value per completion: gold answers; `question`, by default the prompt,
                or a chat's last message of the user; `negative_answers` (lists), by default edits of the gold answer.
                Others are ignored. If TRL's `log_metric` is given, the parts are logged.
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
        """The reward of each completion with outcome and steps; arguments as of a call."""
        if self.answers not in columns:
            raise ScoringError(f"there are no gold answers in `{self.answers}`; add it, or name another as `answers`")
        if not len(completions):
            return []
        questions = [_question(prompt) for prompt in to_plain(columns.get("question", prompts))]
        texts, reasons = zip(*map(_text_of, to_plain(completions)), strict=True)
        given = to_plain(columns[self.answers])
        wrongs = to_plain(columns.get("negative_answers", [None] * len(texts)))
        choices = [{name: column[number] for name, column in self._choices(columns)} for number in range(len(texts))]
        finals = [extract_answer(text) for text in texts]
        golds = [_read(*each) for each in zip(questions, given, choices, finals, strict=True)]
        fields = ("question", "completion", "gold_answer", "negative_answers")
        values = zip(questions, texts, golds, wrongs, strict=True)
        rows = [dict(zip(fields, row, strict=True)) | choice for row, choice in zip(values, choices, strict=True)]
        steps, unscored = self.step_rewards(rows)
        if lacking := [reason for reason in (*reasons, *unscored) if reason]:
            logger.warning("%d of %d completions have no step rewards: %s", len(lacking), len(texts), lacking[0])
        answers = [(gold or "", final or "") for gold, final in zip(golds, finals, strict=True)]
        same = equivalent(*zip(*answers, strict=True))
        rewards = []
        for number, (pair, is_same) in enumerate(zip(answers, same, strict=True)):
            outcome, scores = float(is_same) if all(pair) else None, steps.get(number) or []
            total = self.outcome_weight * (outcome or 0.0)
            if scores:
                total += self.step_weight * OVER_STEPS[self.over_steps](scores)
            rewards.append(CompletionReward(outcome, scores, total))
        return rewards

    def _choices(self, columns: Mapping[str, Any]) -> list[tuple[str, list[Any]]]:
        """The columns of the options of multiple-choice questions."""
        names = [name for name in (*LISTED, *LETTERS) if name in columns and name != self.answers]
        return [(name, to_plain(columns[name])) for name in names]

    def compute_score(
        self, data_source: str, solution_str: str, ground_truth: str, extra_info: Mapping[str, Any]
    ) -> float:
        """The reward of a completion, with the arguments of verl; the question is in `extra_info`."""
        return self.compute_scores([data_source], [solution_str], [ground_truth], [extra_info])[0]

    def compute_scores(
        self, data_sources: Sequence[str], solution_strs: Sequence[str], ground_truths: Sequence[str], extra_infos: Any
    ) -> list[float]:
        """The rewards of a batch, with the arguments of verl's reward manager `batch`; see `compute_score`."""
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
    **options: Unpack[LabelOptions],
) -> RewardFunction:
    """A reward function for reinforcement learning, of outcome and steps; loads the model once.

    A completion is split into steps as by `cpmi init --split auto`. All completions of a call are scored together, and
    a common beginning is read once. CPMI contrasts with the data set's `negative_answers`, else with edits of the gold
    answer; text is sampled only if a gold answer, such as a single sign, has no edits.

    Args:
        model: for a reward type, the labeler, as for `label`; for `prm`, the reward model, as for `judge`.
        reward: a reward type of `label`, or `prm`.
        over_steps: aggregate of a completion's step rewards: mean, min, sum or last.
        outcome_weight: factor of the outcome, which is 1 for a right final answer and 0 for a wrong one.
        step_weight: factor of the aggregate.
        answers: the data set's column of gold answers.
        default_conditioning: as for `label`.
        form: form of a published reward model; by default, by its files.
        options: as for `label`; for a reward model device, dtype and revision.

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
        reward, step_rewards = PRM, partial(_judge, load_prm(model, device, dtype, form, options.get("revision")))
    else:
        labeler_demand([reward], default_conditioning, options)
        labeler = model if isinstance(model, LoadedModel) else load_named_model(model, options)
        step_rewards = partial(_label, labeler, reward, default_conditioning, options)
    return RewardFunction(step_rewards, reward, over_steps, outcome_weight, step_weight, answers)


def _judge(model: LoadedRewardModel, rows: list[dict[str, Any]]) -> tuple[dict[int, Any], list[str]]:
    judged = predict_rows(model, read_table(rows), 0.0, lambda _: None)
    rewards = {number: row["probabilities"] for number, row in enumerate(judged)}
    return rewards, [row["reason"] for row in judged if row["reason"]]


def _label(
    labeler: LoadedModel, reward: str, conditioning: Conditioning, options: LabelOptions, rows: list[dict[str, Any]]
) -> tuple[dict[int, Any], list[str]]:
    count, seed = sampled_negatives(options).count, options.get("seed", 0)
    for row in rows:
        if not row["negative_answers"] and (gold := row["gold_answer"]):
            edits = heuristic_negatives(gold, count, seed, row["question"])
            row["negative_answers"] = [edit.answer for edit in edits]
    given = read_table(rows)
    # one that states no answer is not to fare better than one that states a wrong one
    trajectories = given.trajectories.with_columns(pl.col("final_answer").fill_null(UNSTATED))
    labelled = label_in_full(trajectories, labeler, [reward], conditioning, **options)
    rewards = labelled.labels.select("trajectory_id", "reward")
    numbers = dict(given.trajectories.select("trajectory_id", "row_number").iter_rows())
    refused = dict(given.rejected.select("row_number", "reason").iter_rows())
    for name, reason in labelled.rejected.select("trajectory_id", "reason").iter_rows():
        refused[numbers[name]] = without_trajectory(reason, name)
    reasons = [f"completion {number + 1}: {reason}" for number, reason in sorted(refused.items())]
    return {numbers[name]: reward for name, reward in rewards.iter_rows()}, [*reasons, *labelled.notes]


def _question(prompt: Any) -> str:
    """The text of a prompt, or the last message of the user in a chat."""
    if isinstance(prompt, str):
        return prompt
    return next((text_of(message) for message in reversed(messages_of(prompt)) if is_of_user(message)), "")


def _text_of(completion: Any) -> tuple[str, str | None]:
    """The text of a completion, and the reason if it has none that can be read."""
    try:
        return completion if isinstance(completion, str) else read_chat(completion, [ASSISTANT])[0], None
    except ValueError as error:
        return "", str(error)


def _read(question: str, gold: Any, choices: Mapping[str, Any], final_answer: str | None) -> str | None:
    """Extract a gold answer; None if there is none, which affects only its completion."""
    try:
        named = name_choice(choices, read_gold_answer(gold), gold, final_answer)
        return as_options(choices, with_options(choices, question), named, final_answer)[0]
    except (ValueError, MalformedRow):
        return None
