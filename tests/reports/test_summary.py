"""What is said of figures follows from their intervals; what is not measured is said to be so."""

import polars as pl
import pytest

from cpmi_dagster.benchmarks.resampling import Estimate
from cpmi_dagster.reports.figures import figure_frame
from cpmi_dagster.reports.models import HIGHEST, JUDGED, JUDGED_HELD_OUT, LOWEST, OWN_LABELS
from cpmi_dagster.reports.summary import SILENT, TELLS, Finding, describe_models, findings

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
        ((-0.3, -0.1), (0.1, 0.3), TELLS, "0.200 [0.100, 0.300; n=100] below that of MC, and is 0.200"),
        ((-0.1, 0.1), (-0.1, 0.1), SILENT, ", and is not distinguishable from that of the best free label,"),
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
    [
        (-1.0, 4.0, SILENT, "is not distinguishable from that of those on MC's"),
        (1.0, 4.0, TELLS, "is 2.0 [1.0, 4.0; n=100] above that of those on"),
    ],
)
def test_reward_models_are_compared_as_was_named_beforehand(low, high, verdict, words):
    primary = table(("Primary: CPMI − MC", "PB (official)", 2.0, low, high))
    averages = judged(("CPMI", 30, 28, 32), ("MC", 28, 26, 30), CHANCE)
    finding = found(MODELS, processbench=averages, differences=primary)
    assert finding.verdict == verdict and words in finding.answer


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


def test_what_the_labeler_knows_is_a_condition_and_no_answer():
    auc = ("Final answers: CPMI", "Mean step, without last steps", 0.74, 0.6, 0.8)
    counts = [("Counts: Solutions by final answer", column, 40.0, None, None) for column in ("Right", "Wrong")]
    trust = table(("Knowledge: Half, 0.05 to 0.95", "Share of questions", 0.45, 0.3, 0.6), auc, *counts)
    finding = found(TRUST, label_trust=trust)
    assert (
        finding.verdict == "a necessary condition" and "AUC 0.74 [0.60, 0.80; n=100], above chance" in finding.beside[1]
    )
    assert finding.answer.startswith("For 45 % [30, 60; n=100] of the questions the labeler half knows the answer")
    assert finding.answer.endswith("only there can CPMI tell steps apart; whether it does is what judged steps say.")


ALL = {JUDGED: Estimate(0.9, 0.8, 0.95, 400, 80), LOWEST: Estimate(0.1), HIGHEST: Estimate(0.9)}
HELD_OUT = {OWN_LABELS: Estimate(0.7, 0.6, 0.8, 90, 20), JUDGED_HELD_OUT: Estimate(0.6, 0.5, 0.7, 80, 20)}


@pytest.mark.parametrize(
    ("figures", "words", "unsaid"),
    [
        (ALL | HELD_OUT, "0.600 [0.500, 0.700; n=20] against judged steps of questions held out", "0.900"),
        (
            ALL,
            "Fewer than 10 questions are held out to measure it on. AUC 0.900 [0.800, 0.950; n=80] against judged",
            "x",
        ),
        (ALL | HELD_OUT, "(chance 0.5). That is not distinguishable from chance.", "x"),
        (ALL | {OWN_LABELS: Estimate(0.7, 0.6, 0.8, 90, 20)}, "questions held out, 0.900", "not distinguishable"),
        (ALL | {JUDGED_HELD_OUT: Estimate(0.6, n=9, units=3)}, "judged steps, of training questions too", "0.600"),
    ],
)
def test_judged_steps_of_training_questions_are_never_passed_off_as_held_out(figures, words, unsaid):
    frame = figure_frame(("cpmi_bce", column, figure) for column, figure in figures.items())
    [sentence] = describe_models(frame).values()
    assert words in sentence and unsaid not in sentence
