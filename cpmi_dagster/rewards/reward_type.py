"""What a reward type is: a name, a formula over what models answered, and what the formula reads, in one entry.

    RewardType("cpmi_merge1", "CPMI_Merge", compute, Demand(("default",), ALL, policy_steps=1), merge=("mc", 1), …)

type             conditionings   negatives   policy_steps   prover_steps
cpmi             default         ALL         0              0
cpmi_merge1      default         ALL         1              0
gold_only        default         0           0              0
pav              -               0           ALL            ALL
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Literal, NamedTuple

import polars as pl

from cpmi_dagster.answers.verdicts import is_equivalent
from cpmi_dagster.contracts.contexts import PAPERS, Conditioning
from cpmi_dagster.contracts.keys import CONTROLS, LOGPROBS, NEGATIVES, POLICY_ROLLOUTS, PROVER_ROLLOUTS
from cpmi_dagster.contracts.tables import AnswerLogprobs, ControlLogprobs, Rollouts, StepTruth

STEP = ["trajectory_id", "step_index"]
DEFAULT = "default"
"""Stands for the profile's `rewards.default_conditioning`."""
ALL = None
"""In the place of a number: as many as there are."""
Steps = int | None
Input = Literal["step_texts", "final_answer", "truth", "corpus_labels"]


@dataclass(frozen=True)
class Demand:
    """What rewards are computed from: those of one reward type, or all of a profile.

    Attributes:
        conditionings: their contexts are scored with the gold answer.
        negatives: hard negatives that are scored too; of a profile, M or 0.
        policy_steps: the policy completes prefixes of up to so many steps.
        prover_steps: likewise for the prover, which also completes the bare question.
        inputs: log-probabilities of the steps' own texts; or facts that some trajectories lack.
    """

    conditionings: tuple[str, ...] = ()
    negatives: int | None = 0
    policy_steps: Steps = 0
    prover_steps: Steps = 0
    inputs: tuple[Input, ...] = ()

    def __or__(self, other: "Demand") -> "Demand":
        """What both read."""
        return Demand(
            tuple(dict.fromkeys((*self.conditionings, *other.conditionings))),
            _larger(self.negatives, other.negatives),
            _larger(self.policy_steps, other.policy_steps),
            _larger(self.prover_steps, other.prover_steps),
            tuple(dict.fromkeys((*self.inputs, *other.inputs))),
        )

    @property
    def asks_for(self) -> dict[str, bool]:
        """By key of a labeling table, whether it has any rows."""
        return {
            NEGATIVES: self.negatives != 0,
            LOGPROBS: bool(self.conditionings),
            CONTROLS: "step_texts" in self.inputs,
            POLICY_ROLLOUTS: self.policy_steps != 0,
            PROVER_ROLLOUTS: self.prover_steps != 0,
        }


def _larger(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


@dataclass(frozen=True)
class Evidence:
    """The tables and settings that rewards are computed from; a table that no type reads may stay empty.

    Attributes:
        trajectories: trajectory_id, row_number, steps, shepherd_labels, final_answer, gold_answer.
        logprobs: `labels.answer_logprobs`.
        policy_rollouts: `labels.policy_rollouts`, prefixes 1..n.
        prover_rollouts: `labels.prover_rollouts`, prefixes 0..n.
        step_logprobs: `labels.control_logprobs`.
        truth: `sources.step_truth`.
        conditioning: of the types that name none.
        alpha: weight of the prover's advantage in PAV.
        seed: decides random rewards.
        same: whether a final answer is the gold answer: gold, candidate.
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

    @cached_property
    def steps(self) -> pl.DataFrame:
        """One row per step: trajectory_id, steps (all of its trajectory) and step_index."""
        numbered = pl.int_ranges(pl.col("steps").list.len())
        rows = self.trajectories.select("trajectory_id", "steps", step_index=numbered)
        return rows.explode("step_index", empty_as_null=False)


class Merge(NamedTuple):
    """The reward type of a trajectory's first steps, by name, and how many these are."""

    first: str
    steps: int


class Scale(NamedTuple):
    """What rewards are, in words, and the smallest that calls a step right."""

    words: str
    right_from: float


PROBABILITY = Scale("a probability", 0.5)
DIFFERENCE = Scale("a difference", 0.0)


@dataclass(frozen=True)
class RewardType:
    """One reward type.

    Attributes:
        name: in profiles and in `labels.step_rewards`.
        label: of its rows in tables and plots, as in the paper if it has them.
        compute: the reward of every step: trajectory_id, step_index, reward.
        demand: what `compute` reads.
        scale: of its rewards, of a merge after the first steps; None if no number says right, as of a length.
            Probabilities are soft labels as they are, others are normalised by Eq. 7.
        merge: the reward type of its first steps; these are normalised as that type is.
        kind: a `method` of labeling; a `control` that a method has to beat; or what comes with the `corpus`.
        in_main_tables: has a row in the paper's main tables.
        is_free: a control that takes nothing but the trajectory; the best of these is what a label must beat.
    """

    name: str
    label: str
    compute: Callable[[Evidence], pl.DataFrame]
    demand: Demand = Demand()
    scale: Scale | None = DIFFERENCE
    merge: Merge | None = None
    kind: Literal["method", "control", "corpus"] = "method"
    in_main_tables: bool = False
    is_free: bool = False

    @property
    def meaning(self) -> str:
        """What the reward of a step is: the first line of its formula's docstring, and what the formula is given."""
        formula, given = self.compute, ""
        if isinstance(formula, partial):
            values = ", ".join(f"{name} = {value}" for name, value in formula.keywords.items())
            formula, given = formula.func, f" Here {values}."
        return (formula.__doc__ or "").strip().partition("\n")[0] + given

    @property
    def is_probability(self) -> bool:
        """Whether its rewards are soft labels as they are."""
        return self.scale == PROBABILITY

    @property
    def is_billed(self) -> bool:
        """Whether it has labeling costs: methods, and the control that takes another method's first steps."""
        return self.kind == "method" or self.merge is not None

    @property
    def is_of_labeler(self) -> bool:
        """Whether trajectory and labeler are enough: no rollouts, no labels or truth of others."""
        of_others = {"truth", "corpus_labels"} & {*self.demand.inputs}
        return not of_others and self.demand.policy_steps == self.demand.prover_steps == 0

    @property
    def reads_no_gold(self) -> bool:
        """Whether it takes the labeler, but neither gold answer nor rollouts."""
        return self.demand == Demand(inputs=("step_texts",))
