"""The contract of every table: columns, types, rules, keys, one line of meaning.

A table `group.name` is the asset key `group/name`, the folder or file `lake/group/name` and the DuckDB relation
`group.name`. Three provenance columns are appended to every row when it is written (see `PROVENANCE`).
Step and template indices count from 0. `TABLES` lists them all in the order data flows; those of the groups `labels`
and `reports` have files of their own.
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
    RejectedTrajectories,
    Rollouts,
    StepRewards,
    TemplateScores,
)
from cpmi_dagster.contracts.report_tables import PaperComparison, Report

Partitioning = Literal["shard", "recipe", "benchmark", "artifact"]
"""By what the files of a table are divided."""
SOLUTIONS_PER_QUESTION = 1_000
"""Numbers that the sampled solutions of a question have; asked for more of them, the others keep theirs."""

PROVENANCE: dict[str, pl.DataType] = {"run_id": pl.String(), "model": pl.String(), "code_version": pl.String()}
PROVENANCE_MEANING: dict[str, str] = {
    "run_id": "Dagster run that wrote the row",
    "model": "language model or recipe that produced the row: id + revision or weights hash; empty if no model is used",
    "code_version": "version of the code that wrote the row",
}


class Questions(dy.Schema):
    """Questions without solutions, for the policy; empty where the profile reads its trajectories."""

    question_number = dy.Int64(primary_key=True, min=0, description="0-based row of the source of questions")
    source_id = dy.String(nullable=True, description="the row's own id; null where it has none")
    question = dy.String(nullable=True, description="question text; null where the row cannot be read")
    task = dy.String(description="task given by the source; empty if it gives none")
    gold_answer = dy.String(nullable=True, description="gold answer of the question; null where it has none")
    split = dy.String(nullable=True, description="split given by the source; null if it gives none")
    defect = dy.String(nullable=True, description="why the row cannot be read; null if it can")
    excerpt = dy.String(nullable=True, description="the first characters of a row that cannot be read")


class SampledSolutions(dy.Schema):
    """Solutions that the policy gives to questions; empty where the profile reads its trajectories."""

    question_number = dy.Int64(primary_key=True, min=0, description="sources.questions.question_number")
    solution = dy.Int64(
        primary_key=True, min=0, max=SOLUTIONS_PER_QUESTION - 1, description="number of the sample, from 0"
    )
    text = dy.String(description="what the policy wrote")
    generated_tokens = dy.Int64(min=0, description="tokens sampled")
    truncated = dy.Bool(description="the sample hit its token limit, or the question left no room for it")


class MathShepherd(dy.Schema):
    """Rows of the trajectory source, or sampled solutions, as they came: parsed, or with what is wrong with them."""

    row_number = dy.Int64(
        primary_key=True,
        min=0,
        description=f"0-based row of the source; of a sampled solution {SOLUTIONS_PER_QUESTION} * question + solution",
    )
    source_id = dy.String(nullable=True, description="the row's own id; null if it has none")
    question = dy.String(nullable=True, min_length=1, description="question text; null if the row has a defect")
    steps = dy.List(dy.String(), nullable=True, description="steps in order, as the labeler reads them; null likewise")
    labels = dy.List(dy.Bool(), nullable=True, description="the source's label of each step, true = +; null if none")
    task = dy.String(description="task given by the source, e.g. GSM8K or MATH; empty if it gives none")
    question_id = dy.String(description="hash of the normalised question, or of the excerpt; decides the shard")
    final_answer = dy.String(nullable=True, description="final answer of the last step; null if it states none")
    gold_answer = dy.String(nullable=True, description="the row's own gold answer; null if it has none")
    split = dy.String(nullable=True, description="split given by the row; null if it gives none")
    defect = dy.String(nullable=True, description="why the row cannot become a trajectory; null if it can")
    excerpt = dy.String(nullable=True, description="the first characters of a row with a defect")


class ReferenceProblems(dy.Schema):
    """Problems of GSM8K, MATH or any other set with their solutions and gold answers."""

    source = dy.String(primary_key=True, description="name of the set, e.g. gsm8k or math")
    split = dy.String(primary_key=True, description="train or test")
    problem_id = dy.String(primary_key=True, description="id in the source, or its 0-based row")
    question = dy.String(description="question text as given by the source")
    solution = dy.String(description="reference solution, or the answer if there is no solution")
    answer = dy.String(description="gold answer, given or extracted from the solution; empty if the source has none")
    level = dy.String(nullable=True, description="difficulty given by the source")
    subject = dy.String(nullable=True, description="subject given by the source")


class BenchmarkProblems(dy.Schema):
    """Problems of every benchmark, in one format."""

    benchmark = dy.String(primary_key=True, description="e.g. processbench_math, prmbench, gsm8k, math500")
    problem_id = dy.String(primary_key=True, description="unique within the benchmark")
    question = dy.String(description="what the solver reads")
    choices = dy.List(dy.String(), nullable=True, description="options of a multiple-choice question")
    answer = dy.String(nullable=True, description="gold answer; null for process benchmarks")
    steps = dy.List(dy.String(), nullable=True, description="the solution to be judged; null for question sets")
    first_error = dy.Int64(nullable=True, description="0-based first wrong step, -1 if none (ProcessBench)")
    error_steps = dy.List(dy.Int64(), nullable=True, description="0-based wrong steps (PRMBench)")
    category = dy.String(nullable=True, description="PRMBench classification, or the subset's own category")


class StepTruth(dy.Schema):
    """True step labels from sources that have them (human labels, or a generated world); empty otherwise."""

    row_number = dy.Int64(primary_key=True, min=0, description="0-based row of sources.math_shepherd")
    correct = dy.List(dy.Bool(nullable=True), description="whether each step is right; null if nobody has judged it")
    kind = dy.List(
        dy.String(nullable=True), nullable=True, description="what makes each step wrong, null for a right one"
    )
    operations_left = dy.List(dy.Int64(), nullable=True, description="operations still to do after each step")


class StepLabels(dy.Schema):
    """User-supplied step labels, one per step; empty if the profile names none."""

    name = dy.String(primary_key=True, description="reward type of the labels, as named in the profile")
    trajectory_id = dy.String(primary_key=True, description="alignment.trajectories.trajectory_id")
    step_index = dy.Int64(primary_key=True, min=0, description="step, from 0")
    reward = dy.Float64(description="the label as given; in [0, 1] if the profile says `probabilities`")


class Trajectories(dy.Schema):
    """Parsed and aligned rows: a question, its steps, its gold answer."""

    trajectory_id = dy.String(primary_key=True, description="`t` + row number of the source, 9 digits")
    source_id = dy.String(nullable=True, description="the user's own id of the row; null where it has none")
    question_id = dy.String(description="hash of the normalised question; decides the shard")
    row_number = dy.Int64(min=0, description="0-based row of sources.math_shepherd")
    task = dy.String(description="GSM8K, MATH, or the task given by the source; OWN if it gives none")
    question = dy.String(min_length=1, description="question text")
    steps = dy.List(dy.String(), min_length=1, description="steps in order, without their `Step i:` headers")
    shepherd_labels = dy.List(
        dy.Bool(),
        min_length=1,
        nullable=True,
        description="the source's label of each step, true = +; null if it has none",
    )
    final_answer = dy.String(nullable=True, description="final answer of the trajectory; null if it states none")
    gold_answer = dy.String(
        nullable=True,
        min_length=1,
        description="answer of the reference problem, or the row's own; null if neither is there",
    )
    match_source = dy.String(
        description="origin of the gold answer: source/split/problem_id, given/split/id of the row, or empty"
    )
    match_kind = dy.String(
        description="exact, whitespace or normalized; given if the row has its own answer; none without any"
    )


class RejectedRows(dy.Schema):
    """Source rows that did not become trajectories, each with its reason."""

    row_number = dy.Int64(primary_key=True, min=0, description="0-based row of sources.math_shepherd")
    source_id = dy.String(nullable=True, description="the user's own id of the row; null where it has none")
    stage = dy.String(description="read, duplicate, align or answer")
    reason = dy.String(min_length=1, description="what was wrong, in one sentence")
    excerpt = dy.String(description="the first characters of the row")


class SelectedTrajectories(dy.Schema):
    """The CPMI-80k selection: which trajectories are labelled, and in which shard (appendix B)."""

    trajectory_id = dy.String(primary_key=True, description="alignment.trajectories.trajectory_id")
    question_id = dy.String(description="hash of the normalised question")
    shard = dy.String(description="partition key, e.g. 003")
    task = dy.String(description="alignment.trajectories.task")
    composition = dy.String(description="mixed (both + and - labels), pure, or unlabelled")


class SoftLabels(dy.Schema):
    """Rewards mapped to [0, 1] by a robust z-score over the whole labelled set (Eq. 7)."""

    trajectory_id = dy.String(primary_key=True, description="alignment.trajectories.trajectory_id")
    step_index = dy.Int64(primary_key=True, min=0, description="step, from 0")
    reward_type = dy.String(primary_key=True, description="as in labels.step_rewards")
    soft_label = dy.Float64(min=0, max=1, description="training target of a process reward model")


class Cpmi80k(dy.Schema):
    """The data set: one row per trajectory, with its step labels as lists."""

    trajectory_id = dy.String(primary_key=True, description="alignment.trajectories.trajectory_id")
    source_id = dy.String(nullable=True, description="the user's own id of the row; null where it has none")
    question_id = dy.String(description="hash of the normalised question")
    task = dy.String(description="alignment.trajectories.task")
    question = dy.String(description="question text")
    steps = dy.List(dy.String(), min_length=1, description="steps in order")
    gold_answer = dy.String(description="gold answer")
    hard_negatives = dy.List(dy.String(), description="wrong answers used, by rank")
    shepherd_labels = dy.List(dy.Bool(), nullable=True, description="the source's label of each step; null without")
    rewards = dy.List(dy.Float64(), description="CPMI reward of each step (default conditioning), nats per token")
    soft_labels = dy.List(dy.Float64(), description="CPMI soft label of each step, in [0, 1]")


class DatasetStatistics(dy.Schema):
    """Appendix B's table: the paper's targets, and what was built."""

    statistic = dy.String(primary_key=True, description="what is counted")
    target = dy.Float64(nullable=True, description="the profile's target; null if it sets none")
    actual = dy.Float64(description="value in the data set")


class ProcessRewardModels(dy.Schema):
    """Trained reward models: where the weights are and what they were trained on."""

    recipe = dy.String(primary_key=True, description="partition key, e.g. cpmi_bce")
    reward_type = dy.String(description="reward type of the soft labels it was trained on")
    objective = dy.String(description="bce, mse or pqm")
    backbone = dy.String(description="model that training started from, with its revision or weights hash")
    path = dy.String(description="folder with config and safetensors, relative to the home")
    weights_fingerprint = dy.String(description="sha256 of the safetensors files")
    data_version = dy.String(description="hash of the soft labels it was trained on: their Dagster data version")
    train_steps = dy.Int64(min=0, description="labelled steps seen in an epoch")
    seconds = dy.Float64(min=0, description="training time")
    training_curve = dy.List(
        dy.Struct({"step": dy.Int64(), "epoch": dy.Float64(), "split": dy.String(), "loss": dy.Float64()}),
        description="loss by optimiser step, splits train and validation",
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
        description="step probabilities of up to 2,000 solutions, their soft labels, whether the question was held out",
    )


class CandidateSolutions(dy.Schema):
    """N solutions per problem, sampled from the policy."""

    benchmark = dy.String(primary_key=True, description="question set, e.g. gsm8k")
    problem_id = dy.String(primary_key=True, description="sources.benchmark_problems.problem_id")
    candidate = dy.Int64(primary_key=True, min=0, description="number of the sample, from 0")
    steps = dy.List(dy.String(), description="the solution's lines")
    answer = dy.String(nullable=True, description="extracted final answer; null if none was stated")
    correct = dy.Bool(description="answer is equivalent to the gold answer")
    generated_tokens = dy.Int64(min=0, description="tokens sampled")
    truncated = dy.Bool(description="the sample hit its token limit before it ended")


class ProcessBenchPredictions(dy.Schema):
    """Probability that each ProcessBench step is right, by recipe."""

    recipe = dy.String(primary_key=True, description="models.process_reward_models.recipe")
    benchmark = dy.String(primary_key=True, description="processbench_gsm8k, processbench_math, ...")
    problem_id = dy.String(primary_key=True, description="sources.benchmark_problems.problem_id")
    step_index = dy.Int64(primary_key=True, min=0, description="step, from 0")
    probability = dy.Float64(min=0, max=1, description="the model's score of the step")


class PRMBenchPredictions(dy.Schema):
    """Probability that each PRMBench step is valid, by recipe."""

    recipe = dy.String(primary_key=True, description="models.process_reward_models.recipe")
    category = dy.String(description="PRMBench classification")
    problem_id = dy.String(primary_key=True, description="sources.benchmark_problems.problem_id")
    step_index = dy.Int64(primary_key=True, min=0, description="step, from 0")
    probability = dy.Float64(min=0, max=1, description="the model's score of the step")


class JudgePredictions(dy.Schema):
    """Probability that each step is right, from external judges; empty if the profile names none."""

    judge = dy.String(primary_key=True, description="name in `benchmarks.judges`, the label of its rows in the report")
    benchmark = dy.String(primary_key=True, description="processbench_gsm8k, ..., or prmbench")
    problem_id = dy.String(primary_key=True, description="sources.benchmark_problems.problem_id")
    step_index = dy.Int64(primary_key=True, min=0, description="step, from 0")
    probability = dy.Float64(min=0, max=1, description="the judge's score of the step")


class BestOfNChoices(dy.Schema):
    """Which of the first N candidates a recipe picks, and whether it is right."""

    recipe = dy.String(primary_key=True, description="models.process_reward_models.recipe")
    benchmark = dy.String(primary_key=True, description="question set, e.g. gsm8k")
    problem_id = dy.String(primary_key=True, description="sources.benchmark_problems.problem_id")
    n = dy.Int64(primary_key=True, min=1, description="candidates considered, the first n")
    aggregation = dy.String(
        primary_key=True, description="mean, min, last, product, weighted_vote; bounds: majority, pass_at_n, pass_at_1"
    )
    candidate = dy.Int64(nullable=True, description="chosen candidate; null for votes and bounds")
    correct = dy.Float64(min=0, max=1, description="1 if right; a mean over candidates for pass_at_1")
    tied = dy.Bool(
        nullable=True, description="several candidates had the best score, and the first was chosen; null for bounds"
    )


@dataclass(frozen=True)
class Table:
    """One relation: its place, contract and partitioning."""

    group: str
    name: str
    schema: type[dy.Schema]
    partitioning: Partitioning | None = None

    @property
    def key(self) -> str:
        """`group/name`, the asset key."""
        return f"{self.group}/{self.name}"

    @property
    def meaning(self) -> str:
        """One line on what a row is."""
        return (self.schema.__doc__ or "").strip().splitlines()[0]


_TABLES = (
    Table("sources", "questions", Questions, "shard"),
    Table("sources", "sampled_solutions", SampledSolutions, "shard"),
    Table("sources", "math_shepherd", MathShepherd, "shard"),
    Table("sources", "step_truth", StepTruth),
    Table("sources", "step_labels", StepLabels),
    Table("sources", "reference_problems", ReferenceProblems),
    Table("sources", "benchmark_problems", BenchmarkProblems),
    Table("alignment", "trajectories", Trajectories, "shard"),
    Table("alignment", "rejected_rows", RejectedRows, "shard"),
    Table("selection", "selected_trajectories", SelectedTrajectories, "shard"),
    Table("labels", "hard_negatives", HardNegatives, "shard"),
    Table("labels", "answer_logprobs", AnswerLogprobs, "shard"),
    Table("labels", "rejected_trajectories", RejectedTrajectories, "shard"),
    Table("labels", "control_logprobs", ControlLogprobs, "shard"),
    Table("labels", "template_scores", TemplateScores, "shard"),
    Table("labels", "policy_rollouts", Rollouts, "shard"),
    Table("labels", "prover_rollouts", Rollouts, "shard"),
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
    Table("reports", "figures", PaperComparison, "artifact"),
    Table("reports", "report", Report),
)

TABLES: dict[str, Table] = {table.key: table for table in _TABLES}


def columns_of(table: Table) -> dict[str, pl.DataType]:
    """Column names and polars types as written to the lake, provenance included."""
    return {**table.schema.create_empty().schema, **provenance_of(table)}


def provenance_of(table: Table) -> dict[str, pl.DataType]:
    """The provenance columns of a table, without those that its schema has under the same name."""
    own = table.schema.columns()
    return {name: dtype for name, dtype in PROVENANCE.items() if name not in own}


def column_meanings(table: Table) -> dict[str, str]:
    """One-line meaning of every column, provenance included."""
    own = {name: column.description or "" for name, column in table.schema.columns().items()}
    return {**PROVENANCE_MEANING, **own}
