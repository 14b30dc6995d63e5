"""The registry of reward types: the name, needs, formula and normalisation of each.

    reward_type("cpmi_merge1")
    -> RewardType(name="cpmi_merge1", label="CPMI_Merge", needs=Needs(scores=True, policy_steps=1), merge=("mc", 1), …)

A new reward type is a formula in `formulas` and an entry of `REWARD_TYPES`. Profiles, costs, soft labels, the plan and
the reports read everything about it from here; no other module tests a reward type's name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from string import digits
from typing import Literal, NamedTuple

import polars as pl

from cpmi_dagster.contracts.contexts import CONDITIONINGS, PAPERS, Conditioning
from cpmi_dagster.contracts.registries import by_name
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.text import did_you_mean
from cpmi_dagster.rewards import controls, formulas
from cpmi_dagster.rewards.formulas import Evidence
from cpmi_dagster.scoring.conditionings import CONTRASTS

CORPUS_LABELS = "math_shepherd"
"""The labels that come with the corpus."""


@dataclass(frozen=True)
class Needs:
    """What labeling with a reward type takes.

    Attributes:
        scores: answer log-probabilities.
        conditionings: under which answers are scored; the profile's default where none is named.
        negatives: hard negatives that the gold answer is contrasted with; None is all, 0 none.
        policy_steps: steps whose prefixes the policy completes; None is all, 0 none.
        prover_steps: likewise for the prover, which also completes the bare question.
        controls: what the labeler reads beside answers, of `SCORED_CONTROLS`.
        truth: whether steps are truly right: a ceiling, not a label that anyone could make.
    """

    scores: bool = False
    conditionings: tuple[Conditioning, ...] = ()
    negatives: int | None = None
    policy_steps: int | None = 0
    prover_steps: int | None = 0
    controls: tuple[str, ...] = ()
    truth: bool = False

    @property
    def uses_prover(self) -> bool:
        """Whether it takes the second model."""
        return self.prover_steps != 0

    @property
    def contrasts(self) -> bool:
        """Whether the gold answer is contrasted with hard negatives."""
        return self.scores and self.negatives != 0


class Merge(NamedTuple):
    """Another reward type at a trajectory's first steps."""

    first: str
    steps: int


class Scale(NamedTuple):
    """What rewards are, and from where on they call a step right."""

    words: str
    right_from: float


PROBABILITY = Scale("a probability", 0.5)
DIFFERENCE = Scale("a difference", 0.0)


@dataclass(frozen=True)
class RewardType:
    """One reward type.

    Attributes:
        name: in profiles and in `labels.step_rewards`.
        label: of its rows in tables and plots, as in the paper where it has them.
        compute: the reward of every step: trajectory_id, step_index, reward.
        needs: what labeling with it takes.
        is_probability: its rewards are soft labels as they are; others are normalised by Eq. 7.
        merge: the reward type of its first steps; these are normalised as that type is.
        kind: a `method` of labeling; a `control` that a method has to beat; or what comes with the `corpus`. Only
            methods are billed.
        in_main_tables: has a row in the paper's main tables.
        is_free: a control that takes nothing but the trajectory; the best of these is what a label must beat.
        takes_final_answer: whether it is higher where the final answer is right, by definition.
        own_scale: of rewards that are neither probabilities nor differences of log-probabilities.
    """

    name: str
    label: str
    compute: Callable[[Evidence], pl.DataFrame]
    needs: Needs
    is_probability: bool = False
    merge: Merge | None = None
    kind: Literal["method", "control", "corpus"] = "method"
    in_main_tables: bool = False
    is_free: bool = False
    takes_final_answer: bool = False
    own_scale: Scale | None = None

    @property
    def meaning(self) -> str:
        """What the reward of a step is: the first line of its formula's docstring, and what the formula is given."""
        formula, given = self.compute, ""
        if isinstance(formula, partial):
            values = ", ".join(f"{name} = {value}" for name, value in formula.keywords.items())
            formula, given = formula.func, f" Here {values}."
        return (formula.__doc__ or "").strip().partition("\n")[0] + given

    @property
    def scale(self) -> Scale | None:
        """Of its rewards, of a merge after the first steps; None where no number says right, as of a length."""
        if self.is_probability:
            return PROBABILITY
        return DIFFERENCE if self.needs.scores else self.own_scale

    @property
    def is_billed(self) -> bool:
        """Whether it has labeling costs: methods, and the control that takes another method's first steps."""
        return self.kind == "method" or self.merge is not None

    @property
    def is_of_labeler(self) -> bool:
        """Whether trajectory and labeler are enough: no rollouts, no second model, no labels or truth of others."""
        needs = self.needs
        beside = (needs.policy_steps, needs.prover_steps, needs.truth)
        return self.kind != "corpus" and not any(part != 0 for part in beside)

    @property
    def reads_no_gold(self) -> bool:
        """Whether it is a control that takes a model, but neither gold answer nor rollouts."""
        return self.kind == "control" and self.needs != Needs() and self.needs == Needs(controls=self.needs.controls)


SCORES, ROLLOUTS = Needs(scores=True), Needs(policy_steps=None)


def _control(
    name: str,
    label: str,
    compute: Callable[[Evidence], pl.DataFrame],
    needs: Needs = Needs(),
    is_probability: bool = False,
    is_free: bool = False,
    takes_final_answer: bool = False,
) -> RewardType:
    """A label that a method has to beat."""
    return RewardType(
        name,
        label,
        compute,
        needs,
        is_probability,
        kind="control",
        is_free=is_free,
        takes_final_answer=takes_final_answer,
    )


REWARD_TYPES: dict[str, RewardType] = by_name(
    (
        RewardType("mc", "MC", formulas.mc, ROLLOUTS, is_probability=True, in_main_tables=True),
        RewardType("mc_hard", "MC (hard)", formulas.mc_hard, ROLLOUTS, is_probability=True),
        RewardType(
            "pav",
            "PAV",
            formulas.pav,
            Needs(policy_steps=None, prover_steps=None),
            in_main_tables=True,
            # where the step changes nothing for the prover, it is MC
            own_scale=Scale("a probability plus a difference", PROBABILITY.right_from),
        ),
        RewardType("cpmi", "CPMI", formulas.cpmi, SCORES, in_main_tables=True),
        *(
            RewardType(
                f"cpmi_merge{steps}",
                "CPMI_Merge" if steps == 1 else f"CPMI_Merge{steps}",
                partial(formulas.mc_merge, steps=steps),
                Needs(scores=True, policy_steps=steps),
                merge=Merge("mc", steps),
                in_main_tables=steps == 1,
            )
            for steps in (1, 2, 3)
        ),
        *(
            RewardType(
                f"pav_merge{steps}",
                f"PAV_Merge{steps}",
                partial(formulas.pav_merge, steps=steps),
                Needs(scores=True, policy_steps=steps, prover_steps=steps),
                merge=Merge("pav", steps),
            )
            for steps in (1, 2, 3)
        ),
        *(
            RewardType(
                f"cpmi_{name}",
                f"CPMI ({entry.words})",
                partial(formulas.conditioned, conditioning=name),
                Needs(scores=True, conditionings=(name,)),
            )
            for name, entry in CONDITIONINGS.items()
            if name != PAPERS
        ),
        *(
            RewardType(
                f"cpmi_{contrast}", f"CPMI ({contrast})", partial(formulas.contrasted, contrast=contrast), SCORES
            )
            for contrast in CONTRASTS
            if contrast != "mean"
        ),
        *(
            RewardType(
                f"cpmi_m{count}",
                f"CPMI (M = {count})",
                partial(formulas.fewer_negatives, count=count),
                Needs(scores=True, negatives=count),
            )
            for count in (1, 2)
        ),
        RewardType("gold_only", "Gold_only", formulas.gold_only, Needs(scores=True, negatives=0)),
        RewardType("neg_only", "Neg_only", formulas.negatives_only, SCORES),
        RewardType(
            "rand_merge",
            "Rand_Merge",
            formulas.rand_merge,
            Needs(policy_steps=1),
            is_probability=True,
            merge=Merge("mc", 1),
            kind="control",
            in_main_tables=True,
        ),
        _control("position", "Position", controls.position, is_probability=True, is_free=True),
        _control(
            "final_answer",
            "Final answer",
            controls.final_answer,
            is_probability=True,
            is_free=True,
            takes_final_answer=True,
        ),
        _control(
            "final_answer_position",
            "Final answer × position",
            controls.final_answer_position,
            is_probability=True,
            is_free=True,
            takes_final_answer=True,
        ),
        _control("step_length", "Step length", controls.step_length, is_free=True),
        _control("step_surprisal", "Step surprisal", controls.step_surprisal, Needs(controls=("step_surprisal",))),
        _control("uniform", "Uniform random", formulas.uniform, is_probability=True),
        _control("truth", "True steps", formulas.true_steps, Needs(truth=True), is_probability=True),
        RewardType(
            CORPUS_LABELS,
            "Math-Shepherd's + and -",
            formulas.corpus_labels,
            Needs(),
            is_probability=True,
            kind="corpus",
        ),
    )
)
"""Every reward type by name, in the order in which tables and plots list them."""


_ANSWERED = "docs/evidence.md has what it told"
REMOVED = {
    **dict.fromkeys(("cpmi_sum", "cpmi_logsumexp_sum", "cpmi_max_sum"), "take the type without `_sum`"),
    **dict.fromkeys(("cpmi_m4", "cpmi_m8", "cpmi_m12"), "take `cpmi` and set `negatives.count`"),
    **dict.fromkeys(
        ("mc_prover", "cpmi_prover", "cpmi_logsumexp_prover"), "take a profile whose labeler is that model"
    ),
    "cpmi_question_negatives": "take `cpmi` and set `negatives: {sees: question}`",
    **dict.fromkeys(("information_gain", "judge_token", "answer_entropy", "self_certainty"), _ANSWERED),
    **dict.fromkeys(("other_gold", "other_step"), _ANSWERED),
}
"""Reward types that went: what to do instead."""


def reward_type(name: str) -> RewardType:
    """The entry of a reward type.

    Raises:
        SettingsError: there is no such reward type; the message lists them.
    """
    if name in REMOVED:
        raise SettingsError(f"the reward type `{name}` was removed; {REMOVED[name]}")
    if name not in REWARD_TYPES:
        raise SettingsError(
            f"`{name}` is not a reward type{did_you_mean(name, REWARD_TYPES)}; choose from {', '.join(REWARD_TYPES)}"
        )
    return REWARD_TYPES[name]


def reward_label(name: str) -> str:
    """The row label of a reward type; user-supplied labels keep their name."""
    return REWARD_TYPES[name].label if name in REWARD_TYPES else name


def listing_place(column: str) -> pl.Expr:
    """The place of a reward type in tables and plots; user-supplied labels come last."""
    places = {name: place for place, name in enumerate(REWARD_TYPES)}
    return pl.col(column).replace_strict(places, default=len(places), return_dtype=pl.Int64)


def comes_with_data(name: str) -> bool:
    """Whether labels are neither a method nor a control: the corpus's, or user-supplied ones."""
    return name not in REWARD_TYPES or REWARD_TYPES[name].kind == "corpus"


def is_taken(name: str) -> bool:
    """Whether user-supplied labels cannot have this name: it is a reward type's, or one that a merge might have."""
    merges = {entry.name.rstrip(digits) for entry in REWARD_TYPES.values() if entry.merge}
    return name in REWARD_TYPES or name.rstrip(digits) in merges
