r"""Rewards of completions in reinforcement learning: of the final answer, and of the steps by CPMI or a reward model.

    reward_function("Qwen/Qwen2.5-Math-1.5B")              CPMI by this labeler
    reward_function("Qwen/Qwen2.5-Math-PRM-7B", "prm")     probabilities by this reward model

    prompts      ["Ann has 3 hats and buys 2. How many?"]    completions  ["3 + 2 = 5.\nThe answer is: 5"]
    gold_answer  ["5"]                                       -> outcome 1.0, steps [0.41, 0.09], total 1.0 + 0.25

`GRPOTrainer(reward_funcs=…)` calls it as TRL's reward functions are called; two methods of it are called as verl's are.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, Unpack

import polars as pl

from cpmi_dagster.answers.extraction import extract_answer
from cpmi_dagster.answers.gold import answer_text, read_gold_answer
from cpmi_dagster.answers.verdicts import equivalent
from cpmi_dagster.contracts.contexts import PAPERS, Conditioning
from cpmi_dagster.errors import ScoringError, SettingsError
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.negatives.hard_negatives import heuristic_negatives
from cpmi_dagster.negatives.settings import Negatives
from cpmi_dagster.prm.judge_models import loaded_judge
from cpmi_dagster.prm.judging import Solution, judged_rows
from cpmi_dagster.prm.model import LoadedRewardModel
from cpmi_dagster.rewards.labeling import label_in_full, labeler_demand
from cpmi_dagster.scoring.given_rows import INPUT_COLUMNS, each_value
from cpmi_dagster.scoring.trajectories import ReadingOptions, loaded_model
from cpmi_dagster.trajectories.chats import ASSISTANT, is_of_user, messages_of, read_chat, text_of
from cpmi_dagster.trajectories.solution_text import split_steps

PRM = "prm"
"""In the place of a reward type: the model is a process reward model."""
OVER_STEPS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": fmean,
    "min": min,
    "sum": sum,
    "last": lambda rewards: rewards[-1],
}
CACHED_QUESTIONS = 1 << 14
Text = str | Sequence[Mapping[str, Any]]
"""A text, or the messages of a chat."""
Rows = Sequence[Mapping[str, Any]]
"""question, steps, gold_answer and negative_answers (null where the data set has none) of completions."""
logger = logging.getLogger(__name__)


class StepScores(NamedTuple):
    """The rewards of the steps of each completion, none for one that could not be scored, and why not."""

    rewards: list[list[float]]
    reasons: list[str]


class CompletionReward(NamedTuple):
    """The reward of a completion and its parts.

    Attributes:
        outcome: 1 if its final answer is the gold answer, else 0; None if one of the two was not found.
        steps: of each step; none where the completion could not be scored.
        total: the outcome and the steps taken together, each with its weight; what is lacking counts 0.
    """

    outcome: float | None
    steps: list[float]
    total: float


@dataclass(frozen=True)
class RewardFunction:
    """What `reward_function` returns, called as TRL's reward functions are.

    Attributes:
        name: under which TRL logs it.
        score_steps: the rewards of the steps of completions.
        over_steps: what the steps of a completion are taken together by.
        outcome_weight, step_weight, answers: as `reward_function` was given.
    """

    name: str
    score_steps: Callable[[Rows], StepScores]
    over_steps: Callable[[Sequence[float]], float]
    outcome_weight: float
    step_weight: float
    answers: str

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, prompts: Sequence[Text], completions: Sequence[Text], **columns: Any) -> list[float]:
        """The reward of each completion, as TRL asks for it.

        Args:
            prompts: texts, or chats.
            completions: texts, or the messages of the answer.
            columns: of the data set, a value per completion: the gold answers; `question`, else the prompt is read, of
                a chat the last message of the user; `negative_answers` (lists), else edits of the gold answer are the
                wrong ones. Others are ignored. With TRL's `log_metric`, the parts are logged.

        Raises:
            ScoringError: there are no gold answers, or not as many of one as of the other.
        """
        rewards = self.in_parts(prompts, completions, **columns)
        if log := columns.get("log_metric"):
            scored = [self.over_steps(reward.steps) for reward in rewards if reward.steps]
            outcomes = [reward.outcome for reward in rewards if reward.outcome is not None]
            log(f"{self.name}/outcome", fmean(outcomes or [0.0]))
            log(f"{self.name}/no_answer", 1 - len(outcomes) / len(rewards))
            log(f"{self.name}/steps", fmean(scored or [0.0]))
            log(f"{self.name}/unscored", 1 - len(scored) / len(rewards))
        return [reward.total for reward in rewards]

    def in_parts(self, prompts: Sequence[Text], completions: Sequence[Text], **columns: Any) -> list[CompletionReward]:
        """The reward of each completion with its outcome and its steps; otherwise as when it is called."""
        if self.answers not in columns:
            raise ScoringError(
                f"the reward function needs gold answers in the column `{self.answers}`; add it to the data set, or "
                "give the name of another as `answers`"
            )
        used = {name: columns[name] for name in (self.answers, "question", "negative_answers") if name in columns}
        given = {"prompts": prompts, "completions": completions, **used}
        if len({len(values) for values in given.values()}) > 1:
            counts = ", ".join(f"{len(values)} `{name}`" for name, values in given.items())
            raise ScoringError(f"the reward function was called with {counts}; give as many of each")
        texts = each_value("completions", completions, completion_text)
        asked = "question" if "question" in used else "prompts"
        questions = each_value(asked, given[asked], question_of)
        wrongs = each_value("negative_answers", used.get("negative_answers", [None] * len(texts)), _wrong_texts)
        golds, outcomes = _outcomes(used[self.answers], [extract_answer(text) for text in texts])
        rows = [
            {"question": question, "steps": split_steps(text), "gold_answer": gold, "negative_answers": wrong}
            for question, text, gold, wrong in zip(questions, texts, golds, wrongs, strict=True)
        ]
        scores = self.score_steps(rows)
        if scores.reasons:
            logger.warning(
                "%d of %d completions have no step rewards: %s", len(scores.reasons), len(rows), scores.reasons[0]
            )
        return [
            CompletionReward(outcome, steps, self._total(outcome, steps))
            for outcome, steps in zip(outcomes, scores.rewards, strict=True)
        ]

    def _total(self, outcome: float | None, steps: Sequence[float]) -> float:
        return self.outcome_weight * (outcome or 0.0) + (self.step_weight * self.over_steps(steps) if steps else 0.0)

    def compute_score(
        self, data_source: str, solution_str: str, ground_truth: str, extra_info: Mapping[str, Any] | None = None
    ) -> float:
        """The reward of one completion, as verl asks for it; the question is in `extra_info`."""
        return self.compute_scores([data_source], [solution_str], [ground_truth], [extra_info])[0]

    def compute_scores(
        self,
        data_sources: Sequence[str],
        solution_strs: Sequence[str],
        ground_truths: Sequence[str],
        extra_infos: Sequence[Mapping[str, Any] | None],
    ) -> list[float]:
        """The rewards of a batch, as verl's reward manager `batch` asks for them.

        Raises:
            ScoringError: an `extra_info` has no `question`.
        """
        questions: list[Any] = [(extra or {}).get("question") for extra in extra_infos]
        if missing := [number for number, question in enumerate(questions) if question is None]:
            raise ScoringError(
                f"`extra_info` of row {missing[0]} (from 0) has no `question`; write it there when the data is prepared"
            )
        return self(questions, solution_strs, **{self.answers: ground_truths})


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
        over_steps: how the steps of a completion are taken together: mean, min, sum or last.
        outcome_weight: of 1 for a right final answer, 0 for a wrong one.
        step_weight: of the steps taken together.
        answers: the column of the data set that has the gold answers.
        default_conditioning: as for `label`.
        form: of a reward model of others, as its files say by default.
        options: as for `label`; of a reward model, device, dtype and revision.

    Raises:
        SettingsError: `reward` or `over_steps` does not exist, or the type needs more than trajectory and labeler.
        ModelError: the model cannot be loaded.

    Examples:
        >>> from cpmi_dagster import reward_function
        >>> reward = reward_function("miniature:labeler", step_weight=0.5)
        >>> right, wrong = reward(
        ...     prompts=["Ann has 3 hats and buys 2. How many has she?"] * 2,
        ...     completions=["3 + 2 = 5.\\nThe answer is: 5", "3 - 2 = 1.\\nThe answer is: 1"],
        ...     gold_answer=["5", "5"],
        ... )
        >>> right > wrong
        True
    """
    if over_steps not in OVER_STEPS:
        raise SettingsError(
            f"`over_steps` is {over_steps!r}, which does not exist; choose from {', '.join(OVER_STEPS)}"
        )
    if reward == PRM or isinstance(model, LoadedRewardModel):
        names = {"device", "dtype", "revision"}
        own: Any = {name: value for name, value in options.items() if name in names}
        reward = PRM
        score_steps = partial(_judged, model=loaded_judge(model, form=form, **own))
    else:
        labeler_demand([reward], default_conditioning, options)
        labeler = model if isinstance(model, LoadedModel) else loaded_model(model, options)
        score_steps = partial(
            _labelled, model=labeler, reward=reward, default_conditioning=default_conditioning, options=options
        )
    return RewardFunction(f"{reward}_reward", score_steps, OVER_STEPS[over_steps], outcome_weight, step_weight, answers)


def _outcomes(column: Sequence[Any], found: Sequence[str | None]) -> tuple[list[str | None], list[float | None]]:
    """Gold answers as they are read, and whether each final answer is its gold answer; None if one is not found."""
    golds: list[str | None] = []
    unread: list[str] = []
    for number, value in enumerate(column):
        try:
            golds.append(read_gold_answer(value))
        except ValueError as error:
            golds.append(None)
            unread.append(f"row {number} (from 0): {error}")
    same = equivalent([gold or "" for gold in golds], [answer or "" for answer in found])
    if unread:
        logger.warning("%d of %d gold answers cannot be read: %s", len(unread), len(golds), unread[0])
    if lacking := found.count(None):
        logger.warning("no final answer was found in %d of %d completions; none of them counts", lacking, len(found))
    pairs = zip(golds, found, same, strict=True)
    return golds, [None if None in (gold, answer) else float(is_same) for gold, answer, is_same in pairs]


def completion_text(completion: Text) -> str:
    """A text as it is; of messages, what the one of the assistant says."""
    return completion if isinstance(completion, str) else read_chat(completion, [ASSISTANT])[0]


def question_of(prompt: Text) -> str:
    """A text as it is; of a chat, the last message of the user."""
    if isinstance(prompt, str):
        return prompt
    return next((text_of(message) for message in reversed(messages_of(prompt)) if is_of_user(message)), "")


def _wrong_texts(values: Any) -> list[str]:
    if not isinstance(values, list | None):
        raise ValueError(f"it is {type(values).__name__}; it must be a list of texts")
    return list(map(answer_text, values or ()))


def _labelled(
    rows: Rows, model: LoadedModel, reward: str, default_conditioning: Conditioning, options: ReadingOptions
) -> StepScores:
    count, seed = options.get("negatives", Negatives().count), options.get("seed", 0)
    given = [
        {
            **row,
            "id": str(number),
            "negative_answers": row["negative_answers"]
            or (row["gold_answer"] and _wrong_answers(row["gold_answer"], count, seed, row["question"])),
        }
        for number, row in enumerate(rows)
    ]
    made = label_in_full(pl.DataFrame(given, INPUT_COLUMNS), model, [reward], default_conditioning, **options)
    rewards = dict(made.labels.group_by("id", maintain_order=True).agg("reward").iter_rows())
    return StepScores([rewards.get(row["id"], []) for row in given], [*made.rejected["reason"], *made.notes])


@lru_cache(CACHED_QUESTIONS)
def _wrong_answers(gold: str, count: int, seed: int, question: str) -> list[str]:
    return [negative.answer for negative in heuristic_negatives(gold, count, seed, question)]


def _judged(rows: Rows, model: LoadedRewardModel) -> StepScores:
    solutions = [Solution(id=number, question=row["question"], steps=row["steps"]) for number, row in enumerate(rows)]
    judged = judged_rows(model, solutions, 0.0, lambda _: None)
    reasons = [f"completion {row['id']}: {row['reason']}" for row in judged if "reason" in row]
    return StepScores([row["probabilities"] or [] for row in judged], reasons)
