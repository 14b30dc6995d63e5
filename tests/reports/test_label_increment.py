"""What labels add to others: the artifact's figures beside a second computation with numpy alone."""

from itertools import product

import numpy as np
import polars as pl
import pytest

from cpmi_dagster.reports.artifacts import ARTIFACTS
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.label_increment import measure_label_increment

QUESTIONS, SOLUTIONS, STEPS = 24, 2, 4
SAMPLED = 20
"""Questions whose solutions have rollouts."""
DRAWS, SEED = 60, 3
TRUTH = np.random.default_rng(0).random((QUESTIONS, SOLUTIONS, STEPS)) > 0.4
SHARPNESS = {"step_surprisal": 0.8, "position": -1.0, "step_length": 0.5, "cpmi": 0.4, "cpmi_incremental": 0.9, "mc": 2}
REWARDS = {
    name: sharpness * TRUTH + np.random.default_rng(place).normal(size=TRUTH.shape)
    for place, (name, sharpness) in enumerate(SHARPNESS.items(), 1)
}


def inputs(names=tuple(SHARPNESS), truth=TRUTH) -> ReportInputs:
    places = list(product(range(QUESTIONS), range(SOLUTIONS)))
    rewards = [
        (f"t{question:02}{solution}", step, name, REWARDS[name][question, solution, step])
        for name in names
        for question, solution in places[: SAMPLED * SOLUTIONS if name == "mc" else None]
        for step in range(STEPS)
    ]
    trajectories = pl.DataFrame(
        {
            "trajectory_id": [f"t{question:02}{solution}" for question, solution in places],
            "question_id": [f"q{question:02}" for question, _ in places],
            "row_number": range(len(places)),
            "steps": [["s"] * STEPS] * len(places),
            "shepherd_labels": [None] * len(places),
        },
        schema_overrides={"shepherd_labels": pl.List(pl.Boolean)},
    )
    columns = ["trajectory_id", "step_index", "reward_type", "reward"]
    frames = {
        "labels/step_rewards": pl.DataFrame(rewards, schema=columns, orient="row"),
        "alignment/trajectories": trajectories,
        "sources/step_truth": pl.DataFrame(
            {"row_number": range(len(places)), "correct": truth.reshape(-1, STEPS).tolist()}
        ),
    }
    return ReportInputs(frames, bootstrap_samples=DRAWS, seed=SEED)


def auc(scores: np.ndarray, right: np.ndarray) -> float:
    apart = scores[right][:, None] - scores[~right][None, :]
    return float(((apart > 0) + (apart == 0) / 2).mean())


def out_of_fold(names: list[str], questions: int) -> np.ndarray:
    """[questions, ...] log-odds by Newton's method: squared weights, but not that of the constant, are penalised."""
    parts = np.array_split(np.random.RandomState(SEED).permutation(questions), 5)
    scores = np.empty((questions, SOLUTIONS, STEPS - 1))
    for part in parts:
        others = np.setdiff1d(np.arange(questions), part)
        columns = [REWARDS[name][:questions, :, :-1] for name in names]
        scaled = [(column - column[others].mean()) / column[others].std() for column in columns]
        matrix = np.stack([np.ones_like(scores), *scaled], axis=-1)
        x, y = matrix[others].reshape(-1, len(names) + 1), TRUTH[others, :, :-1].reshape(-1)
        penalty = np.diag([0.0, *np.ones(len(names))])
        weights = np.zeros(len(names) + 1)
        for _ in range(30):
            chance = 1 / (1 + np.exp(-x @ weights))
            curvature = (x.T * chance * (1 - chance)) @ x + penalty
            weights -= np.linalg.solve(curvature, x.T @ (chance - y) + penalty @ weights)
        scores[part] = matrix[part] @ weights
    return scores


def expected(without: list[str], added: str, questions: int) -> dict[str, list[float]]:
    """By column the figure and its interval, the questions drawn one resample after another."""
    scores = [out_of_fold(names, questions) for names in (without, [*without, added])]
    drawn = np.random.default_rng(SEED).integers(questions, size=(DRAWS, questions))
    truth = TRUTH[:, :, :-1]
    values = np.array(
        [
            [auc(each[chosen].reshape(-1), truth[chosen].reshape(-1)) for each in scores]
            for chosen in [np.arange(questions), *drawn]
        ]
    )
    figures = {"Without it": values[:, 0], "With it": values[:, 1], "Difference": values[:, 1] - values[:, 0]}
    return {column: [own[0], *np.quantile(own[1:], [0.025, 0.975])] for column, own in figures.items()}


BASE = ["step_surprisal", "step_length"]


@pytest.mark.parametrize(
    ("row", "without", "added", "questions"),
    [
        ("CPMI", BASE, "cpmi", QUESTIONS),
        ("CPMI (incremental)", BASE, "cpmi_incremental", QUESTIONS),
        ("MC", BASE, "mc", SAMPLED),
        ("CPMI beside MC", [*BASE, "mc"], "cpmi", SAMPLED),
    ],
)
def test_a_gain_is_that_of_a_second_computation(row, without, added, questions):
    table = measure_label_increment(inputs()).filter(row=row)
    assert table["n"].unique().to_list() == [questions * SOLUTIONS * (STEPS - 1)]
    shown = {column: list(figures) for column, *figures in table.select("column", "measured", "low", "high").rows()}
    for column, figures in expected(without, added, questions).items():
        assert shown[column] == pytest.approx(figures, abs=0.001), column  # a pair may swap by where a solver stops


def test_the_base_is_what_needs_no_gold_answer_and_the_best_free_label():
    table = measure_label_increment(inputs())
    assert table.row(0)[:2] == ("Step surprisal + Step length", "With it")
    assert measure_label_increment(inputs(["position", "mc"]))["row"].unique(maintain_order=True).to_list() == [
        "Position", "MC",
    ]  # fmt: skip


def test_holms_p_values_are_over_all_gains():
    table = measure_label_increment(inputs())
    plain, adjusted = (table.filter(column=f"Difference p{holm}")["measured"] for holm in ("", " (Holm)"))
    assert len(adjusted) == 4
    assert min(adjusted) == pytest.approx(4 * min(plain))


@pytest.mark.parametrize("given", [ReportInputs(), inputs(["cpmi", "mc"]), inputs(BASE), inputs(truth=TRUTH | True)])
def test_nothing_is_added_without_truth_base_or_labels(given):
    assert measure_label_increment(given).is_empty()
    assert ARTIFACTS["label_increment"].measure(given).is_empty()
