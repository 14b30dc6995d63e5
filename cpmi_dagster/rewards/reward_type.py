"""Reward types: name, formula over the answers of models, and what the formula reads.

    RewardType("cpmi_merge1", "CPMI_Merge", compute, Demand(("default",), EVERY, policy_steps=1), merge=("mc", 1), …)

type             conditionings   negatives   policy_steps   prover_steps
cpmi             default         EVERY       0              0
cpmi_merge1      default         EVERY       1              0
gold_only        default         0           0              0
pav              -               0           EVERY          EVERY
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from cpmi_dagster.answers.verdicts import is_equivalent
from cpmi_dagster.contracts.contexts import PAPERS, Conditioning
from cpmi_dagster.contracts.keys import CONTROL_LOGPROBS, LOGPROBS, NEGATIVES, POLICY_ROLLOUTS, PROVER_ROLLOUTS
from cpmi_dagster.contracts.tables import AnswerLogprobs, ControlLogprobs, Rollouts, StepRewards, StepTruth
from cpmi_dagster.rewards.hazard import Weights, first_error_probabilities, read_solutions, shipped_weights
from cpmi_dagster.scoring.conditionings import compare_contexts, context_means

STEP = ["trajectory_id", "step_index"]
DEFAULT = "default"
"""Stands for the profile's `rewards.default_conditioning`."""
EVERY = None
"""In the place of a number: all of them."""
Steps = int | None
Input = Literal["step_texts", "final_answer", "truth", "corpus_labels", "labels"]


@dataclass(frozen=True)
class Demand:
    """What reward types, or one, need for their rewards.

    Attributes:
        conditionings: the gold answer is scored under their contexts.
        negatives: number of hard negatives that are scored too; M or 0 for a profile.
        policy_steps: the rollout model completes prefixes of at most this many steps.
        prover_steps: likewise the prover, which also completes the question alone.
        inputs: log-probabilities of the steps' texts, facts that some trajectories lack, or the rewards of the other
            types that are computed.
    """

    conditionings: tuple[str, ...] = ()
    negatives: int | None = 0
    policy_steps: Steps = 0
    prover_steps: Steps = 0
    inputs: tuple[Input, ...] = ()

    def __or__(self, other: "Demand") -> "Demand":
        """What both need."""
        return Demand(
            tuple(dict.fromkeys((*self.conditionings, *other.conditionings))),
            _take_larger(self.negatives, other.negatives),
            _take_larger(self.policy_steps, other.policy_steps),
            _take_larger(self.prover_steps, other.prover_steps),
            tuple(dict.fromkeys((*self.inputs, *other.inputs))),
        )

    @property
    def needs(self) -> dict[str, bool]:
        """Whether a labeling table has rows, by its key."""
        return {
            NEGATIVES: self.negatives != 0,
            LOGPROBS: bool(self.conditionings),
            CONTROL_LOGPROBS: "step_texts" in self.inputs,
            POLICY_ROLLOUTS: self.policy_steps != 0,
            PROVER_ROLLOUTS: self.prover_steps != 0,
        }


def _take_larger(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else max(first, second)


@dataclass(frozen=True)
class LabelInputs:
    """The tables and settings that rewards are computed from; a table that no type reads may be empty.

    Attributes:
        trajectories: trajectory_id, row_number, question, steps, shepherd_labels, final_answer, gold_answer.
        logprobs: `labels.answer_logprobs`.
        policy_rollouts: `labels.policy_rollouts`, prefixes 1..n.
        prover_rollouts: `labels.prover_rollouts`, prefixes 0..n.
        step_logprobs: `labels.control_logprobs`.
        truth: `sources.step_truth`.
        conditioning: conditioning of types that name none.
        alpha: weight of the prover's advantage in PAV.
        seed: seed of random rewards.
        same: gold answer, final answer -> whether they are equivalent.
        labels: trajectory_id, step_index, reward_type, reward of the types that read no other types.
        weights: of the hazard of the first error.
    """

    trajectories: pl.DataFrame
    logprobs: pl.DataFrame = field(default_factory=AnswerLogprobs.create_empty)
    policy_rollouts: pl.DataFrame = field(default_factory=Rollouts.create_empty)
    prover_rollouts: pl.DataFrame = field(default_factory=Rollouts.create_empty)
    step_logprobs: pl.DataFrame = field(default_factory=ControlLogprobs.create_empty)
    truth: pl.DataFrame = field(default_factory=StepTruth.create_empty)
    conditioning: Conditioning = PAPERS
    alpha: float = 1.0
    seed: int = 0
    same: Callable[[str, str], bool] = is_equivalent
    labels: pl.DataFrame = field(default_factory=StepRewards.create_empty)
    weights: Weights = field(default_factory=shipped_weights)

    def rewards(self, entry: "RewardType") -> pl.DataFrame:
        """Rewards of a type, computed once: merges read those of other types."""
        if entry.name not in self._rewards:
            self._rewards[entry.name] = entry.compute(self)
        return self._rewards[entry.name]

    def compared(self, conditioning: Conditioning) -> pl.DataFrame:
        """`compare_contexts` under one conditioning; computed once for all types that read it."""
        if conditioning not in self._compared:
            self._compared[conditioning] = compare_contexts(self._context_means, [conditioning])
        return self._compared[conditioning]

    @cached_property
    def _rewards(self) -> dict[str, pl.DataFrame]:
        return {}

    @cached_property
    def _compared(self) -> dict[Conditioning, pl.DataFrame]:
        return {}

    @cached_property
    def _context_means(self) -> pl.DataFrame:
        return context_means(self.logprobs)

    @cached_property
    def outcomes(self) -> dict[str, bool]:
        """Whether the final answer is right, by trajectory_id, of those with a gold answer and a final answer."""
        known = self.trajectories.drop_nulls(["gold_answer", "final_answer"])
        rows = known.select("trajectory_id", "gold_answer", "final_answer").iter_rows()
        return {name: self.same(gold, final) for name, gold, final in rows}

    @cached_property
    def first_errors(self) -> dict[str, np.ndarray]:
        """[steps] P(the first error is at the step), by trajectory_id."""
        solutions = read_solutions(self.trajectories, self.labels, self.outcomes, self.conditioning)
        return {each.trajectory_id: first_error_probabilities(each, self.weights) for each in solutions}

    @cached_property
    def steps(self) -> pl.DataFrame:
        """One row per step: trajectory_id, steps (of the whole trajectory), step_index."""
        numbered = pl.int_ranges(pl.col("steps").list.len())
        rows = self.trajectories.select("trajectory_id", "steps", step_index=numbered)
        return rows.explode("step_index", empty_as_null=False)


class Merge(NamedTuple):
    """Name of the reward type of the first steps, and their number."""

    first: str
    steps: int


class Scale(NamedTuple):
    """The meaning of rewards in words, and the smallest that calls a step right; None if no number does."""

    words: str
    right_from: float | None


PROBABILITY = Scale("a probability", 0.5)
OF_FIRST_ERROR = Scale("1 minus the probability that the step is the first wrong one of its solution", None)
DIFFERENCE = Scale("a difference", 0.0)


@dataclass(frozen=True)
class RewardType:
    """One reward type.

    Attributes:
        name: name in profiles and in `labels.step_rewards`.
        label: label in tables and plots, as in the paper.
        compute: rewards of all steps: trajectory_id, step_index, reward.
        demand: what `compute` reads.
        scale: scale of rewards (of a merge, after the first steps); None if no number means right, as for lengths.
            Probabilities are soft labels as they are, others are normalised by Eq. 7.
        merge: reward type of the first steps, which are normalised as that type.
        kind: a `method` of labeling, a `control` that methods have to beat, labels that come with the `corpus`, or one
            label `together` from several.
        in_main_tables: has a row in the paper's main tables.
        is_free: a control that needs only the trajectory. Profiles by `init` have it; the best of these, which reports
            choose, is what a label must beat; and it may give all steps the same if no recipe learns from it.
        is_so_far: of all steps up to and including this one, so that its lowest value names no step.
    """

    name: str
    label: str
    compute: Callable[[LabelInputs], pl.DataFrame]
    demand: Demand = Demand()
    scale: Scale | None = DIFFERENCE
    merge: Merge | None = None
    kind: Literal["method", "control", "corpus", "together"] = "method"
    in_main_tables: bool = False
    is_free: bool = False
    is_so_far: bool = False

    @property
    def meaning(self) -> str:
        """The meaning of a reward: first line of the formula's docstring, and the formula's arguments."""
        formula, given = self.compute, ""
        if isinstance(formula, partial):
            values = ", ".join(f"{name} = {value}" for name, value in formula.keywords.items())
            formula, given = formula.func, f" Here {values}."
        return (formula.__doc__ or "").strip().partition("\n")[0] + given

    @property
    def is_probability(self) -> bool:
        """Whether its rewards are soft labels as they are."""
        return self.scale in (PROBABILITY, OF_FIRST_ERROR)

    @property
    def reads_labels(self) -> bool:
        """Whether it is made of the rewards of other types."""
        return "labels" in self.demand.inputs

    @property
    def is_billed(self) -> bool:
        """Whether it has labeling costs: methods, controls that a model reads, and merges of a method and a control."""
        return self.kind == "method" or self.merge is not None or self.demand.needs[CONTROL_LOGPROBS]

    @property
    def is_of_labeler(self) -> bool:
        """Whether trajectory and labeler are enough: it needs no rollouts, no truth and no labels of the corpus."""
        of_others = {"truth", "corpus_labels"} & {*self.demand.inputs}
        return not of_others and self.demand.policy_steps == self.demand.prover_steps == 0

    @property
    def reads_no_gold(self) -> bool:
        """Whether it needs the labeler, but neither gold answer nor rollouts."""
        return self.demand == Demand(inputs=("step_texts",))
