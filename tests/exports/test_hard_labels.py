"""Hard labels are right from a threshold on, on the scale of the rewards."""

import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score

from cpmi_dagster.errors import UsageError
from cpmi_dagster.exports.rows import UNJUDGED, Threshold, choose_threshold, parse_rule
from cpmi_dagster.rewards.registry import REWARD_TYPES

REWARDS = [0.45, 0.2, 0.1, -0.2]
numbers = st.floats(-50, 50, allow_subnormal=False)
trajectories = st.lists(st.lists(numbers, min_size=1, max_size=5), min_size=1, max_size=6)


def of_set(*rewards: list[float]) -> pl.DataFrame:
    ids = [f"t{number}" for number in range(len(rewards))]
    return pl.DataFrame({"trajectory_id": ids, "rewards": list(rewards)}, schema_overrides={"rewards": pl.List(float)})


def judged(*correct: list[bool | None]) -> pl.DataFrame:
    ids = [f"t{number}" for number in range(len(correct))]
    return pl.DataFrame({"trajectory_id": ids, "correct": list(correct)}, schema=UNJUDGED.schema)


def chosen(rows: pl.DataFrame, reward_type: str, rule: str | None = None, truth: pl.DataFrame = UNJUDGED) -> Threshold:
    entry = REWARD_TYPES.get(reward_type)
    return choose_threshold(rows, reward_type, entry is not None and entry.is_probability, parse_rule(rule), truth)


def labels(threshold: Threshold, rows: pl.DataFrame) -> list[list[bool]]:
    return rows.select(threshold.is_right).to_series().to_list()


@pytest.mark.parametrize(
    ("reward_type", "rule", "expected"),
    [
        # at least 0 for a difference, 0.5 for a probability, and a merge by the types it is made of
        ("cpmi", None, "+++- +"), ("mc", None, "---- +"), ("pav", None, "---- +"), ("cpmi_merge1", None, "-++- +"),
        ("cpmi", "0.2", "++-- +"), ("step_length", "0", "+++- +"),
        # fitted on the judged steps
        ("cpmi", "calibrated", "++-- +"), ("cpmi_merge1", "calibrated", "-+-- +"),
    ],
)  # fmt: skip
def test_a_threshold_is_that_of_the_rewards_own_scale_or_given_or_fitted_on_judged_steps(reward_type, rule, expected):
    rows, truth = of_set(REWARDS, [3.0]), judged([True, True, False, None], [True])
    marks = ["".join("-+"[label] for label in steps) for steps in labels(chosen(rows, reward_type, rule, truth), rows)]
    assert " ".join(marks) == expected
    for name in ("step_length", "first_error"):  # nearly every step is not the first wrong one
        with pytest.raises(UsageError, match=rf"`{name}` says by itself .* give --threshold NUMBER or calibrated"):
            chosen(rows, name)


@given(trajectories, st.sampled_from(["cpmi_merge1", "cpmi_merge2", "cpmi_merge3"]))
def test_the_steps_of_a_merge_are_labelled_as_those_of_the_types_it_is_made_of(rewards, name):
    rows, steps = of_set(*rewards), int(name[-1])
    first, rest = (labels(chosen(rows, of), rows) for of in ("mc", "cpmi"))
    expected = [[*one[:steps], *other[steps:]] for one, other in zip(first, rest, strict=True)]
    assert labels(chosen(rows, name), rows) == expected


@given(st.lists(st.tuples(st.sampled_from([-12.0, -1.5, -0.25, 0.0, 0.5, 2.0]), st.booleans()), min_size=2))
def test_no_threshold_has_a_better_balanced_accuracy_than_the_calibrated_one(steps):
    rewards, correct = ([*values] for values in zip(*steps, strict=True))
    assume(len(set(correct)) == 2)
    rows = of_set(rewards)
    threshold = chosen(rows, "cpmi", "calibrated", judged(correct))
    accuracy = balanced_accuracy_score(correct, labels(threshold, rows)[0])
    others = [balanced_accuracy_score(correct, [r >= least for r in rewards]) for least in [*rewards, 99.0]]
    assert accuracy == pytest.approx(max(others))


@pytest.mark.parametrize(("wrong", "is_said"), [(range(16), False), ([12], True)])
def test_a_calibrated_threshold_far_from_what_people_call_right_says_so(wrong, is_said):
    rows, truth = of_set([*range(20)]), judged([step not in wrong for step in range(20)])
    words = chosen(rows, "cpmi", "calibrated", truth).words(rows)
    assert ("far from people: it calls 35% of these right, and they 95%" in words) == is_said
    assert f"(a guess: {20 - len(wrong)} are judged right and {len(wrong)} wrong)" in words
    many = [step % 2 == 0 for step in range(20)]
    assert "guess" not in chosen(rows, "cpmi", "calibrated", judged(many)).words(rows)
