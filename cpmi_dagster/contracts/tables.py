"""The contract of every table: columns, types, rules, keys, and a comment on the table and each column.

    labels.step_rewards     asset key labels/step_rewards, files lake/labels/step_rewards/003.parquet

`TABLES` lists the tables in the order data flows; the groups `labels` and `reports` have modules of their own. Rows get
the columns of `PROVENANCE` when they are written. Steps and templates count from 0.
"""

from dataclasses import dataclass
from typing import Literal

import dataframely as dy
import polars as pl

from cpmi_dagster.contracts.label_tables import (
    AnswerLogprobs,
    ControlLogprobs,
    HardNegatives,
    LabelingCosts,
    ProverRollouts,
    RejectedTrajectories,
    Rollouts,
    StepRewards,
    TemplateScores,
)
from cpmi_dagster.contracts.report_tables import PaperComparison, Report

Partitioning = Literal["shard", "recipe", "benchmark", "topic"]
"""What the partitions of a table are."""
SOLUTIONS_PER_QUESTION = 1_000
"""The most solutions sampled of a question: solution 4 of question 7 is row 7,004, however many there are."""

PROVENANCE: dict[str, pl.DataType] = {"run_id": pl.String(), "model": pl.String(), "code_version": pl.String()}
PROVENANCE_MEANING: dict[str, str] = {
    "run_id": "Dagster run that wrote the row",
    "model": "model or recipe that produced the row, with revision or weights hash; empty if no model is used",
    "code_version": "version of the stage that wrote the row",
}


class Questions(dy.Schema):
    """Questions that the policy solves, if the profile samples its trajectories."""

    question_number = dy.Int64(primary_key=True, min=0, description="row of the source, from 0")
    source_id = dy.String(nullable=True, description="id of the question in the source; null if it has none")
    question = dy.String(nullable=True, description="question text; null if the row cannot be read")
    task = dy.String(description="task given by the source; empty if it gives none")
    gold_answer = dy.String(nullable=True, description="right answer, given by the source; null if it gives none")
    split = dy.String(nullable=True, description="split given by the source; null if it gives none")
    defect = dy.String(nullable=True, description="why the row cannot be read; null if it can")
    excerpt = dy.String(nullable=True, description="first characters of the row if it cannot be read")


class SampledSolutions(dy.Schema):
    """Solutions of the questions by the policy, not yet split into steps, if the profile samples its trajectories."""

    question_number = dy.Int64(
        primary_key=True, min=0, description="question solved; sources.questions.question_number"
    )
    solution = dy.Int64(
        primary_key=True, min=0, max=SOLUTIONS_PER_QUESTION - 1, description="number of the sample, from 0"
    )
    text = dy.String(description="text of the solution")
    generated_tokens = dy.Int64(min=0, description="number of tokens sampled")
    truncated = dy.Bool(description="whether the sample was cut at its token limit, or had no room after the question")


class MathShepherd(dy.Schema):
    """Solutions in steps, one per row of the trajectory source or sampled solution; unreadable ones have a defect."""

    row_number = dy.Int64(
        primary_key=True,
        min=0,
        description="row of the source, from 0 (messages count from 1); of a sampled solution "
        f"{SOLUTIONS_PER_QUESTION} * sources.sampled_solutions.question_number + sources.sampled_solutions.solution",
    )
    source_id = dy.String(
        nullable=True, description="id in the source, of a sampled solution `question/solution`; null if there is none"
    )
    question = dy.String(
        nullable=True,
        min_length=1,
        description="question text, of a sampled solution sources.questions.question; null with a defect",
    )
    steps = dy.List(
        dy.String(),
        nullable=True,
        description="steps in order, of a sampled solution from sources.sampled_solutions.text; null with a defect",
    )
    labels = dy.List(
        dy.Bool(), nullable=True, description="whether the source labels each step `+`; null if it labels none"
    )
    task = dy.String(description="task given by the source, e.g. GSM8K or MATH; empty if it gives none")
    question_id = dy.String(description="hash of the normalised question, or of the excerpt; determines the shard")
    final_answer = dy.String(nullable=True, description="final answer read from the last step; null if it states none")
    gold_answer = dy.String(nullable=True, description="gold answer given by the row; null if it gives none")
    split = dy.String(nullable=True, description="split given by the row; null if it gives none")
    defect = dy.String(nullable=True, description="why the row cannot become a trajectory; null if it can")
    excerpt = dy.String(nullable=True, description="first characters of the row if it has a defect")


class ReferenceProblems(dy.Schema):
    """Problems with gold answers, from GSM8K, MATH or other sets, that trajectories are matched with."""

    source = dy.String(primary_key=True, description="name of the set, e.g. gsm8k")
    split = dy.String(primary_key=True, description="split of the set, e.g. train")
    problem_id = dy.String(primary_key=True, description="id in the set, or row of the set from 0")
    question = dy.String(description="question text")
    solution = dy.String(description="reference solution, or the answer if there is no solution")
    answer = dy.String(description="gold answer, given or read from the solution; empty if there is none")
    level = dy.String(nullable=True, description="difficulty given by the set; null if it gives none")
    subject = dy.String(nullable=True, description="subject given by the set; null if it gives none")


class BenchmarkProblems(dy.Schema):
    """Problems of all benchmarks: solutions to judge step by step, or questions with gold answers."""

    benchmark = dy.String(
        primary_key=True, description="name of the benchmark, e.g. processbench_math, prmbench, gsm8k"
    )
    problem_id = dy.String(primary_key=True, description="id, unique within the benchmark")
    question = dy.String(description="question text, as a solver reads it")
    choices = dy.List(dy.String(), nullable=True, description="options of a multiple-choice question; null for others")
    answer = dy.String(nullable=True, description="gold answer; null if the steps of a solution are judged")
    steps = dy.List(dy.String(), nullable=True, description="steps of the solution to judge; null for question sets")
    first_error = dy.Int64(nullable=True, description="first wrong step, from 0; -1 if all are right (ProcessBench)")
    error_steps = dy.List(dy.Int64(), nullable=True, description="wrong steps, from 0 (PRMBench)")
    category = dy.String(
        nullable=True, description="kind of error (PRMBench), e.g. circular, or subject; null if there is none"
    )


class StepTruth(dy.Schema):
    """Steps judged by people, or known to be right or wrong by construction, if the profile names such a source."""

    row_number = dy.Int64(primary_key=True, min=0, description="row judged; sources.math_shepherd.row_number")
    correct = dy.List(dy.Bool(nullable=True), description="whether each step is right; null if nobody judged it")
    kind = dy.List(
        dy.String(nullable=True), nullable=True, description="name of the error in each step; null for a right step"
    )
    operations_left = dy.List(
        dy.Int64(),
        nullable=True,
        description="number of operations that remain after each step; null if the source does not say",
    )


class RejectedTruth(dy.Schema):
    """Rows of the step truth that fit no solution, each with the reason."""

    row_number = dy.Int64(
        primary_key=True,
        min=0,
        description="row of sources.step_truth as given, from 0; reasons and messages count from 1",
    )
    source_id = dy.String(nullable=True, description="what the row calls its solution; null if it gives no name")
    reason = dy.String(min_length=1, description="what was wrong, in one sentence")
    excerpt = dy.String(description="first characters of the row")


class StepLabels(dy.Schema):
    """Step labels supplied by the user, if the profile names any."""

    name = dy.String(primary_key=True, description="name of the labels in the profile, and their reward type")
    trajectory_id = dy.String(primary_key=True, description="trajectory labelled; alignment.trajectories.trajectory_id")
    step_index = dy.Int64(primary_key=True, min=0, description="step, from 0")
    reward = dy.Float64(description="label as given; in [0, 1] if the profile says `probabilities`")


class Trajectories(dy.Schema):
    """Source rows with a question, its steps and, if known, its gold answer."""

    trajectory_id = dy.String(primary_key=True, description="`t` and the row number in 9 digits, e.g. t000000042")
    source_id = dy.String(nullable=True, description="the user's id of the row; null if it has none")
    question_id = dy.String(description="hash of the normalised question; sources.math_shepherd.question_id")
    row_number = dy.Int64(min=0, description="row of the source; sources.math_shepherd.row_number")
    task = dy.String(description="task given by the source, else the reference set that matches, e.g. GSM8K, else OWN")
    question = dy.String(min_length=1, description="question text; sources.math_shepherd.question")
    steps = dy.List(dy.String(), min_length=1, description="steps in order, without Math-Shepherd's `Step i:` headers")
    shepherd_labels = dy.List(
        dy.Bool(), min_length=1, nullable=True, description="step labels of the source; null if it has none"
    )
    final_answer = dy.String(nullable=True, description="final answer read from the last step; null if it states none")
    gold_answer = dy.String(
        nullable=True,
        min_length=1,
        description="right answer, of the row, else of the reference problem; null if there is neither",
    )
    match_source = dy.String(
        description="origin of the gold answer: source/split/problem_id or given/split/source_id; else empty"
    )
    match_kind = dy.String(
        description="how its question was matched: exact, whitespace, normalized, given (by the row) or none"
    )


class RejectedRows(dy.Schema):
    """Source rows that did not become trajectories, each with the reason."""

    row_number = dy.Int64(primary_key=True, min=0, description="row rejected; sources.math_shepherd.row_number")
    source_id = dy.String(nullable=True, description="the user's id of the row; null if it has none")
    stage = dy.String(
        description="why: read (it has a defect), duplicate, align (no reference fits) or answer (it has none)"
    )
    reason = dy.String(min_length=1, description="what was wrong, in one sentence")
    excerpt = dy.String(description="first characters of the row or of its question")


class SelectedTrajectories(dy.Schema):
    """Trajectories that are labelled, and the shard of each."""

    trajectory_id = dy.String(primary_key=True, description="trajectory selected; alignment.trajectories.trajectory_id")
    question_id = dy.String(description="alignment.trajectories.question_id")
    shard = dy.String(description="shard of its rows, e.g. 003")
    task = dy.String(description="alignment.trajectories.task")
    composition = dy.String(description="mixed (labels + and -), pure or unlabelled")


class SoftLabels(dy.Schema):
    """Training targets of reward models: each reward relative to all of its type in the labelled set."""

    trajectory_id = dy.String(
        primary_key=True, description="trajectory of the step; alignment.trajectories.trajectory_id"
    )
    step_index = dy.Int64(primary_key=True, min=0, description="step, from 0")
    reward_type = dy.String(primary_key=True, description="labels.step_rewards.reward_type")
    soft_label = dy.Float64(min=0, max=1, description="probability that a reward model learns to give the step")


class Cpmi80k(dy.Schema):
    """The data set: a row per trajectory that CPMI labels, with a list for each kind of label."""

    trajectory_id = dy.String(primary_key=True, description="trajectory labelled; alignment.trajectories.trajectory_id")
    source_id = dy.String(nullable=True, description="alignment.trajectories.source_id")
    question_id = dy.String(description="alignment.trajectories.question_id")
    task = dy.String(description="alignment.trajectories.task")
    question = dy.String(description="alignment.trajectories.question")
    steps = dy.List(dy.String(), min_length=1, description="alignment.trajectories.steps")
    gold_answer = dy.String(description="alignment.trajectories.gold_answer")
    hard_negatives = dy.List(dy.String(), description="wrong answers, by rank")
    shepherd_labels = dy.List(dy.Bool(), nullable=True, description="alignment.trajectories.shepherd_labels")
    rewards = dy.List(dy.Float64(), description="CPMI reward of each step, nats per token")
    soft_labels = dy.List(dy.Float64(), description="CPMI soft label of each step, in [0, 1]")


class DatasetStatistics(dy.Schema):
    """Composition of the data set beside the profile's targets (appendix B)."""

    statistic = dy.String(primary_key=True, description="name of the statistic, e.g. mixed_share")
    target = dy.Float64(nullable=True, description="the profile's target; null if it has none")
    actual = dy.Float64(description="value in the data set")


class ProcessRewardModels(dy.Schema):
    """Trained reward models: where they are, what they learned from, and how well they learned it."""

    recipe = dy.String(primary_key=True, description="recipe of the profile, e.g. cpmi_bce")
    reward_type = dy.String(description="reward type of the soft labels that it learned from")
    objective = dy.String(description="training objective: bce, mse or pqm")
    backbone = dy.String(description="model that training started from, with revision or weights hash")
    path = dy.String(description="folder of the model, relative to the home")
    weights_fingerprint = dy.String(description="SHA-256 of its safetensors files")
    data_version = dy.String(description="hash of the soft labels that it learned from, their Dagster data version")
    train_steps = dy.Int64(min=0, description="number of labelled steps in an epoch")
    seconds = dy.Float64(min=0, description="seconds of training")
    training_curve = dy.List(
        dy.Struct({"step": dy.Int64(), "epoch": dy.Float64(), "split": dy.String(), "loss": dy.Float64()}),
        description="loss by optimiser step, for the splits train and validation",
    )
    scores = dy.List(
        dy.Struct(
            {
                "trajectory_id": dy.String(),
                "step_index": dy.Int64(),
                "probability": dy.Float64(),
                "label": dy.Float64(),
                "held_out": dy.Bool(),
            }
        ),
        description="probability and soft label of each step of up to 2,000 trajectories, held out or not",
    )


class CandidateSolutions(dy.Schema):
    """Solutions of each problem of a question set by the policy, from which reward models choose."""

    benchmark = dy.String(primary_key=True, description="question set, e.g. gsm8k")
    problem_id = dy.String(primary_key=True, description="problem solved; sources.benchmark_problems.problem_id")
    candidate = dy.Int64(primary_key=True, min=0, description="number of the sample, from 0")
    steps = dy.List(dy.String(), description="lines of the solution")
    answer = dy.String(nullable=True, description="final answer read from the solution; null if it states none")
    correct = dy.Bool(description="whether the answer equals the gold answer")
    generated_tokens = dy.Int64(min=0, description="number of tokens sampled")
    truncated = dy.Bool(description="whether the sample was cut at its token limit")


class ProcessBenchPredictions(dy.Schema):
    """Step probabilities by the reward models for ProcessBench, whose task is to find the first wrong step."""

    recipe = dy.String(primary_key=True, description="reward model; models.process_reward_models.recipe")
    benchmark = dy.String(primary_key=True, description="subset of ProcessBench, e.g. processbench_math")
    problem_id = dy.String(primary_key=True, description="problem judged; sources.benchmark_problems.problem_id")
    step_index = dy.Int64(primary_key=True, min=0, description="step, from 0")
    probability = dy.Float64(min=0, max=1, description="probability that the step is right")


class PRMBenchPredictions(dy.Schema):
    """Step probabilities by the reward models for PRMBench, whose wrong steps are of known kinds."""

    recipe = dy.String(primary_key=True, description="reward model; models.process_reward_models.recipe")
    category = dy.String(description="kind of error, e.g. circular; sources.benchmark_problems.category")
    problem_id = dy.String(primary_key=True, description="problem judged; sources.benchmark_problems.problem_id")
    step_index = dy.Int64(primary_key=True, min=0, description="step, from 0")
    probability = dy.Float64(min=0, max=1, description="probability that the step is valid")


class JudgePredictions(dy.Schema):
    """Step probabilities by external judges for ProcessBench and PRMBench, if the profile names any."""

    judge = dy.String(primary_key=True, description="name of the judge in `benchmarks.judges` and in the report")
    benchmark = dy.String(primary_key=True, description="benchmark judged, e.g. processbench_math or prmbench")
    problem_id = dy.String(primary_key=True, description="problem judged; sources.benchmark_problems.problem_id")
    step_index = dy.Int64(primary_key=True, min=0, description="step, from 0")
    probability = dy.Float64(min=0, max=1, description="probability that the step is right")


class BestOfNChoices(dy.Schema):
    """Candidate that a reward model chooses among the first n, and whether it is right."""

    recipe = dy.String(primary_key=True, description="reward model; models.process_reward_models.recipe")
    benchmark = dy.String(primary_key=True, description="question set, e.g. gsm8k")
    problem_id = dy.String(primary_key=True, description="problem solved; sources.benchmark_problems.problem_id")
    n = dy.Int64(primary_key=True, min=1, description="number of candidates to choose from, the first ones")
    aggregation = dy.String(
        primary_key=True,
        description="rule: mean, min, last, product, weighted_vote or majority; or bound: pass_at_n, pass_at_1",
    )
    candidate = dy.Int64(nullable=True, description="candidate chosen; null for votes and bounds")
    correct = dy.Float64(
        min=0, max=1, description="1 if the choice is right, else 0; for pass_at_1 the share of right candidates"
    )
    tied = dy.Bool(nullable=True, description="whether several candidates had the best score; null for bounds")


@dataclass(frozen=True)
class Table:
    """A table: group, name, contract, partitioning, and whether it is an asset; if not, it comes with another one."""

    group: str
    name: str
    schema: type[dy.Schema]
    partitioning: Partitioning | None = None
    is_asset: bool = True

    @property
    def key(self) -> str:
        """`group/name`, the asset key."""
        return f"{self.group}/{self.name}"

    @property
    def relation(self) -> str:
        """`group.name`, its view in DuckDB."""
        return f"{self.group}.{self.name}"

    @property
    def meaning(self) -> str:
        """The comment on the table."""
        return (self.schema.__doc__ or "").strip().splitlines()[0]


_TABLES = (
    Table("sources", "questions", Questions, "shard"),
    Table("sources", "sampled_solutions", SampledSolutions, "shard"),
    Table("sources", "math_shepherd", MathShepherd, "shard"),
    Table("sources", "step_truth", StepTruth),
    Table("sources", "rejected_truth", RejectedTruth, is_asset=False),
    Table("sources", "step_labels", StepLabels),
    Table("sources", "reference_problems", ReferenceProblems),
    Table("sources", "benchmark_problems", BenchmarkProblems),
    Table("alignment", "trajectories", Trajectories, "shard"),
    Table("alignment", "rejected_rows", RejectedRows, "shard"),
    Table("selection", "selected_trajectories", SelectedTrajectories, "shard"),
    Table("labels", "hard_negatives", HardNegatives, "shard"),
    Table("labels", "answer_logprobs", AnswerLogprobs, "shard"),
    Table("labels", "rejected_trajectories", RejectedTrajectories, "shard", is_asset=False),
    Table("labels", "control_logprobs", ControlLogprobs, "shard"),
    Table("labels", "template_scores", TemplateScores, "shard"),
    Table("labels", "policy_rollouts", Rollouts, "shard"),
    Table("labels", "prover_rollouts", ProverRollouts, "shard"),
    Table("labels", "step_rewards", StepRewards, "shard"),
    Table("labels", "labeling_costs", LabelingCosts, "shard"),
    Table("dataset", "soft_labels", SoftLabels),
    Table("dataset", "cpmi_80k", Cpmi80k),
    Table("dataset", "dataset_statistics", DatasetStatistics),
    Table("models", "process_reward_models", ProcessRewardModels, "recipe"),
    Table("benchmarks", "candidate_solutions", CandidateSolutions, "benchmark"),
    Table("benchmarks", "processbench_predictions", ProcessBenchPredictions, "recipe"),
    Table("benchmarks", "prmbench_predictions", PRMBenchPredictions, "recipe"),
    Table("benchmarks", "judge_predictions", JudgePredictions),
    Table("benchmarks", "best_of_n_choices", BestOfNChoices, "recipe"),
    Table("reports", "figures", PaperComparison, "topic"),
    Table("reports", "report", Report),
)

TABLES: dict[str, Table] = {table.key: table for table in _TABLES}


def columns_of(table: Table) -> dict[str, pl.DataType]:
    """Polars type of each column as written to the lake, provenance included."""
    return {**table.schema.create_empty().schema, **provenance_of(table)}


def provenance_of(table: Table) -> dict[str, pl.DataType]:
    """Types of the provenance columns that a table does not declare itself."""
    return {name: dtype for name, dtype in PROVENANCE.items() if name not in table.schema.columns()}


def column_meanings(table: Table) -> dict[str, str]:
    """Comment on each column, provenance included; with its values, if those are listed."""
    columns = table.schema.columns().items()
    values = {name: f": {', '.join(column.categories)}" for name, column in columns if isinstance(column, dy.Enum)}
    described = {name: f"{column.description or ''}{values.get(name, '')}" for name, column in columns}
    return {**PROVENANCE_MEANING, **described}
