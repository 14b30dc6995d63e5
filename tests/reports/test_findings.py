"""The report's findings: what they say follows from intervals, and nothing is said without figures."""

import re

import polars as pl
import pytest

from cpmi_dagster.reports.evidence import ACROSS, BY_KNOWLEDGE, TO_MC, WITHIN
from cpmi_dagster.reports.findings import findings

Row = tuple[str, str, float, float | None, float | None]
FOUND, INNER, HOLM = "First wrong step found", "Without last steps", "Difference p (Holm)"


def table(*rows: Row) -> pl.DataFrame:
    schema = dict.fromkeys(("row", "column"), pl.String) | dict.fromkeys(("measured", "low", "high"), pl.Float64)
    return pl.DataFrame(rows, schema, orient="row").with_columns(n=100, units=None, unit=None)


def answer(row: str, ours: float, other: float, low: float, high: float) -> list[Row]:
    figures = [("CPMI", ours), ("Compared with", other)]
    return [
        *((row, column, value, value - 0.05, value + 0.05) for column, value in figures),
        (row, "Difference", (low + high) / 2, low, high),
    ]


LOST_WITHIN, LOST_ACROSS = answer(WITHIN, 0.30, 0.25, -0.1, 0.1), answer(ACROSS, 0.61, 0.72, -0.2, 0.0)


@pytest.mark.parametrize(
    ("low", "high", "tells", "words"),
    [
        (0.02, 0.2, True, "are better than"),
        (-0.2, -0.02, True, "are worse than"),
        (-0.1, 0.1, False, "cannot be distinguished from"),
    ],
)
def test_labels_are_held_against_the_best_label_that_costs_nothing(low, high, tells, words):
    within = table(
        ("Position", FOUND, 0.2, 0.1, 0.3), ("Step length", FOUND, 0.25, 0.2, 0.3), ("MC", FOUND, 0.4, 0.3, 0.5)
    )
    (finding,) = findings({"label_evidence": table(*answer(WITHIN, 0.30, 0.25, low, high)), "label_within": within})
    assert (finding.title, finding.tells) == ("Against free labels", tells)
    assert words in finding.answer
    assert "step in 30 % [25, 35]; Step length, the best free label, 25 % [20, 30], MC 40 % [30, 50]." in finding.text


@pytest.mark.parametrize(
    ("within", "across", "p_value", "tells", "words"),
    [
        ((-0.1, 0.1), (-0.74, -0.37), 0.004, True, "are worse by AUC without last steps, and cannot be dist"),
        ((0.02, 0.2), (-0.74, -0.37), 0.004, True, "better by first wrong steps found, and are worse by AUC"),
        ((0.02, 0.2), (0.1, 0.2), 0.004, True, "^CPMI's labels are better than the best label that costs nothing.$"),
        ((-0.1, 0.1), (-0.74, -0.37), 0.2, False, "^CPMI's labels cannot be distinguished from the best label"),
    ],
)
def test_every_significant_difference_to_free_labels_is_stated(within, across, p_value, tells, words):
    rows = [*answer(WITHIN, 0.30, 0.25, *within), *answer(ACROSS, 0.3, 0.85, *across)]
    (finding,) = findings({"label_evidence": table(*rows, (ACROSS, HOLM, p_value, None, None))})
    assert finding.tells == tells
    assert re.search(words, finding.answer)


def test_what_stands_beside_a_figure_is_the_best_free_label_and_a_control_that_reads_no_gold_answer():
    within = table(("Position", FOUND, 0.2, 0.1, 0.3), ("Step surprisal", FOUND, 0.41, 0.3, 0.5))
    quality = table(("Final answer", INNER, 0.72, 0.7, 0.8), ("Step surprisal", INNER, 0.78, 0.7, 0.8))
    evidence = table(*LOST_WITHIN, *LOST_ACROSS)
    (finding,) = findings({"label_evidence": evidence, "label_within": within, "label_quality": quality})
    words = "Step surprisal, which needs the labeler but no gold answer,"
    assert f"{words} 41 % [30, 50]." in finding.text
    assert "last steps excluded, its AUC is 0.61 [0.56, 0.66]; Final answer 0.72 [0.67, 0.77]" in finding.text
    assert f"{words} 0.78 [0.70, 0.80]." in finding.text


def test_a_figure_over_fewer_solutions_says_so():
    within = table(("Position", FOUND, 0.2, 0.1, 0.3), ("MC", FOUND, 0.4, 0.3, 0.5))
    fewer = within.with_columns(n=pl.when(row="MC").then(20).otherwise("n"))
    (finding,) = findings({"label_evidence": table(*LOST_WITHIN), "label_within": fewer})
    assert "MC 40 % [30, 50] (of 20 solutions)" in finding.text


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
    costs = table(("CPMI", "Token", 0.02, 0.02, 0.02), ("CPMI", "Time", 0.21, 0.2, 0.22))
    evidence = table(*answer(TO_MC, 0.6 + (low + high) / 2, 0.6, low, high))
    (finding,) = findings({"label_evidence": evidence, "efficiency": costs})
    assert (finding.title, finding.tells) == ("Against MC", tells)
    assert words in finding.answer
    assert finding.text.endswith("CPMI takes 0.02 times the generated tokens of MC and 0.21 times its time.")


@pytest.mark.parametrize(("p_value", "tells"), [(None, True), (0.01, True), (0.2, False)])
def test_when_the_method_works_counts_by_holms_p_value_and_names_the_work_that_is_left(p_value, tells):
    rows = answer(BY_KNOWLEDGE, 0.75, 0.55, 0.1, 0.3)
    rows += [] if p_value is None else [(BY_KNOWLEDGE, HOLM, p_value, None, None)]
    left = [("0 left", 0.99), ("1 left", 0.7), ("3 or more", 0.5)]
    aucs = table(*((f"Operations: {words}", "CPMI", auc, 0, 1) for words, auc in left))
    (finding,) = findings({"label_evidence": table(*rows), "label_auc": aucs})
    assert finding.tells == tells == ("rises with what its labeler knows" in finding.text)
    assert finding.text.endswith("With 0, 1, 3 or more operations left to do, the AUC of CPMI is 0.99, 0.70, 0.50.")


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(-1.0, 4.0, "labels cannot be distinguished"), (1.0, 4.0, "CPMI labels are better than those on MC labels")],
)
def test_reward_models_are_compared_as_was_named_beforehand(low, high, words):
    averages = table(
        *((f"{row} (official)", "Average", value, value - 2, value + 2) for row, value in (("CPMI", 30), ("MC", 28))),
        ("Chance (official)", "Average", 19.0, 15.0, 23.0),
    )
    primary = table(("Primary: CPMI − MC", "PB (official)", (low + high) / 2, low, high))
    (finding,) = findings({"processbench": averages, "differences": primary})
    assert words in finding.text and "Chance 19.0 [15.0, 23.0]" in finding.text


def test_every_significant_difference_between_reward_models_is_stated():
    rows: list[Row] = [("Primary: CPMI − MC", "PB (official)", 1.0, -2.0, 4.0)]
    for name, p_value in (("PRMB", 0.01), ("MATH", 0.3)):
        rows += [("CPMI − MC", name, -8.0, -12.0, -4.0), ("CPMI − MC", f"{name} p (Holm)", p_value, None, None)]
    averages = table(("CPMI (official)", "Average", 30, 28, 32), ("MC (official)", "Average", 29, 27, 31))
    (finding,) = findings({"processbench": averages, "differences": table(*rows)})
    assert finding.tells
    assert "reward models trained on CPMI labels are worse by PRMScore," in finding.answer
    assert "and cannot be distinguished by ProcessBench F1" in finding.answer and "MATH500" not in finding.answer
    assert "PRMScore by −8.0 [−12.0, −4.0]." in finding.figures


TRUE, UNIFORM = "one trained on true steps is not above chance", "one trained on uniform labels is above chance"


@pytest.mark.parametrize(
    ("ceiling", "floor", "failing"),
    [
        ((30, 25, 35), (19, 14, 24), None),
        ((30, 25, 35), (13, 11, 15), None),
        ((20, 15, 25), (19, 14, 24), TRUE),
        ((14, 10, 18), (19, 14, 24), TRUE),
        ((30, 25, 35), (25, 20, 30), UNIFORM),
        ((20, 15, 25), (25, 20, 30), f"{TRUE} and {UNIFORM}"),
        ((20, 15, 25), None, TRUE),
        (None, (25, 20, 30), UNIFORM),
    ],
)
@pytest.mark.parametrize(("low", "tells"), [(1.0, True), (-1.0, False)])
def test_reward_models_tell_labels_apart_only_where_both_controls_hold(ceiling, floor, failing, low, tells):
    controls = (("Trained on true steps (official)", ceiling), ("Trained on uniform labels (official)", floor))
    rows: list[Row] = [("CPMI (official)", "Average", 30, 28, 32), ("Chance (official)", "Average", 19.0, 15.0, 23.0)]
    rows += [(row, "Average", *figure) for row, figure in controls if figure]
    primary = table(("Primary: CPMI − MC", "PB (official)", 3.0, low, 5.0))
    (finding,) = findings({"processbench": table(*rows), "differences": primary})
    assert finding.tells == (tells and not failing)
    if failing:
        assert finding.answer == f"These reward models cannot tell labels apart: {failing}."
    else:
        assert ("are better than" in finding.answer) == tells
    if ceiling:
        above = [f"{end - 19:.1f}".replace("-", "−") for end in ceiling]
        assert f"one trained on true steps {above[0]} [{above[1]}, {above[2]}]" in finding.figures


def test_every_gain_is_stated_by_its_interval_and_holms_p_value_and_over_fewer_steps_says_so():
    gains = {
        "CPMI": (0.02, -0.01, 0.04, 0.2),
        "CPMI (incremental)": (0.03, 0.01, 0.05, 0.08),
        "MC": (0.09, 0.06, 0.12, 0.01),
    }
    rows: list[Row] = [("Step surprisal", "With it", 0.8, 0.75, 0.85)]
    for row, (gain, low, high, p_value) in gains.items():
        rows += [(row, "With it", 0.8 + gain, 0.7, 0.9), (row, "Difference", gain, low, high)]
        rows.append((row, HOLM, p_value, None, None))
    fewer = table(*rows).with_columns(n=pl.when(row="MC").then(20).otherwise("n"))
    (finding,) = findings({"label_increment": fewer})
    assert finding.tells
    assert finding.answer == (
        "A ranking of steps by Step surprisal improves with MC, "
        "and cannot be shown to improve with CPMI or CPMI (incremental)."
    )
    assert "a regression on Step surprisal has AUC 0.800 [0.750, 0.850]." in finding.figures
    assert finding.figures.endswith("MC 0.090 [0.060, 0.120], p (Holm) 0.010 (of 20 steps).")


@pytest.mark.parametrize(
    ("size", "signed", "tells", "words"),
    [
        ((0.7, 0.8), (-0.1, 0.2), True, "rises with the Jeffreys .* with its sign, cannot be shown to depend on it"),
        ((0.7, 0.8), (0.1, 0.2), True, "rises with the Jeffreys .* with its sign, rises with it"),
        ((-0.1, 0.2), (-0.3, -0.1), True, "cannot be shown to depend on the Jeffreys .* with its sign, falls with it"),
        ((-0.1, 0.2), (-0.1, 0.2), False, "cannot be shown to depend on the Jeffreys"),
    ],
)
def test_what_follows_the_divergence_is_what_correlates_with_it(size, signed, tells, words):
    rows = [(row, "Spearman", sum(ends) / 2, *ends) for row, ends in (("|CPMI|", size), ("CPMI", signed))]
    (finding,) = findings({"jeffreys": table(*rows, ("CPMI", "Negative", 0.42, 0.4, 0.44))})
    assert finding.tells == tells
    assert re.search(words, finding.answer)
    assert finding.figures.endswith("CPMI is negative at 42 % [40, 44] of the steps.")


def test_nothing_is_found_in_nothing():
    assert findings({}) == []
    assert findings({"label_evidence": table((WITHIN, "CPMI", 0.7, 0.6, 0.8))}) == []
