"""The report's findings: what they say follows from intervals, and nothing is said without figures."""

import polars as pl
import pytest

from cpmi_dagster.reports.findings import findings

FREE, CPMI, MC = ("Position", 0.60), ("CPMI", 0.70), ("MC", 0.75)


def table(*rows: tuple[str, str, float, float, float]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["row", "column", "measured", "low", "high"], orient="row")


def label_quality(low: float, high: float) -> pl.DataFrame:
    """CPMI, MC and a free control without last steps; the interval of CPMI's difference to the control."""
    figures = [(row, "Without last steps", value, value - 0.05, value + 0.05) for row, value in (FREE, CPMI, MC)]
    return table(*figures, ("CPMI", "Difference to best control", (low + high) / 2, low, high))


@pytest.mark.parametrize(
    ("low", "high", "tells", "words"),
    [
        (0.02, 0.2, True, "are better than"),
        (-0.2, -0.02, True, "are worse than"),
        (-0.1, 0.1, False, "no better or worse"),
    ],
)
def test_labels_are_held_against_the_best_label_that_costs_nothing(low, high, tells, words):
    (finding,) = findings({"label_quality": label_quality(low, high)})
    assert (finding.title, finding.tells) == ("Labels", tells)
    assert words in finding.text
    assert "CPMI has 0.700 [0.650, 0.750], Position 0.600 [0.550, 0.650] and MC 0.750 [0.700, 0.800]." in finding.text


def test_what_the_labels_cost_is_said_where_it_was_measured():
    costs = table(("CPMI", "Token", 0.02, 0.02, 0.02), ("CPMI", "Time", 0.21, 0.2, 0.22))
    (finding,) = findings({"label_quality": label_quality(0.1, 0.2), "efficiency": costs})
    assert finding.text.endswith("They take 0.02 times the generated tokens of MC and 0.21 times its time.")


def test_when_the_method_works_is_read_off_its_thirds():
    rows = [("CPMI", "Lowest third", 0.55, 0.5, 0.6), ("CPMI", "Highest third", 0.75, 0.7, 0.8)]
    (finding,) = findings({"label_knowledge": table(*rows, ("CPMI", "Highest − lowest", 0.2, 0.1, 0.3))})
    assert finding.tells and "rises with what its labeler knows" in finding.text


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(-1.0, 4.0, "labels cannot be told apart"), (1.0, 4.0, "CPMI labels are better than those on MC labels")],
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
    assert findings({"label_quality": table(("CPMI", "Without last steps", 0.7, 0.6, 0.8))}) == []
