"""The report's findings: what they say follows from intervals, and nothing is said without figures."""

import re

import polars as pl
import pytest

from cpmi_dagster.reports.evidence import ACROSS, BY_KNOWLEDGE, TO_MC, WITHIN
from cpmi_dagster.reports.findings import findings


def table(*rows: tuple[str, str, float, float, float]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["row", "column", "measured", "low", "high"], orient="row").with_columns(n=100)


def answer(row: str, ours: float, other: float, low: float, high: float) -> list[tuple[str, str, float, float, float]]:
    figures = [("CPMI", ours), ("Compared with", other)]
    return [
        *((row, column, value, value - 0.05, value + 0.05) for column, value in figures),
        (row, "Difference", (low + high) / 2, low, high),
    ]


@pytest.mark.parametrize(
    ("low", "high", "tells", "words"),
    [
        (0.02, 0.2, True, "are better than"),
        (-0.2, -0.02, True, "are worse than"),
        (-0.1, 0.1, False, "cannot be distinguished from"),
    ],
)
def test_labels_are_held_against_the_best_label_that_costs_nothing(low, high, tells, words):
    free = "First wrong step found"
    within = table(
        ("Position", free, 0.2, 0.1, 0.3), ("Step length", free, 0.25, 0.2, 0.3), ("MC", free, 0.4, 0.3, 0.5)
    )
    (finding,) = findings({"label_evidence": table(*answer(WITHIN, 0.30, 0.25, low, high)), "label_within": within})
    assert (finding.title, finding.tells) == ("Against free labels", tells)
    assert words in finding.answer
    assert (
        "Of 100 solutions with an error, its lowest label is on the first wrong step in 30 % [25, 35]; "
        "Step length, the best free label, 25 % [20, 30], MC 40 % [30, 50]." in finding.text
    )


HOLM = "Difference p (Holm)"


@pytest.mark.parametrize(
    ("within", "across", "p_value", "tells", "words"),
    [
        (
            (-0.1, 0.1),
            (-0.74, -0.37),
            0.004,
            True,
            "are worse by AUC without last steps, and cannot be dist",
        ),
        (
            (0.02, 0.2),
            (-0.74, -0.37),
            0.004,
            True,
            "better by first wrong steps found, and are worse by AUC",
        ),
        ((0.02, 0.2), (0.1, 0.2), 0.004, True, "^CPMI's labels are better than the best label that costs nothing.$"),
        ((-0.1, 0.1), (-0.74, -0.37), 0.2, False, "^CPMI's labels cannot be distinguished from the best label"),
    ],
)
def test_every_significant_difference_to_free_labels_is_stated(within, across, p_value, tells, words):
    rows = [*answer(WITHIN, 0.30, 0.25, *within), *answer(ACROSS, 0.3, 0.85, *across)]
    (finding,) = findings({"label_evidence": table(*rows, (ACROSS, HOLM, p_value, None, None))})
    assert finding.tells == tells
    assert re.search(words, finding.answer)


def test_every_significant_difference_between_reward_models_is_stated():
    rows = [
        ("Primary: CPMI − MC", "PB (official)", 1.0, -2.0, 4.0),
        *(("CPMI − MC", name, -8.0, -12.0, -4.0) for name in ("PRMB", "MATH")),
        *(("CPMI − MC", f"{name} p (Holm)", p_value, None, None) for name, p_value in (("PRMB", 0.01), ("MATH", 0.3))),
    ]
    averages = table(("CPMI (official)", "Average", 30, 28, 32), ("MC (official)", "Average", 29, 27, 31))
    (finding,) = findings({"processbench": averages, "differences": table(*rows)})
    assert finding.tells
    assert "reward models trained on CPMI labels are worse by PRMScore," in finding.answer
    assert "and cannot be distinguished by ProcessBench F1" in finding.answer and "MATH500" not in finding.answer
    assert "PRMScore by −8.0 [−12.0, −4.0]." in finding.figures


def test_a_control_that_reads_no_gold_answer_is_named_beside_the_free_ones():
    found = "First wrong step found"
    within = table(("Position", found, 0.2, 0.1, 0.3), ("Step surprisal", found, 0.41, 0.3, 0.5))
    quality = table(
        ("Final answer", "Without last steps", 0.72, 0.7, 0.8), ("Step surprisal", "Without last steps", 0.78, 0.7, 0.8)
    )
    both = [*answer(WITHIN, 0.30, 0.25, -0.1, 0.1), *answer(ACROSS, 0.61, 0.72, -0.2, 0.0)]
    (finding,) = findings({"label_evidence": table(*both), "label_within": within, "label_quality": quality})
    words = "Step surprisal, which needs the labeler but no gold answer,"
    assert f"{words} 41 % [30, 50]." in finding.text
    assert f"{words} 0.78 [0.70, 0.80]." in finding.text


def test_labels_are_also_compared_across_solutions():
    both = [*answer(WITHIN, 0.30, 0.25, -0.1, 0.1), *answer(ACROSS, 0.61, 0.72, -0.2, 0.0)]
    quality = table(("Final answer", "Without last steps", 0.72, 0.7, 0.8))
    (finding,) = findings({"label_evidence": table(*both), "label_quality": quality})
    assert "last steps excluded, its AUC is 0.61 [0.56, 0.66]; Final answer 0.72 [0.67, 0.77]." in finding.text


def test_what_the_labels_cost_is_said_where_it_was_measured():
    costs = table(("CPMI", "Token", 0.02, 0.02, 0.02), ("CPMI", "Time", 0.21, 0.2, 0.22))
    (finding,) = findings({"label_evidence": table(*answer(TO_MC, 0.3, 0.2, 0.1, 0.2)), "efficiency": costs})
    assert finding.text.endswith("CPMI takes 0.02 times the generated tokens of MC and 0.21 times its time.")


def test_when_the_method_works_is_read_off_its_thirds():
    (finding,) = findings({"label_evidence": table(*answer(BY_KNOWLEDGE, 0.75, 0.55, 0.1, 0.3))})
    assert finding.tells and "rises with what its labeler knows" in finding.text


@pytest.mark.parametrize(("p_value", "tells"), [(0.01, True), (0.2, False)])
def test_a_secondary_answer_counts_only_by_holms_p_value(p_value, tells):
    rows = [*answer(BY_KNOWLEDGE, 0.75, 0.55, 0.1, 0.3), (BY_KNOWLEDGE, "Difference p (Holm)", p_value, None, None)]
    (finding,) = findings({"label_evidence": table(*rows)})
    assert finding.tells == tells


def test_a_figure_over_fewer_solutions_says_so():
    within = table(
        ("Position", "First wrong step found", 0.2, 0.1, 0.3), ("MC", "First wrong step found", 0.4, 0.3, 0.5)
    )
    fewer = within.with_columns(n=pl.when(row="MC").then(20).otherwise("n"))
    (finding,) = findings({"label_evidence": table(*answer(WITHIN, 0.3, 0.25, -0.1, 0.1)), "label_within": fewer})
    assert "MC 40 % [30, 50] (of 20 solutions)" in finding.text


def test_how_labels_fade_with_the_work_that_is_left_is_said_where_it_is_known():
    left = table(
        ("CPMI", "0 left", 0.99, 0.98, 1.0), ("CPMI", "1 left", 0.7, 0.6, 0.8), ("CPMI", "3 or more", 0.5, 0, 1)
    )
    answers = table(*answer(BY_KNOWLEDGE, 0.75, 0.55, 0.1, 0.3))
    (finding,) = findings({"label_evidence": answers, "label_operations": left})
    assert finding.text.endswith("With 0, 1, 3 or more operations left to do, the AUC of CPMI is 0.99, 0.70, 0.50.")


@pytest.mark.parametrize(
    ("low", "high", "tells", "words"),
    [
        (-0.04, 0.05, True, "rank steps equally well, within ± 0.05"),
        (0.01, 0.04, True, "rank steps equally well, within ± 0.05"),
        (-0.1, 0.05, False, "can neither be distinguished nor called equal within ± 0.05"),
        (0.02, 0.3, True, "differ: CPMI's rank steps better"),
        (-0.3, -0.02, True, "differ: CPMI's rank steps worse"),
    ],
)
def test_labels_equal_those_by_rollouts_where_the_whole_interval_is_within_the_margin(low, high, tells, words):
    (finding,) = findings({"label_evidence": table(*answer(TO_MC, 0.6 + (low + high) / 2, 0.6, low, high))})
    assert (finding.title, finding.tells) == ("Against MC", tells)
    assert words in finding.answer


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(-1.0, 4.0, "labels cannot be distinguished"), (1.0, 4.0, "CPMI labels are better than those on MC labels")],
)
def test_reward_models_are_compared_as_was_named_beforehand(low, high, words):
    average = [
        (f"{row} (official)", "Average", value, value - 2, value + 2) for row, value in (("CPMI", 30), ("MC", 28))
    ]
    chance = ("Chance (official)", "Average", 19.0, 15.0, 23.0)
    primary = table(("Primary: CPMI − MC", "PB (official)", (low + high) / 2, low, high))
    (finding,) = findings({"processbench": table(*average, chance), "differences": primary})
    assert words in finding.text and "Chance 19.0 [15.0, 23.0]" in finding.text


def test_nothing_is_found_in_nothing():
    assert findings({}) == []
    assert findings({"label_evidence": table((WITHIN, "CPMI", 0.7, 0.6, 0.8))}) == []
