"""The report's four findings: what they say follows from intervals, and what is not measured is said to be so."""

import polars as pl
import pytest

from cpmi_dagster.reports.findings import SILENT, TELLS, Finding, findings

Row = tuple[str, str, float, float | None, float | None]
INNER = "Without last steps"
LABELS, MODELS, TRUST = 0, 2, 3


def table(*rows: Row, units: int | None = 100) -> pl.DataFrame:
    schema = dict.fromkeys(("row", "column"), pl.String) | dict.fromkeys(("measured", "low", "high"), pl.Float64)
    return pl.DataFrame(rows, schema, orient="row").with_columns(n=100, units=units, unit=pl.lit("question"))


def found(place: int, **frames: pl.DataFrame) -> Finding:
    return findings(frames, " -p mine")[place]


def quality(to_mc: tuple[float, float], to_control: tuple[float, float], units: int = 100) -> pl.DataFrame:
    return table(
        ("MC", INNER, 0.9, 0.8, 0.95), ("CPMI", INNER, 0.7, 0.6, 0.8), ("Position", INNER, 0.6, 0.5, 0.7),
        ("Step length", INNER, 0.65, 0.6, 0.7), ("Step surprisal", INNER, 0.75, 0.7, 0.8),
        ("CPMI", "Difference to MC, without last steps", sum(to_mc) / 2, *to_mc),
        ("CPMI", "Difference to best control, without last steps", sum(to_control) / 2, *to_control), units=units,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("to_mc", "to_control", "verdict", "words"),
    [
        ((-0.3, -0.1), (0.1, 0.3), TELLS, "are worse than MC's, by 0.200 [0.100, 0.300; n=100], and are better than"),
        ((-0.1, 0.1), (-0.1, 0.1), SILENT, "and cannot be distinguished from those of the best free control,"),
    ],
)
def test_labels_are_held_against_rollouts_and_the_best_free_control(to_mc, to_control, verdict, words):
    finding = found(LABELS, label_quality=quality(to_mc, to_control))
    assert (finding.title, finding.verdict) == ("Labels on judged steps", verdict)
    assert words in finding.answer


def judged(*averages: tuple[str, float, float, float]) -> pl.DataFrame:
    return table(*((f"{row} (official)", "Average", *figure) for row, *figure in averages))


CHANCE = ("Chance", 19.0, 15.0, 23.0)


@pytest.mark.parametrize(
    ("low", "high", "verdict", "words"),
    [(-1.0, 4.0, SILENT, "cannot be distinguished from those on MC's"), (1.0, 4.0, TELLS, "are better than those on")],
)
def test_reward_models_are_compared_as_was_named_beforehand(low, high, verdict, words):
    primary = table(("Primary: CPMI − MC", "PB (official)", 2.0, low, high))
    averages = judged(("CPMI", 30, 28, 32), ("MC", 28, 26, 30), CHANCE)
    finding = found(MODELS, processbench=averages, differences=primary)
    assert finding.verdict == verdict and words in finding.answer
    assert "MC 28.0 [26.0, 30.0; n=100], chance 19.0 [15.0, 23.0; n=100]." in finding.figures[0]


TRUE, UNIFORM = "one trained on true steps is not above chance", "one trained on uniform labels is above chance"


@pytest.mark.parametrize(
    ("ceiling", "floor", "failing"),
    [
        ((30, 25, 35), (19, 14, 24), None),
        ((20, 15, 25), (25, 20, 30), f"{TRUE} and {UNIFORM}"),
        (None, (25, 20, 30), UNIFORM),
    ],
)
def test_reward_models_tell_labels_apart_only_if_both_controls_hold(ceiling, floor, failing):
    controls = (("Trained on true steps", ceiling), ("Trained on uniform labels", floor))
    averages = judged(("CPMI", 30, 28, 32), CHANCE, *((row, *figure) for row, figure in controls if figure))
    primary = table(("Primary: CPMI − MC", "PB (official)", 3.0, 1.0, 5.0))
    finding = found(MODELS, processbench=averages, differences=primary)
    assert finding.verdict == (SILENT if failing else TELLS)
    assert not failing or finding.answer == f"These reward models cannot tell labels apart: {failing}."


def test_what_the_labeler_knows_is_a_condition_behind_the_figure_on_judged_steps():
    auc = ("Final answers: CPMI", "Mean step, without last steps", 0.74, 0.6, 0.8)
    counts = [("Counts: Solutions by final answer", column, 40.0, None, None) for column in ("Right", "Wrong")]
    trust = table(("Knowledge: Half, 0.05 to 0.95", "Share of questions", 0.45, 0.3, 0.6), auc, *counts)
    finding = found(TRUST, label_trust=trust, label_quality=quality((0, 1), (0, 1)))
    assert finding.verdict == "a necessary condition" and "AUC 0.74" in finding.figures[1]
    assert finding.answer.startswith("On judged steps, the AUC of CPMI without last steps is 0.700")
    assert finding.answer.endswith("only there can CPMI tell steps apart; whether it does is what judged steps say.")
