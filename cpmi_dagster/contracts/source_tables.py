"""The table contracts of the group `sources`: what was read, or why a row could not be.

row_number  source_id  question        steps           labels        gold_answer  defect                  math_shepherd
7           a7         How many hats?  [3 + 2 = 5, …]  [true, true]  5            null
"""

import dataframely as dy

SOLUTIONS_PER_QUESTION = 1_000
"""The most solutions sampled of a question: solution 4 of question 7 is row 7,004, however many there are."""


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
