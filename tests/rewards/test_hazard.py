"""The hazard of the first error: laws of its probabilities, recovery of known hazards, and the weights that ship."""

import gzip
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.rewards.first_error import first_error
from cpmi_dagster.rewards.hazard import (
    LABELS,
    OUTCOME,
    PARTS,
    SHIPPED,
    Solution,
    first_error_probabilities,
    fit_for,
    part_of,
    posterior,
    read_weights,
    shipped_weights,
)
from cpmi_dagster.rewards.hazard_fit import fit_hazard, steps_at_risk
from cpmi_dagster.rewards.reward_type import LabelInputs
from cpmi_dagster.rewards.step_rewards import notes_on_unlabelled, step_rewards

PROCESSBENCH = Path(__file__).parents[3] / "shared" / "data" / "processbench"
HAZARDS = st.lists(st.floats(1e-6, 1 - 1e-6), min_size=1, max_size=40).map(np.array)
TEXTS = st.lists(st.text(max_size=200), min_size=1, max_size=12)


def trajectories(*rows):
    columns = ("trajectory_id", "question", "steps", "gold_answer", "final_answer")
    schema = dict(zip(columns, (pl.String, pl.String, pl.List(pl.String), pl.String, pl.String), strict=True))
    return pl.DataFrame(rows, schema, orient="row")


@given(HAZARDS, st.sampled_from([True, False, None]))
def test_probabilities_of_the_first_error_are_those_of_a_chain(hazards, is_right):
    at = posterior(hazards, is_right)
    assert (at >= 0).all() and at.sum() <= 1 + 1e-9
    survives = np.prod(1 - hazards)
    if is_right is False:
        assert at.sum() == pytest.approx(1)
        assert at * (1 - survives) == pytest.approx(posterior(hazards, None), abs=1e-9)
    else:
        assert at.sum() == pytest.approx(1 - survives, abs=1e-9)


@settings(deadline=None)
@given(st.lists(st.tuples(TEXTS, st.sampled_from(["1", "2", None])), min_size=1, max_size=5), st.randoms())
def test_rewards_are_probabilities_that_fall_along_a_solution_and_do_not_depend_on_other_rows(given_rows, random):
    rows = [(f"t{n}", f"Question {n}?", steps, "1", final) for n, (steps, final) in enumerate(given_rows)]
    types = ["first_error", "right_so_far"]
    frame = step_rewards(LabelInputs(trajectories(*rows)), types)
    assert frame["reward"].is_between(0, 1).all()
    assert frame.height == 2 * sum(len(steps) for _, _, steps, *_ in rows)
    so_far = frame.filter(reward_type="right_so_far").sort("trajectory_id", "step_index")
    rises = so_far.with_columns(pl.col("reward").diff().over("trajectory_id")).drop_nulls()
    assert (rises["reward"] <= 1e-12).all()
    wrong = [f"t{n}" for n, (_, final) in enumerate(given_rows) if final == "2"]
    last = so_far.group_by("trajectory_id").agg(pl.col("reward").last()).filter(pl.col("trajectory_id").is_in(wrong))
    assert last["reward"].to_list() == [0] * len(wrong)
    random.shuffle(rows)
    assert step_rewards(LabelInputs(trajectories(*rows)), types).equals(frame)


def test_a_label_is_read_if_it_is_there_for_every_step_and_else_the_fit_that_needs_less():
    lengths = np.array([10.0, 90.0])
    surprisal = {"step_surprisal": np.array([-1.0, -2.0])}
    known = Solution("t", lengths, {}, True, 0)
    assert set(fit_for(known, shipped_weights()).labels) == {OUTCOME}
    assert set(fit_for(Solution("t", lengths, surprisal, True, 0), shipped_weights()).labels) == {
        OUTCOME,
        "step_surprisal",
    }
    assert set(fit_for(Solution("t", lengths, surprisal, None, 0), shipped_weights()).labels) == {"step_surprisal"}
    labels = pl.DataFrame(
        {"trajectory_id": "t0", "step_index": [0, 1], "reward_type": "step_surprisal", "reward": [1.0, float("nan")]}
    )
    rows = trajectories(("t0", "Q?", ["a", "bc"], "1", "1"))
    kept = labels.with_columns(reward=pl.Series([1.0, -1.0]))
    with_nan, without, with_both = (
        first_error(LabelInputs(rows, labels=each)) for each in (labels, labels.clear(), kept)
    )
    assert with_nan.equals(without) and not with_both.equals(without)
    # the coefficients of `cpmi` are of the paper's conditioning
    cpmi = kept.with_columns(reward_type=pl.lit("cpmi"))
    papers, other = (first_error(LabelInputs(rows, labels=cpmi, conditioning=each)) for each in ("marginal", "prefix"))
    assert other.equals(without) and not papers.equals(without)


def test_a_solution_without_a_final_answer_is_said():
    rows = trajectories(("t0", "Q?", ["a"], "1", None), ("t1", "Q?", ["a"], "1", "1"))
    frame = step_rewards(LabelInputs(rows), ["right_so_far"])
    [note] = notes_on_unlabelled(frame, LabelInputs(rows), ["right_so_far"])
    assert note.startswith("`right_so_far` of 1 trajectory does not know whether the final answer is right: it or")
    assert frame["trajectory_id"].n_unique() == 2


def made_up(count: int, seed: int, slope: float = 1.5):
    """Solutions whose steps are wrong with log-odds -2 + slope * z of their surprisal."""
    random, judged = np.random.default_rng(seed), []
    for number in range(count):
        steps = int(random.integers(2, 9))
        values = random.normal(size=steps)
        solution = Solution(
            f"t{number}", random.uniform(20, 200, steps), {"step_surprisal": values}, None, number % PARTS
        )
        z = solution.features(["step_surprisal"])["z_step_surprisal"]
        wrong = random.random(steps) < 1 / (1 + np.exp(2 - slope * z))
        first = int(wrong.argmax()) if wrong.any() else steps
        judged.append((solution, [None if step > first else step != first for step in range(steps)]))
    return judged


def test_known_hazards_are_recovered_within_their_intervals():
    steps = steps_at_risk(made_up(1500, 1), ["step_surprisal"])
    fit = fit_hazard(steps, ["step_surprisal"], resamples=100)
    truth = dict.fromkeys(fit.features, 0.0) | {"z_step_surprisal": 1.5}
    inside = 0
    for name, deviation, low, high in zip(fit.features, fit.deviations, fit.low, fit.high, strict=True):
        inside += low - 0.05 <= truth[name] * deviation <= high + 0.05
        if name == "z_step_surprisal":
            assert low <= 1.5 * deviation <= high
    assert inside >= len(fit.features) - 1


def test_a_fit_on_few_solutions_stays_near_the_weights_and_on_many_leaves_them():
    prior = fit_hazard(steps_at_risk(made_up(800, 2, slope=1.5), ["step_surprisal"]), ["step_surprisal"])
    other = [
        fit_hazard(steps_at_risk(made_up(n, 3, slope=-1.5), ["step_surprisal"]), ["step_surprisal"], prior)
        for n in (20, 1500)
    ]
    place = prior.features.index("z_step_surprisal")
    before, few, many = (fit.coefficients[0][place] for fit in (prior, *other))
    assert before > few > many and many < -0.5 * before


def test_steps_of_a_question_are_read_by_coefficients_fitted_without_it():
    judged = made_up(200, 4)
    fit = fit_hazard(steps_at_risk(judged, []), [])
    part = 2
    turned = [
        (each, [None if c is None else True for c in correct] if each.part == part else correct)
        for each, correct in judged
    ]
    again = fit_hazard(steps_at_risk(turned, []), [])
    assert fit.coefficients[part] == again.coefficients[part] and fit.coefficients[0] != again.coefficients[0]
    assert part_of("How  many\nhats?") == part_of("How many hats?")


def test_a_step_of_any_length_says_no_more_than_a_long_one():
    long, longer, longest = (
        first_error_probabilities(Solution("", np.full(4, length), {}, True, 0), shipped_weights())
        for length in (1_400.0, 4_000.0, 180_000.0)
    )
    np.testing.assert_array_equal(long, longer)
    np.testing.assert_array_equal(longer, longest)
    assert 1 - longest.sum() > 0.5


def test_weights_that_cannot_be_read_are_refused_by_name(tmp_path):
    for text in ("fits: [", "fits: []\n", "[]"):
        (tmp_path / "w.yaml").write_text(text)
        with pytest.raises(SettingsError, match=r"w\.yaml.*cpmi calibrate"):
            read_weights(tmp_path / "w.yaml")
    with pytest.raises(SettingsError, match="cannot be read"):
        read_weights(tmp_path / "none.yaml")


@pytest.mark.skipif(not PROCESSBENCH.is_dir(), reason="shared/data/processbench is not there")
def test_the_weights_that_ship_are_those_that_the_script_fits():
    from scripts.first_error import KEPT, weights_text

    assert weights_text(PROCESSBENCH, pl.read_parquet(KEPT)) == SHIPPED.read_text(encoding="utf-8")


@pytest.mark.skipif(not PROCESSBENCH.is_dir(), reason="shared/data/processbench is not there")
def test_first_wrong_steps_are_found_as_often_as_published():
    found = []
    for subset in ("gsm8k", "math"):
        with gzip.open(PROCESSBENCH / f"{subset}.even.jsonl.gz", "rt", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        for row in rows:
            lengths = np.array([len(step) for step in row["steps"]], dtype=float)
            solution = Solution(row["id"], lengths, {}, row["final_answer_correct"], part_of(row["problem"]))
            if row["label"] >= 0:
                found.append(first_error_probabilities(solution, shipped_weights()).argmax() == row["label"])
    assert np.mean(found) == pytest.approx(0.352, abs=0.02)


def test_a_set_of_weights_reads_every_label_that_ships():
    read = {frozenset(fit.labels) for fit in shipped_weights().fits}
    cheap = [name for name in LABELS if name != "mc"]
    assert frozenset() in read and frozenset([OUTCOME]) in read and frozenset([OUTCOME, *cheap]) in read
