"""Controls, labels that cost nothing or see no gold answer and that a method has to beat; and labels from elsewhere.

trajectory   final answer right   steps   position          final answer   final answer × position
t000000007   yes                  3       0.67 0.33 0.00    1 1 1          1.00 1.00 1.00
t000000012   no                   3       0.67 0.33 0.00    0 0 0          0.67 0.33 0.00
"""

import polars as pl

from cpmi_dagster.contracts.seeded import uniform_number
from cpmi_dagster.rewards.methods import MC, merge_types, template_mean
from cpmi_dagster.rewards.reward_type import PROBABILITY, STEP, Demand, LabelInputs, RewardType
from cpmi_dagster.scoring.conditionings import MEAN_LOGPROB
from cpmi_dagster.trajectories.step_truth import with_truth

CORPUS_LABELS = "math_shepherd"
"""The labels that come with the corpus."""
EARLINESS = 1 - (pl.col("step_index") + 1) / pl.col("steps").list.len()


def position(inputs: LabelInputs) -> pl.DataFrame:
    """1 minus the relative position of a step, which is 1 at the last: early steps are more often right."""
    return inputs.steps.select(*STEP, reward=EARLINESS)


def final_answer(inputs: LabelInputs) -> pl.DataFrame:
    """1 at every step of a trajectory with a right final answer, 0 with a wrong one: an outcome label."""
    return _outcomes(inputs).select(*STEP, reward="is_right")


def final_answer_position(inputs: LabelInputs) -> pl.DataFrame:
    """1 if the final answer is right, else `position`."""
    return _outcomes(inputs).select(*STEP, reward=pl.max_horizontal("is_right", EARLINESS))


def step_length(inputs: LabelInputs) -> pl.DataFrame:
    """Minus the number of characters of the step, so that longer is lower: it has more room for an error."""
    step = pl.col("steps").list.get(pl.col("step_index"))
    return inputs.steps.select(*STEP, reward=-step.str.len_chars().cast(pl.Float64))


def step_surprisal(inputs: LabelInputs) -> pl.DataFrame:
    """Mean log-probability of the step's own tokens after the question and the steps before it, in nats per token."""
    following = inputs.step_logprobs.with_columns(pl.col("step_index") + 1)
    return template_mean(following, MEAN_LOGPROB)


def uniform(inputs: LabelInputs) -> pl.DataFrame:
    """U(0, 1) at every step, seeded."""
    steps = inputs.steps.select(STEP)
    numbers = [uniform_number(inputs.seed, row) for row in steps.iter_rows()]
    return steps.with_columns(reward=pl.Series(numbers, dtype=pl.Float64))


def true_steps(inputs: LabelInputs) -> pl.DataFrame:
    """1 if the step is truly right, else 0; steps that nobody judged after a wrong one are wrong, as on ProcessBench.

    Trajectories without truth, or with an unjudged step before the first wrong one, are left out.
    """
    is_open = pl.element().is_null() & (pl.element().eq_missing(False).cum_sum() == 0)
    judged = with_truth(inputs.trajectories, inputs.truth)
    return _explode_labels(judged.filter(~pl.col("correct").list.eval(is_open).list.any()), "correct")


def corpus_labels(inputs: LabelInputs) -> pl.DataFrame:
    """The labels of the corpus, + as 1 and - as 0."""
    return _explode_labels(inputs.trajectories.drop_nulls("shepherd_labels"), "shepherd_labels")


def _explode_labels(trajectories: pl.DataFrame, column: str) -> pl.DataFrame:
    """A list of truth values per trajectory as rewards 1 and 0; null is 0."""
    numbered = trajectories.select(
        "trajectory_id", step_index=pl.int_ranges(pl.col(column).list.len()), reward=pl.col(column)
    )
    rows = numbered.explode("step_index", "reward", empty_as_null=False)
    return rows.with_columns(pl.col("reward").fill_null(False).cast(pl.Float64))


def _outcomes(inputs: LabelInputs) -> pl.DataFrame:
    """The steps of trajectories with a gold answer and a final answer, with `is_right`, 1 or 0."""
    schema = {"trajectory_id": pl.String, "is_right": pl.Boolean}
    outcomes = pl.DataFrame(list(inputs.outcomes.items()), schema, orient="row").cast({"is_right": pl.Float64})
    return inputs.steps.join(outcomes, on="trajectory_id", maintain_order="left")


FINAL = Demand(inputs=("final_answer",))
UNIFORM = RewardType("uniform", "Uniform random", uniform, scale=PROBABILITY, kind="control")
CONTROLS = (
    merge_types("rand_merge", "Rand_Merge", MC, UNIFORM, 1, in_main_tables=True),
    RewardType("position", "Position", position, scale=PROBABILITY, kind="control", is_free=True),
    RewardType("final_answer", "Final answer", final_answer, FINAL, PROBABILITY, kind="control", is_free=True),
    RewardType(
        "final_answer_position",
        "Final answer × position",
        final_answer_position,
        FINAL,
        PROBABILITY,
        kind="control",
        is_free=True,
    ),
    RewardType("step_length", "Step length", step_length, scale=None, kind="control", is_free=True),
    RewardType(
        "step_surprisal", "Step surprisal", step_surprisal, Demand(inputs=("step_texts",)), None, kind="control"
    ),
    UNIFORM,
    RewardType("truth", "True steps", true_steps, Demand(inputs=("truth",)), PROBABILITY, kind="control"),
    RewardType(
        CORPUS_LABELS,
        "Math-Shepherd's + and -",
        corpus_labels,
        Demand(inputs=("corpus_labels",)),
        PROBABILITY,
        kind="corpus",
    ),
)
