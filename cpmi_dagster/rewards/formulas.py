"""Step rewards of every type from stored log-probabilities and rollouts: no model, only queries.

    trajectory  step  mc    pav    cpmi   cpmi_merge1
    t000000007  0     0.75  1.00   0.31   0.75          MC at the first step,
    t000000007  1     0.25  0.00  -0.42  -0.42          CPMI after it

Every formula takes the evidence and returns trajectory_id, step_index, reward; `registry` names the reward type that
each is for.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from cpmi_dagster.answers.verdicts import is_equivalent
from cpmi_dagster.contracts.contexts import Conditioning
from cpmi_dagster.contracts.seeded import uniform_number
from cpmi_dagster.contracts.tables import ControlLogprobs, StepTruth
from cpmi_dagster.errors import ScoringError, SettingsError
from cpmi_dagster.scoring.conditionings import Contrast, contrast_shifts, gold_shifts, template_scores
from cpmi_dagster.trajectories.step_truth import with_truth

STEP = ["trajectory_id", "step_index"]


@dataclass(frozen=True)
class Evidence:
    """What rewards are computed from; the frames have the columns of the tables they are named after.

    Attributes:
        logprobs: `labels.answer_logprobs`.
        scores: `labels.template_scores`.
        policy_rollouts: `labels.policy_rollouts`, prefixes 1..n.
        prover_rollouts: `labels.prover_rollouts`, prefixes 0..n.
        trajectories: trajectory_id, row_number, steps, shepherd_labels, final_answer, gold_answer.
        default_conditioning: of the types that name no conditioning.
        alpha: weight of the prover's advantage in PAV.
        seed: decides the random rewards of `rand_merge` and `uniform`.
        control_logprobs: `labels.control_logprobs`.
        step_truth: `sources.step_truth`.
        same: whether a final answer is the gold answer: gold, candidate.
    """

    logprobs: pl.DataFrame
    scores: pl.DataFrame
    policy_rollouts: pl.DataFrame
    prover_rollouts: pl.DataFrame
    trajectories: pl.DataFrame
    default_conditioning: Conditioning
    alpha: float
    seed: int
    control_logprobs: pl.DataFrame = field(default_factory=ControlLogprobs.create_empty)
    step_truth: pl.DataFrame = field(default_factory=StepTruth.create_empty)
    same: Callable[[str, str], bool] = is_equivalent

    @cached_property
    def steps(self) -> pl.DataFrame:
        """One row per step: trajectory_id, steps (all of its trajectory) and step_index."""
        numbered = pl.int_ranges(pl.col("steps").list.len())
        rows = self.trajectories.select("trajectory_id", "steps", step_index=numbered)
        return rows.explode("step_index", empty_as_null=False)

    @cached_property
    def mc(self) -> pl.DataFrame:
        """MC by the policy."""
        return success_rates(self.policy_rollouts).filter(pl.col("step_index") >= 0)

    @cached_property
    def cpmi(self) -> pl.DataFrame:
        """CPMI under the default conditioning."""
        return mean_over_templates(self.scores, self.default_conditioning, pl.col("cpmi"))


def success_rates(rollouts: pl.DataFrame, hard: bool = False) -> pl.DataFrame:
    """Share of a prefix's rollouts that reach the gold answer (Eq. 1), or whether any does.

    Args:
        rollouts: trajectory_id, prefix_length, correct.
        hard: Math-Shepherd's hard estimate, 1 if any rollout is right.

    Returns:
        trajectory_id, step_index (the prefix's last step, -1 for the bare question), reward in [0, 1].
    """
    correct = pl.col("correct")
    return rollouts.group_by("trajectory_id", step_index=pl.col("prefix_length") - 1).agg(
        reward=correct.any().cast(pl.Float64) if hard else correct.mean()
    )


def mean_over_templates(scores: pl.DataFrame, conditioning: Conditioning, term: pl.Expr) -> pl.DataFrame:
    """Mean over the K templates of a term of Eq. 3 (Eq. 4).

    Args:
        scores: columns of `labels.template_scores`.
        conditioning: which steps precede the answer.
        term: what is averaged, in nats per token.

    Raises:
        SettingsError: there are scores, but none of this conditioning.
    """
    chosen = scores.filter(pl.col("conditioning") == conditioning)
    if chosen.is_empty() and not scores.is_empty():
        raise SettingsError(
            f"the conditioning `{conditioning}` was not scored; add it to `scoring.conditionings`, or remove the "
            "reward types that need it"
        )
    return template_mean(chosen, term)


def template_mean(scores: pl.DataFrame, term: pl.Expr) -> pl.DataFrame:
    """Mean of a term over templates (Eq. 4): trajectory_id, step_index, reward."""
    return scores.sort(*STEP, "template").group_by(STEP, maintain_order=True).agg(reward=term.mean())


def merge(first: pl.DataFrame, rest: pl.DataFrame, steps: int) -> pl.DataFrame:
    """`first` at the first `steps` steps, `rest` after them (CPMI_Merge, section 4.3 and appendix D.2).

    Args:
        first: trajectory_id, step_index, reward; the trajectories that it lacks are left out.
        rest: likewise, every step of its trajectories.
        steps: k, how many steps take `first`.

    Raises:
        ScoringError: `first` lacks a step of a trajectory.
    """
    both = rest.join(first, on="trajectory_id", how="semi", maintain_order="left")
    joined = both.join(first, on=STEP, how="left", suffix="_first", maintain_order="left")
    reward = pl.when(pl.col("step_index") < steps).then(pl.col("reward_first")).otherwise(pl.col("reward"))
    return _complete(joined.select(*STEP, reward=reward), "policy")


def _complete(rewards: pl.DataFrame, model: str) -> pl.DataFrame:
    """The rewards, none of them missing."""
    missing = rewards.filter(pl.col("reward").is_null()).sort(STEP)
    if not missing.is_empty():
        trajectory_id, step = missing.row(0)[:2]
        raise ScoringError(
            f"trajectory `{trajectory_id}` lacks {model} rollouts that the reward of step {step} (from 0) needs; "
            "compute its rollouts again"
        )
    return rewards


def mc(evidence: Evidence) -> pl.DataFrame:
    """The share of the policy's completions of a prefix that reach the gold answer: MC (Eq. 1)."""
    return evidence.mc


def mc_hard(evidence: Evidence) -> pl.DataFrame:
    """1 where any completion by the policy reaches the gold answer, else 0: Math-Shepherd's hard estimate."""
    return success_rates(evidence.policy_rollouts, hard=True).filter(pl.col("step_index") >= 0)


def cpmi(evidence: Evidence) -> pl.DataFrame:
    """The gold answer's shift less the wrong answers' mean shift, a mean over templates: CPMI (Eq. 4)."""
    return evidence.cpmi


def pav(evidence: Evidence) -> pl.DataFrame:
    """MC by the policy plus alpha times how much the step changes the prover's MC: PAV (Eq. 2)."""
    prover = success_rates(evidence.prover_rollouts)
    before = prover.with_columns(pl.col("step_index") + 1)
    joined = evidence.mc.join(prover, on=STEP, how="left", suffix="_prover")
    joined = joined.join(before, on=STEP, how="left", suffix="_before")
    advantage = pl.col("reward_prover") - pl.col("reward_before")
    reward = pl.col("reward") + evidence.alpha * advantage
    return _complete(joined.select(*STEP, reward=reward), "prover")


def gold_only(evidence: Evidence) -> pl.DataFrame:
    """The gold answer's shift alone (table 2), which needs no hard negatives."""
    shifts = gold_shifts(evidence.logprobs, evidence.default_conditioning)
    return template_mean(shifts, pl.col("gold_shift"))


def negatives_only(evidence: Evidence) -> pl.DataFrame:
    """The hard negatives' shift alone, with its sign turned (table 2)."""
    return mean_over_templates(evidence.scores, evidence.default_conditioning, -pl.col("negative_shift"))


def conditioned(evidence: Evidence, conditioning: Conditioning) -> pl.DataFrame:
    """CPMI under a conditioning by name."""
    return mean_over_templates(evidence.scores, conditioning, pl.col("cpmi"))


def fewer_negatives(evidence: Evidence, count: int) -> pl.DataFrame:
    """CPMI with the `count` hardest negatives (appendix D.1)."""
    conditioning = evidence.default_conditioning
    scores = template_scores(evidence.logprobs, [conditioning], count)
    return mean_over_templates(scores, conditioning, pl.col("cpmi"))


def contrasted(evidence: Evidence, contrast: Contrast) -> pl.DataFrame:
    """The shift under another contrast with the hard negatives; ours, not the paper's."""
    shifts = contrast_shifts(evidence.logprobs, evidence.default_conditioning, contrast)
    return template_mean(shifts, pl.col("shift"))


def rand_merge(evidence: Evidence) -> pl.DataFrame:
    """MC at the first step, U(0, 1) after it (section 5.3)."""
    return merge(evidence.mc, uniform(evidence), 1)


def uniform(evidence: Evidence) -> pl.DataFrame:
    """U(0, 1) at every step, seeded."""
    steps = evidence.steps.select(STEP)
    numbers = [uniform_number(evidence.seed, row) for row in steps.iter_rows()]
    return steps.with_columns(reward=pl.Series(numbers, dtype=pl.Float64))


def true_steps(evidence: Evidence) -> pl.DataFrame:
    """1 where the step is truly right, else 0; what nobody has judged behind a wrong step is wrong, as on ProcessBench.

    Trajectories without truth, or with a step before the first wrong one that nobody has judged, are left out.
    """
    is_open = pl.element().is_null() & (pl.element().eq_missing(False).cum_sum() == 0)
    known = with_truth(evidence.trajectories, evidence.step_truth)
    known = known.filter(~pl.col("correct").list.eval(is_open).list.any())
    steps = pl.int_ranges(pl.col("correct").list.len())
    labels = known.select("trajectory_id", step_index=steps, reward="correct")
    labels = labels.explode("step_index", "reward", empty_as_null=False)
    return labels.with_columns(pl.col("reward").fill_null(False).cast(pl.Float64))


def corpus_labels(evidence: Evidence) -> pl.DataFrame:
    """The corpus's own labels, + as 1 and - as 0, of the trajectories that it labels."""
    labels = pl.col("shepherd_labels")
    labelled = evidence.trajectories.filter(labels.is_not_null())
    numbered = labelled.select("trajectory_id", step_index=pl.int_ranges(labels.list.len()), reward=labels)
    return numbered.explode("step_index", "reward").with_columns(pl.col("reward").cast(pl.Float64))


def mc_merge(evidence: Evidence, steps: int) -> pl.DataFrame:
    """MC at the first steps, CPMI after them (section 4.3)."""
    return merge(evidence.mc, evidence.cpmi, steps)


def pav_merge(evidence: Evidence, steps: int) -> pl.DataFrame:
    """PAV at the first steps, CPMI after them (appendix D.2)."""
    return merge(pav(evidence), evidence.cpmi, steps)
