"""The sentence on a reward model says of which questions its figures are."""

import pytest

from cpmi_dagster.benchmarks.resampling import Estimate
from cpmi_dagster.reports.figures import figure_frame
from cpmi_dagster.reports.models import HIGHEST, JUDGED, JUDGED_HELD_OUT, LOWEST, OWN_LABELS, describe_models

ALL = {JUDGED: Estimate(0.9, 0.8, 0.95, 400, 80), LOWEST: Estimate(0.1), HIGHEST: Estimate(0.9)}
HELD_OUT = {OWN_LABELS: Estimate(0.7, 0.6, 0.8, 90, 20), JUDGED_HELD_OUT: Estimate(0.6, 0.5, 0.7, 80, 20)}


@pytest.mark.parametrize(
    ("figures", "words", "unsaid"),
    [
        (ALL | HELD_OUT, "0.600 [0.500, 0.700; n=20] against judged steps of questions held out", "0.900"),
        (
            ALL,
            "fewer than 10 questions are held out to measure it on, 0.900 [0.800, 0.950; n=80] against judged steps",
            "x",
        ),
        (ALL | HELD_OUT, "(chance 0.5). That is hardly above chance.", "x"),
        (ALL | {OWN_LABELS: Estimate(0.7, 0.6, 0.8, 90, 20)}, "questions held out, 0.900", "hardly"),
        (ALL | {JUDGED_HELD_OUT: Estimate(0.6, n=9, units=3)}, "judged steps, of training questions too", "0.600"),
    ],
)
def test_judged_steps_of_training_questions_are_never_passed_off_as_held_out(figures, words, unsaid):
    frame = figure_frame(("cpmi_bce", column, figure) for column, figure in figures.items())
    [sentence] = describe_models(frame).values()
    assert words in sentence and unsaid not in sentence
