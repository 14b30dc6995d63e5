"""The contract of every table: columns, types, rules, keys, and a comment on the table and each column.

    labels.step_rewards     asset key labels/step_rewards, files lake/labels/step_rewards/003.parquet

`TABLES` lists the tables in the order data flows; the groups `sources`, `labels` and `reports` have modules of their
own. Rows get the columns of `PROVENANCE` when they are written. Steps and templates count from 0.
"""

from dataclasses import dataclass
from typing import Literal

import dataframely as dy
import polars as pl

from cpmi_dagster.contracts import keys
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
from cpmi_dagster.contracts.source_tables import (
    BenchmarkProblems,
    MathShepherd,
    Questions,
    ReferenceProblems,
    RejectedTruth,
    SampledSolutions,
    StepLabels,
    StepTruth,
)

Partitioning = Literal["shard", "recipe", "benchmark", "topic"]
"""What the partitions of a table are."""
PROVENANCE: dict[str, pl.DataType] = {"run_id": pl.String(), "model": pl.String(), "code_version": pl.String()}
PROVENANCE_MEANING: dict[str, str] = {
    "run_id": "Dagster run that wrote the row",
    "model": "model or recipe that produced the row, with revision or weights hash; empty if no model is used",
    "code_version": "version of the stage that wrote the row",
}


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
    """A table: key, contract, partitioning, and whether it is an asset; if not, it comes with another one."""

    key: str
    schema: type[dy.Schema]
    partitioning: Partitioning | None = None
    is_asset: bool = True

    @property
    def group(self) -> str:
        """`sources` of sources/questions."""
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        """`questions` of sources/questions."""
        return self.key.partition("/")[2]

    @property
    def relation(self) -> str:
        """`group.name`, its view in DuckDB."""
        return self.key.replace("/", ".")

    @property
    def meaning(self) -> str:
        """The comment on the table."""
        return (self.schema.__doc__ or "").strip().splitlines()[0]


TABLES: dict[str, Table] = {
    table.key: table
    for table in (
        Table(keys.QUESTIONS, Questions, "shard"),
        Table(keys.SAMPLED, SampledSolutions, "shard"),
        Table(keys.SHEPHERD, MathShepherd, "shard"),
        Table(keys.TRUTH, StepTruth),
        Table(keys.REJECTED_TRUTH, RejectedTruth, is_asset=False),
        Table(keys.OWN_LABELS, StepLabels),
        Table(keys.REFERENCES, ReferenceProblems),
        Table(keys.PROBLEMS, BenchmarkProblems),
        Table(keys.TRAJECTORIES, Trajectories, "shard"),
        Table(keys.REJECTED_ROWS, RejectedRows, "shard"),
        Table(keys.SELECTED, SelectedTrajectories, "shard"),
        Table(keys.NEGATIVES, HardNegatives, "shard"),
        Table(keys.LOGPROBS, AnswerLogprobs, "shard"),
        Table(keys.REJECTED_TRAJECTORIES, RejectedTrajectories, "shard", is_asset=False),
        Table(keys.CONTROL_LOGPROBS, ControlLogprobs, "shard"),
        Table(keys.SCORES, TemplateScores, "shard"),
        Table(keys.POLICY_ROLLOUTS, Rollouts, "shard"),
        Table(keys.PROVER_ROLLOUTS, ProverRollouts, "shard"),
        Table(keys.STEP_REWARDS, StepRewards, "shard"),
        Table(keys.COSTS, LabelingCosts, "shard"),
        Table(keys.SOFT_LABELS, SoftLabels),
        Table(keys.CPMI_80K, Cpmi80k),
        Table(keys.STATISTICS, DatasetStatistics),
        Table(keys.MODELS, ProcessRewardModels, "recipe"),
        Table(keys.CANDIDATES, CandidateSolutions, "benchmark"),
        Table(keys.PROCESSBENCH, ProcessBenchPredictions, "recipe"),
        Table(keys.PRMBENCH_PREDICTIONS, PRMBenchPredictions, "recipe"),
        Table(keys.JUDGES, JudgePredictions),
        Table(keys.CHOICES, BestOfNChoices, "recipe"),
        Table(keys.FIGURES, PaperComparison, "topic"),
        Table(keys.REPORT, Report),
    )
}


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
