"""When labels work: what the labeler knows of the answer, what each template adds, and the claim of section 4.2.

    p(gold among candidates | question), lowest third   label AUC of CPMI 0.58
                                         highest third                    0.79

The probability is that of the gold answer among itself and the hard negatives, before any step is read, as mean over
templates: 1 / (M + 1) where the labeler knows nothing.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.label_quality import IS_LAST, STEP, label_aucs
from cpmi_dagster.benchmarks.resampling import Estimate, Floats, Resampled, bootstrap
from cpmi_dagster.contracts.keys import BY_PROVER, LOGPROBS, SCORES, STEP_REWARDS, TRAJECTORIES
from cpmi_dagster.reports.inputs import Measurement, ReportInputs, measured_frame
from cpmi_dagster.reports.labels import LABEL_AUC, WITHOUT_LAST, in_order, steps_with_truth
from cpmi_dagster.reports.quality import measurement
from cpmi_dagster.rewards.formulas import template_mean
from cpmi_dagster.rewards.registry import reward_label
from cpmi_dagster.scoring.conditionings import candidate_logprobs, jeffreys_divergences

TRAJECTORIES_AT_ONCE = 4_000
THIRDS = ("Lowest third", "Middle third", "Highest third")
INTERACTION = "Highest − lowest"
MEDIAN, UNSURE = "Median p(gold among candidates)", "Between 0.05 and 0.95 (%)"
LABELERS = {
    "Labeler": (LOGPROBS, {"MC": "mc", "CPMI": "cpmi", "CPMI (logsumexp)": "cpmi_logsumexp"}),
    "Prover": (BY_PROVER, {"MC": "mc_prover", "CPMI": "cpmi_prover", "CPMI (logsumexp)": "cpmi_logsumexp_prover"}),
}
"""By row: where its log-probabilities are, and the reward types that it made, by column."""


def gold_probabilities(logprobs: pl.DataFrame) -> pl.DataFrame:
    """p(gold among candidates | question) of each trajectory, mean over templates.

    Args:
        logprobs: columns of `labels.answer_logprobs`.

    Returns:
        trajectory_id, knowledge in [0, 1].
    """
    before = candidate_logprobs(logprobs.filter(pl.col("context") == "question")).filter(pl.col("answer_rank") == 0)
    return before.group_by("trajectory_id", maintain_order=True).agg(knowledge=pl.col("among_candidates").exp().mean())


def measure_knowledge(inputs: ReportInputs) -> pl.DataFrame:
    """Label AUC without last steps by what the labeler knows of the answer, and whether it rises with that."""
    steps = steps_with_truth(inputs)
    if steps.is_empty() or inputs.table(LOGPROBS).is_empty():
        return measured_frame([])
    parts = aucs_by_knowledge(inputs, steps)
    measured = []
    for name in in_order(parts[0]):
        for column, part in zip(THIRDS, parts, strict=True):
            if name in part:
                measured.append(measurement(reward_label(name), column, part[name].estimate()))
        if name in parts[-1]:
            apart = parts[-1][name].minus_unpaired(parts[0][name])
            measured.append(measurement(reward_label(name), INTERACTION, apart))
    return measured_frame(measured)


def aucs_by_knowledge(inputs: ReportInputs, steps: pl.DataFrame) -> list[dict[str, Resampled]]:
    """Label AUC without last steps, by reward type, in each third by what the labeler knows of the question's answer.

    Args:
        steps: rows of `labelled_steps`.
    """
    known = steps.filter(~IS_LAST).join(gold_probabilities(inputs.table(LOGPROBS)), on="trajectory_id")
    known = known.with_columns(pl.col("knowledge").mean().over("question_id"))  # a question is in one third alone
    bounds = np.quantile(known.unique("trajectory_id")["knowledge"].to_numpy(), [1 / 3, 2 / 3])
    third = pl.sum_horizontal(pl.col("knowledge") > bound for bound in bounds.tolist())
    return [
        label_aucs(known.filter(third == number), inputs.bootstrap_samples, inputs.seed + number)
        for number in range(len(THIRDS))
    ]


def measure_labelers_knowledge(inputs: ReportInputs) -> pl.DataFrame:
    """What each labeler knows of the answers beside the label AUC of the labels it made."""
    steps = steps_with_truth(inputs)
    measured = []
    for row, (table, types) in LABELERS.items():
        logprobs = inputs.table(table)
        if logprobs.is_empty() or steps.is_empty():
            continue
        known = gold_probabilities(logprobs)["knowledge"].to_numpy()
        unsure = float(np.mean((known > 0.05) & (known < 0.95)))
        measured += [
            Measurement(row, MEDIAN, float(np.median(known)), n=len(known)),
            Measurement(row, UNSURE, 100 * unsure, n=len(known)),
        ]
        for suffix, chosen in (("", steps), (f", {WITHOUT_LAST.lower()}", steps.filter(~IS_LAST))):
            aucs = label_aucs(chosen.filter(pl.col("reward_type").is_in(types.values())), *_draws(inputs))
            measured += [
                measurement(row, f"{column} AUC{suffix}", aucs[name].estimate())
                for column, name in types.items()
                if name in aucs
            ]
    return measured_frame(measured)


def measure_templates(inputs: ReportInputs) -> pl.DataFrame:
    """CPMI by each template alone and by the first few: its label AUC, and its rank correlation with that of all."""
    scores = inputs.table(SCORES)
    if scores.is_empty():
        return measured_frame([])
    scores = scores.filter(pl.col("conditioning") == inputs.default_conditioning)
    everything = template_mean(scores, pl.col("cpmi"))
    truth = _truth(steps_with_truth(inputs))
    measured: list[Measurement] = []
    for row, chosen in _template_rows(scores["template"].unique().sort().to_list()):
        rewards = template_mean(scores.filter(pl.col("template").is_in(chosen)), pl.col("cpmi"))
        both = rewards.join(everything, on=STEP, suffix="_all").join(_questions(inputs), on="trajectory_id")
        correlation = _rank_correlation(both["reward"], both["reward_all"], both["question_id"], inputs)
        measured.append(measurement(row, "Rank correlation with all", correlation))
        if truth.height:
            steps = rewards.join(truth, on=STEP).with_columns(reward_type=pl.lit(row))
            for column, part in ((LABEL_AUC, steps), (WITHOUT_LAST, steps.filter(~IS_LAST))):
                aucs = label_aucs(part, *_draws(inputs))
                measured += [measurement(row, column, auc.estimate()) for auc in aucs.values()]
    return measured_frame(measured)


def measure_jeffreys(inputs: ReportInputs) -> pl.DataFrame:
    """Rank correlation of CPMI, and of its size, with the Jeffreys divergence that section 4.2 says it estimates."""
    logprobs, rewards = inputs.table(LOGPROBS), inputs.table(STEP_REWARDS).filter(reward_type="cpmi")
    if logprobs.is_empty() or rewards.is_empty():
        return measured_frame([])
    trajectories = rewards.select("trajectory_id").unique(maintain_order=True)
    # a part after another: the contrasts of 80,000 trajectories at once take gigabytes
    divergences = pl.concat(
        jeffreys_divergences(logprobs.join(part, on="trajectory_id", how="semi"), inputs.default_conditioning)
        for part in trajectories.iter_slices(TRAJECTORIES_AT_ONCE)
    )
    joined = rewards.join(divergences, on=STEP).join(_questions(inputs), on="trajectory_id")
    terms = {"CPMI": joined["reward"], "|CPMI|": joined["reward"].abs()}
    return measured_frame(
        measurement(row, column, of(term, joined["divergence"], joined["question_id"], inputs))
        for row, term in terms.items()
        for column, of in (("Spearman", _rank_correlation), ("Pearson", _correlation))
    )


def _template_rows(templates: list[int]) -> Iterator[tuple[str, list[int]]]:
    for template in templates:
        yield f"Template {template + 1}", [template]
    for count in range(2, len(templates) + 1):
        yield f"First {count}", templates[:count]


def _truth(steps: pl.DataFrame) -> pl.DataFrame:
    """Steps with known truth, each once: the columns of `labelled_steps` without rewards."""
    if steps.is_empty():
        return steps
    return steps.drop("reward", "reward_type").unique(STEP, maintain_order=True)


def _questions(inputs: ReportInputs) -> pl.DataFrame:
    return inputs.table(TRAJECTORIES).select("trajectory_id", "question_id")


def _rank_correlation(one: pl.Series, other: pl.Series, questions: pl.Series, inputs: ReportInputs) -> Estimate:
    return _correlation(one.rank(), other.rank(), questions, inputs)


def _correlation(one: pl.Series, other: pl.Series, questions: pl.Series, inputs: ReportInputs) -> Estimate:
    """Pearson's correlation, resampled over questions."""
    x, y = (values.to_numpy().astype(np.float64) - float(np.mean(values.to_numpy())) for values in (one, other))
    sums = np.column_stack([np.ones_like(x), x, y, x * x, y * y, x * y])
    return bootstrap(sums, _pearson, inputs.bootstrap_samples, inputs.seed, questions.to_numpy()).estimate()


def _pearson(totals: Floats) -> Floats:
    n, x, y, xx, yy, xy = np.moveaxis(totals, -1, 0)
    spread = np.sqrt(np.maximum((n * xx - x * x) * (n * yy - y * y), 0))
    return (n * xy - x * y) / np.where(spread > 0, spread, np.nan)


def _draws(inputs: ReportInputs) -> tuple[int, int]:
    return inputs.bootstrap_samples, inputs.seed
