"""Hard labels are right from a threshold on that a rule of a name chooses, on the scale of the rewards."""

import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score

from cpmi_dagster.errors import UsageError
from cpmi_dagster.exports.hard_labels import NONE_JUDGED, HardLabels, Quantile, hard_labels, parse_rule
from cpmi_dagster.rewards.registry import REWARD_TYPES

REWARDS = [0.45, 0.2, 0.1, -0.2]
numbers = st.floats(-50, 50, allow_subnormal=False)
trajectories = st.lists(st.lists(numbers, min_size=1, max_size=5), min_size=1, max_size=6)


def of_set(*rewards: list[float]) -> pl.DataFrame:
    ids = [f"t{number}" for number in range(len(rewards))]
    return pl.DataFrame({"trajectory_id": ids, "rewards": list(rewards)}, schema_overrides={"rewards": pl.List(float)})


def judged(*correct: list[bool | None]) -> pl.DataFrame:
    ids = [f"t{number}" for number in range(len(correct))]
    return pl.DataFrame({"trajectory_id": ids, "correct": list(correct)}, schema=NONE_JUDGED.schema)


def labels(hard: HardLabels, rows: pl.DataFrame) -> list[list[bool]]:
    return rows.select(hard.is_right).to_series().to_list()


def marks(hard: HardLabels, rows: pl.DataFrame) -> str:
    return " ".join("".join("-+"[label] for label in steps) for steps in labels(hard, rows))


@pytest.mark.parametrize(
    ("reward_type", "expected", "words"),
    [
        ("cpmi", "+++-", "75.0% of the steps right: those whose reward is at least 0, since it is a difference."),
        ("gold_only", "+++-", "at least 0, since it is a difference."),
        ("mc", "----", "0.0% of the steps right: those whose reward is at least 0.5, since it is a probability."),
        ("rand_merge", "----", "at least 0.5, since it is a probability."),
        ("pav", "----", "at least 0.5, since it is a probability plus a difference."),
        (
            "step_length",
            "++--",
            "50.0% of the steps right: those whose reward is at least 0.2, the median of this set, wh",
        ),
        ("step_surprisal", "++--", "at least 0.2, the median of this set"),
        ("labels_of_mine", "++--", "at least 0.2, the median of this set"),
        (
            "cpmi_merge1",
            "-++-",
            "is a difference; of steps up to 1, those whose reward is at least 0.5, since `mc` is a pr",
        ),
        (
            "pav_merge3",
            "----",
            "; of steps up to 3, those whose reward is at least 0.5, since `pav` is a probability plus",
        ),
    ],
)
def test_by_default_the_threshold_is_that_of_the_rewards_own_scale(reward_type, expected, words):
    entry = REWARD_TYPES.get(reward_type)
    hard = hard_labels(of_set(REWARDS), reward_type, entry is not None and entry.is_probability)
    assert marks(hard, of_set(REWARDS)) == expected
    assert words in hard.words(of_set(REWARDS))


def test_probabilities_of_ones_own_are_right_from_an_even_chance_on():
    assert marks(hard_labels(of_set([0.5, 0.4]), "my_judge", is_probability=True), of_set([0.5, 0.4])) == "+-"


@pytest.mark.parametrize(
    ("reward_type", "threshold", "expected", "words"),
    [
        ("cpmi", "0.2", "++-- +", "those whose reward is at least 0.2, the number given."),
        ("cpmi", "-1e-1", "+++- +", "at least -0.1, the number given."),
        ("step_length", "0", "+++- +", "at least 0, the number given."),
        ("cpmi", "median", "++-- +", "at least 0.2, the median of this set, whatever share of its steps is right."),
        ("cpmi", "quantile:0.25", "+++- +", "at least 0.1, the quantile 0.25 of this set."),
        ("cpmi", "quantile:0.75", "+--- +", "at least 0.45, the quantile 0.75 of this set."),
        ("cpmi", "calibrated", "++-- +", "at least 0.15, with the best balanced accuracy, 100.0%, on the 4 judged"),
        ("mc", "0.1", "+++- +", "at least 0.1, the number given."),
        # the first steps are 0.45 and 3, those after them 0.2, 0.1 and -0.2
        ("cpmi_merge1", "0.2", "-+-- +", "0.2, the number given; of steps up to 1, those whose reward is at least 0.5"),
        ("cpmi_merge1", "median", "-++- +", "least 0.1, the median of this set"),
        ("cpmi_merge1", "calibrated", "-+-- +", "0.15, with the best balanced accuracy, 100.0%, on the 2 judged"),
    ],
)  # fmt: skip
def test_a_threshold_is_given_or_chosen_by_a_rule(reward_type, threshold, expected, words):
    rows, truth = of_set(REWARDS, [3.0]), judged([True, True, False, None], [True])
    if reward_type == "cpmi_merge1":
        truth = judged([False, True, False, None], [True])
    rule = parse_rule(threshold)
    hard = hard_labels(rows, reward_type, REWARD_TYPES[reward_type].is_probability, rule, truth)
    assert marks(hard, rows) == expected
    assert words in hard.words(rows)


@given(trajectories)
def test_a_step_of_a_difference_is_right_exactly_where_its_reward_is_not_negative(rewards):
    rows = of_set(*rewards)
    assert labels(hard_labels(rows, "cpmi", is_probability=False), rows) == [[r >= 0 for r in row] for row in rewards]


@given(trajectories, st.sampled_from(["cpmi_merge1", "cpmi_merge2", "cpmi_merge3"]))
def test_the_steps_of_a_merge_are_labelled_as_those_of_the_types_it_is_made_of(rewards, name):
    rows, steps = of_set(*rewards), int(name[-1])
    first, rest = (labels(hard_labels(rows, of, of == "mc"), rows) for of in ("mc", "cpmi"))
    expected = [[*one[:steps], *other[steps:]] for one, other in zip(first, rest, strict=True)]
    assert labels(hard_labels(rows, name, is_probability=False), rows) == expected


@given(st.lists(numbers, min_size=1, max_size=40, unique=True), st.floats(0.01, 0.99))
def test_a_quantile_calls_its_share_of_steps_wrong_to_within_a_step(rewards, share):
    rows = of_set(rewards)
    right = labels(hard_labels(rows, "cpmi", False, Quantile(share)), rows)[0]
    assert abs(right.count(False) - share * len(rewards)) <= 1
    assert max((r for r, label in zip(rewards, right, strict=True) if not label), default=-51) < min(
        r for r, label in zip(rewards, right, strict=True) if label
    )


@given(st.lists(st.tuples(st.sampled_from([-12.0, -1.5, -0.25, 0.0, 0.5, 2.0]), st.booleans()), min_size=2))
def test_no_threshold_has_a_better_balanced_accuracy_than_the_calibrated_one(steps):
    rewards, correct = ([*values] for values in zip(*steps, strict=True))
    assume(len(set(correct)) == 2)
    rows = of_set(rewards)
    hard = hard_labels(rows, "cpmi", False, "calibrated", judged(correct))
    chosen = balanced_accuracy_score(correct, labels(hard, rows)[0])
    others = [balanced_accuracy_score(correct, [r >= least for r in rewards]) for least in [*rewards, 99.0]]
    assert chosen == pytest.approx(max(others))
    assert f"{chosen:.1%}, on the {len(steps)} judged" in hard.words(rows)


@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        ("mean", "--threshold mean: give a number, median, quantile:SHARE or calibrated"),
        ("nan", "--threshold nan: give a number"),
        ("", "--threshold : give a number"),
        ("quantile:0", "--threshold quantile:0: give the share of wrong steps, above 0 and below 1"),
        ("quantile:1", "--threshold quantile:1: give the share"),
        ("quantile:a fifth", "--threshold quantile:a fifth: give the share"),
        ("quantile", "--threshold quantile: give the share"),
    ],
)
def test_a_rule_that_there_is_not_is_refused_with_those_there_are(threshold, message):
    with pytest.raises(UsageError, match=message):
        parse_rule(threshold)


@pytest.mark.parametrize(
    ("reward_type", "truth", "message"),
    [
        (
            "cpmi",
            NONE_JUDGED,
            r"there are 0 and 0; name judged steps as `sources\.step_truth` and run",
        ),
        ("cpmi", judged([True, True, None, None]), "wrong, and there are 2 and 0"),
        ("cpmi_merge1", judged([True, False, True, None]), "up to step 1 there are 1 and 0"),
        ("cpmi_merge1", judged([True, None, None, True], [False]), "after step 1 there are 1 and 0"),
    ],
)
def test_a_threshold_is_not_calibrated_on_steps_that_are_all_right_or_not_judged(reward_type, truth, message):
    with pytest.raises(UsageError, match=message):
        hard_labels(of_set(REWARDS, [0.3]), reward_type, False, "calibrated", truth)
