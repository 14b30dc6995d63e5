"""Best-of-N: candidate solutions, which of the first N a reward model picks, and whether that one is right.

question "What is 2 + 3?"  ->  candidate "2 + 3 = 5\\nThe answer is: 5\\n"
                               steps ["2 + 3 = 5", "The answer is: 5"], answer "5", correct

    candidate   answer   correct   step probabilities   mean   min    last   product
    0           7        no        0.9  0.9             0.90   0.9    0.9    0.81
    1           18       yes       0.8  1.0             0.90   0.8    1.0    0.80
    2           18       yes       0.5                  0.50   0.5    0.5    0.50

By mean, 0 and 1 tie and the first wins. The weighted vote adds the means of equal answers: 7 has 0.9, 18 has 1.4 and
wins, as it does by plain majority. pass@N is 1 as soon as one of the first N is right; pass@1 is the share of all
candidates that are, whatever N. A candidate without steps ranks below all others and votes with weight 0; one without
an answer has no vote.

For votes, equal answers are one class, named after its first candidate:

    answer          18     $18$    18.0    7    7.0   null
    correct         yes    yes     yes     no   no    no
    answer_class    0      0       0       3    3     -1
"""

import re
from collections.abc import Sequence
from itertools import combinations, compress

import polars as pl

from cpmi_dagster.answers.comparison import BUILT_IN, Comparison
from cpmi_dagster.answers.extraction import extract_answer
from cpmi_dagster.benchmarks.multiple_choice import grade_answer
from cpmi_dagster.benchmarks.readers import first_row
from cpmi_dagster.benchmarks.resampling import Resampled, bootstrap_mean
from cpmi_dagster.contracts.chunks import growing_slices
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.seeded import derived_seed
from cpmi_dagster.contracts.tables import CandidateSolutions
from cpmi_dagster.errors import BenchmarkError
from cpmi_dagster.files.time_left import Advance, unseen
from cpmi_dagster.generation.engine import Draws, RolloutEngine, SamplingWork, timed_generate
from cpmi_dagster.generation.monte_carlo import grade
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.trajectories.templates import render_question

PROBLEMS_PER_CALL = 128
SCHEMA = CandidateSolutions.create_empty().schema
PROBLEM = ["benchmark", "problem_id"]
CANDIDATE = [*PROBLEM, "candidate"]
STEP_AGGREGATIONS = ("mean", "min", "last", "product")
VOTES = ("weighted_vote", "majority")
BOUNDS = ("pass_at_n", "pass_at_1")
LOWEST_PRODUCT = -1e300
NO_ANSWER = -1
WRAPPING = re.compile(r"\s+|^\$+|\$+$|\.$")
AGGREGATIONS = (*STEP_AGGREGATIONS, *VOTES, *BOUNDS)


def powers_of_two(candidates: int) -> list[int]:
    """1, 2, 4, … up to the number of candidates."""
    return [2**power for power in range(candidates.bit_length())]


def check_gold_answers(problems: pl.DataFrame) -> None:
    """Refuse `BenchmarkProblems` rows of a question set whose candidates cannot be graded.

    Raises:
        BenchmarkError: a problem has no gold answer, or there are no problems.
    """
    if problems.is_empty():
        raise BenchmarkError(
            "there are no problems to sample candidates for; check the question set's source and split"
        )
    ungraded = problems.filter(pl.col("answer").str.strip_chars().fill_null("") == "")
    if row := first_row(ungraded):
        raise BenchmarkError(
            f"problem `{row['problem_id']}` of {row['benchmark']} has no gold answer ({len(ungraded)} such problems); "
            f"best-of-N needs a question set with answers: correct the source, or remove {row['benchmark']} from "
            "benchmarks.best_of_n"
        )


def sample_candidates(
    problems: pl.DataFrame,
    engine: RolloutEngine,
    count: int,
    sampling: Sampling,
    seed: int,
    progress: Advance = unseen,
    comparison: Comparison = BUILT_IN,
) -> tuple[pl.DataFrame, Cost]:
    """Sample `count` solutions of every problem and grade their answers.

    Args:
        problems: rows of `sources.benchmark_problems` of one question set; `question` includes the choices.
        count: N.
        seed: same question and same seed, same candidates, whatever the other problems are.
        progress: called with the number of problems just finished, and those of solutions sampled and left.
        comparison: says which answers to open questions are the gold answer.

    Returns:
        Columns of `benchmarks.candidate_solutions`, ordered as the problems, then by candidate; and their cost. Steps
        are the solution's lines that are not empty.
    """
    candidates, cost = [pl.DataFrame(schema=SCHEMA)], Cost()
    work = SamplingWork({render_question(question): 1.0 for question in problems["question"]}, count, progress)
    draws = Draws(sampling, count, derived_seed(seed, ["candidates"]))
    for part in growing_slices(problems, PROBLEMS_PER_CALL):
        prompts = [render_question(question) for question in part["question"]]
        generations, spent = timed_generate(engine, prompts, draws, work)
        pairs = [(problem, each) for problem, group in zip(part.to_dicts(), generations, strict=True) for each in group]
        answers = [extract_answer(each.text, not each.truncated) for _, each in pairs]
        # open questions are graded together, those with choices by the option meant
        is_open = [not problem["choices"] for problem, _ in pairs]
        golds = [problem["answer"] for problem, _ in pairs]
        verdicts = iter(grade([*compress(golds, is_open)], [*compress(answers, is_open)], comparison))
        rows = [
            {
                "benchmark": problem["benchmark"],
                "problem_id": problem["problem_id"],
                "candidate": number % count,
                "steps": [step for line in solution.text.splitlines() if (step := line.strip())],
                "answer": answer,
                "correct": grade_answer(problem["answer"], answer, problem["choices"])
                if problem["choices"]
                else next(verdicts),
                "generated_tokens": solution.tokens,
                "truncated": solution.truncated,
            }
            for number, ((problem, solution), answer) in enumerate(zip(pairs, answers, strict=True))
        ]
        candidates.append(pl.DataFrame(rows, schema=SCHEMA))
        cost += spent
        work.finish(prompts, part.height)
    return pl.concat(candidates), cost


def with_answer_classes(candidates: pl.DataFrame, comparison: Comparison = BUILT_IN) -> pl.DataFrame:
    """Add `answer_class`: number of the first candidate with an equal answer, -1 without an answer.

    All right answers are equal, since each was found equal to the gold answer. Wrong ones are equal if their text
    is; only different texts are compared.

    Args:
        candidates: benchmark, problem_id, candidate, answer, correct.
        comparison: says which wrong answers are the same.

    Returns:
        The candidates sorted by benchmark, problem and number, with `answer_class`.
    """
    ordered = candidates.sort(CANDIDATE).with_columns(
        pl.col("answer").map_elements(lambda answer: WRAPPING.sub("", answer), return_dtype=pl.String).alias("text")
    )
    problems = ordered.group_by(PROBLEM, maintain_order=True).agg("candidate", "text", "correct")
    rows = [list(zip(*row, strict=True)) for row in problems.select("candidate", "text", "correct").iter_rows()]
    wrong = [dict.fromkeys(text for _, text, is_right in row if text is not None and not is_right) for row in rows]
    pairs = list(dict.fromkeys(pair for texts in wrong for pair in combinations(texts, 2)))
    verdicts = comparison.each([first for first, _ in pairs], [second for _, second in pairs])
    equal = {pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict}
    classes: list[int] = []
    for row in rows:
        right = next((candidate for candidate, _, is_right in row if is_right), NO_ANSWER)
        firsts: dict[str, int] = {}
        for candidate, text, is_right in row:
            if text is not None and not is_right and text not in firsts:
                same = (first for other, first in firsts.items() if (other, text) in equal)
                firsts[text] = next(same, candidate)
            classes.append(right if is_right else NO_ANSWER if text is None else firsts[text])
    return ordered.drop("text").with_columns(pl.Series("answer_class", classes, dtype=pl.Int64))


def choose(
    candidates: pl.DataFrame, scores: pl.DataFrame, ns: Sequence[int], comparison: Comparison = BUILT_IN
) -> pl.DataFrame:
    """Pick among the first n candidates of every problem, for every n and aggregation.

    Args:
        candidates: `CandidateSolutions` columns.
        scores: benchmark, problem_id, candidate, step_index, probability of one model.
        ns: numbers of candidates, at least one; none above what every problem has.
        comparison: says which wrong answers are the same, for votes.

    Returns:
        `BestOfNChoices` columns but the recipe. Ties go to the first candidate, or the answer it gave first; `tied`
        says whether there was one.

    Raises:
        BenchmarkError: candidates are missing, or scores do not cover their steps.
    """
    wanted = pl.int_range(max(ns), dtype=pl.Int64)
    counted = candidates.group_by(PROBLEM).agg(pl.col("candidate").sort())
    short = counted.filter(pl.col("candidate").list.head(max(ns)) != wanted.implode()).sort(PROBLEM)
    if row := first_row(short):
        raise BenchmarkError(
            f"problem `{row['problem_id']}` of {row['benchmark']} has the candidates {row['candidate']}; "
            f"best of {max(ns)} needs each of 0 to {max(ns) - 1} once"
        )
    # -inf without steps; products as their logarithm, clipped so that a product of 0 stays above having no steps
    probability, step = pl.col("probability"), pl.col("step_index")
    rewards = (
        scores.sort(*CANDIDATE, "step_index")
        .group_by(CANDIDATE)
        .agg(
            mean=probability.mean(),
            min=probability.min(),
            last=probability.last(),
            product=probability.log().sum().clip(LOWEST_PRODUCT),
            scored=pl.len(),
            distinct=step.n_unique(),
            final=step.max(),
            in_range=probability.is_between(0, 1).all(),
        )
    )
    both = candidates.join(rewards, on=CANDIDATE, how="left")
    steps, scored = pl.col("steps").list.len(), pl.col("scored").fill_null(0)
    complete = (scored == steps) & ((steps == 0) | ((pl.col("distinct") == steps) & (pl.col("final") == steps - 1)))
    if row := first_row(both.filter(~complete | ~pl.col("in_range").fill_null(True)).sort(CANDIDATE)):
        raise BenchmarkError(
            f"candidate {row['candidate']} of problem `{row['problem_id']}` of {row['benchmark']} has "
            f"{len(row['steps'])} steps and {row['scored'] or 0} scores; each step needs one probability in [0, 1]"
        )
    by_rule = (pl.col(rule).fill_null(-float("inf")) for rule in STEP_AGGREGATIONS)
    rewarded = with_answer_classes(both.select(*CANDIDATE, "answer", "correct", *by_rule), comparison).sort(CANDIDATE)
    parts = [part for n in ns for part in _choices(rewarded, n)]
    columns = (*PROBLEM, "n", "aggregation", "candidate", "correct", "tied")
    return pl.concat(parts, how="diagonal").select(columns).sort(*PROBLEM, "n", "aggregation")


def ties(choices: pl.DataFrame) -> dict[str, int]:
    """How many choices had several best candidates (or answers, for a vote), by aggregation; bounds choose nothing."""
    counts = dict(choices.drop_nulls("tied").group_by("aggregation").agg(pl.col("tied").sum()).iter_rows())
    return {aggregation: counts[aggregation] for aggregation in AGGREGATIONS if aggregation in counts}


def accuracies(choices: pl.DataFrame, samples: int, seed: int) -> dict[int, Resampled]:
    """Share of problems answered rightly, by n, with its resamples over problems.

    Args:
        choices: rows of `choose` of one recipe, benchmark and aggregation.
    """
    ordered = choices.sort("problem_id")
    return {
        n: bootstrap_mean(ordered.filter(n=n)["correct"], samples, seed) for n in choices["n"].unique().sort().to_list()
    }


def _choices(rewarded: pl.DataFrame, n: int) -> list[pl.DataFrame]:
    """All aggregations over the first n of candidates sorted by number; pass@1 over all of them."""
    first_n = rewarded.filter(pl.col("candidate") < n)
    problems = first_n.group_by(PROBLEM, maintain_order=True)
    everyone = rewarded.group_by(PROBLEM, maintain_order=True)
    best = [
        problems.agg(pl.col("candidate", "correct").get(pl.col(reward).arg_max()), tied=_is_tied(pl.col(reward)))
        for reward in STEP_AGGREGATIONS
    ]
    votes = []
    for weight in (pl.col("mean").clip(0), pl.lit(1.0)):
        weighed = first_n.with_columns(weight=weight).group_by(*PROBLEM, "answer_class", maintain_order=True)
        answers = weighed.agg(pl.col("weight").sum(), pl.col("correct").first())
        # "no answer" wins only if no candidate has one
        total = pl.when(pl.col("answer_class") == NO_ANSWER).then(-1.0).otherwise(pl.col("weight"))
        by_problem = answers.group_by(PROBLEM, maintain_order=True)
        votes.append(by_problem.agg(pl.col("correct").get(total.arg_max()), tied=_is_tied(total)))
    bounds = [problems.agg(pl.col("correct").any()), everyone.agg(pl.col("correct").mean())]
    return [
        part.with_columns(pl.col("correct").cast(pl.Float64), n=pl.lit(n, pl.Int64), aggregation=pl.lit(aggregation))
        for aggregation, part in zip(AGGREGATIONS, [*best, *votes, *bounds], strict=True)
    ]


def _is_tied(score: pl.Expr) -> pl.Expr:
    """Whether several of a group have its highest score."""
    return (score == score.max()).sum() > 1
