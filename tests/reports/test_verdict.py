"""Train on this or not: the one rule, and what to do where it is not known."""

import polars as pl
import pytest

from cpmi_dagster.installed import program
from cpmi_dagster.reports.verdict import MOST_MORE, NO, NOT_KNOWN, YES, judge_label, label_facts

APART = "Difference to best control, without last steps"


def frame(*rows: tuple[str, str, float, float | None, float | None], units: int = 40) -> pl.DataFrame:
    schema = dict.fromkeys(("row", "column"), pl.String) | dict.fromkeys(("measured", "low", "high"), pl.Float64)
    return pl.DataFrame(rows, schema, orient="row").with_columns(n=200, units=units, unit=pl.lit("question"))


def judged(solutions: int, labelled: int = 400) -> pl.DataFrame:
    counts = {"Right": max(0, solutions - 1), "Wrong": min(1, solutions), "Labelled": labelled}
    rows = [("Counts: Judged solutions", name, float(count), None, None) for name, count in counts.items()]
    return frame(*rows, ("Counts: Judged steps", "Right", 90.0, None, None))


def quality(low: float | None, high: float | None, middle: float, units: int = 40) -> pl.DataFrame:
    inner = "Without last steps"
    aucs = (("CPMI", inner, 0.7, 0.6, 0.8), ("Step length", inner, 0.6, 0.5, 0.7), ("Position", inner, 0.5, 0.4, 0.6))
    return frame(*aucs, ("CPMI", APART, middle, low, high), units=units)


@pytest.mark.parametrize(
    ("low", "high", "middle", "answer", "following"),
    [
        (0.02, 0.18, 0.1, YES, "Train on CPMI."),
        (-0.18, -0.02, -0.1, NO, "Train on Step length"),
        (-0.05, 0.15, 0.05, NOT_KNOWN, "Judge about 180 more solutions"),
        (-0.1, 0.1001, 0.0001, NOT_KNOWN, "take Step length, which costs nothing"),
        (None, None, 0.1, NOT_KNOWN, "Judge 50 more solutions"),
    ],
)
def test_the_whole_interval_decides_and_else_it_is_said_what_to_do(low, high, middle, answer, following):
    units = 40 if low is not None else 7
    verdict = judge_label({"label_quality": quality(low, high, middle, units), "label_trust": judged(60)}, "cpmi")
    assert (verdict.answer, verdict.free, verdict.judged) == (answer, "Step length", 60)
    assert following in verdict.following, verdict
    if answer == NO:
        assert "is 0.100 [0.020, 0.180; n=40] below that of Step length" in verdict.because


def test_one_label_from_several_is_advised_where_it_is_not_worse_and_no_label_that_finds_less_than_a_blind_pick():
    no = quality(-0.18, -0.02, -0.1)
    together = frame(("Right so far", APART, 0.05, -0.01, 0.1), ("Right so far", "Without last steps", 0.8, 0.7, 0.9))
    worse = frame(("Right so far", APART, -0.2, -0.3, -0.1))
    found = "First wrong step found"
    blind = frame(("Step length", found, 0.05, None, None), ("Chance", found, 0.2, None, None))
    for more, words in (
        (together, "Train on Right so far"),
        (worse, "Train on Step length"),
        (blind, "fewer first wrong"),
    ):
        frames = {"label_quality": pl.concat([no, more]), "label_trust": judged(60)}
        assert words in judge_label(frames, "cpmi").following


@pytest.mark.parametrize(("solutions", "labelled", "more"), [(0, 400, 50), (12, 400, 38), (12, 40, 28), (18, 21, 3)])
def test_an_answer_needs_twenty_judged_solutions_and_fifty_are_asked_for(solutions, labelled, more):
    frames = {"label_quality": quality(0.02, 0.18, 0.1), "label_trust": judged(solutions, labelled)}
    verdict = judge_label(frames, "cpmi", " -p mine.yaml")
    assert verdict.because == f"{solutions} of the 20 solutions that an answer needs are judged."
    plural = "s" if more > 1 else ""
    assert f"Judge {more} more solution{plural} ({solutions + more} in all) with “" in verdict.line
    assert "explore -p mine.yaml”" in verdict.line
    assert more < MOST_MORE
    frames["label_trust"] = judged(9, labelled=10)
    assert "Add 40 more solutions to the file, and judge these and the other 1 (50 in all)" in (
        judge_label(frames, "cpmi").following
    ), "ten solutions cannot answer, however many of them are judged"
    frames["label_trust"] = judged(12, labelled=12)
    assert "add 38 more solutions to it (50 in all)" in judge_label(frames, "cpmi").following


@pytest.mark.parametrize(
    ("left", "left_judged", "following"),
    [
        (42, 42, "This is a pilot: “cpmi run -p mine.yaml” labels the other 42 solutions, of which 42 are judged"),
        (32, 24, "labels the other 32 solutions, of which 24 are judged, enough for an answer."),
        (32, 1, "labels the other 32 solutions, of which 1 is judged. Judge 31 more solutions (40 in all) with"),
        (400, 0, "labels the other 400 solutions. Judge 42 more solutions (50 in all) with “cpmi explore -p"),
        (0, 0, "All of the file are judged: add 42 more solutions to it (50 in all), run, and judge them"),
    ],
)
def test_after_a_pilot_the_whole_run_comes_first_and_what_is_judged_already_is_not_asked_for(
    left, left_judged, following
):
    rows = [("Counts: Solutions without labels", "Solutions", left, None, None)] if left else []
    rows += [("Counts: Solutions without labels", "Judged", left_judged, None, None)] if left else []
    frames = {"label_trust": pl.concat([judged(8, labelled=8), frame(*rows)])}
    text = judge_label(frames, "cpmi", " -p mine.yaml", is_pilot=True).following
    assert following in text.replace(program(), "cpmi")
    assert ("Judge" in text) == (0 <= left_judged < 12) or not left
    assert "pilot" not in judge_label(frames, "cpmi").following


@pytest.mark.parametrize(
    ("right", "wrong", "words"), [(0, 9, "are wrong"), (9, 0, "are right"), (8, 1, ""), (0, 0, "")]
)
def test_final_answers_that_are_all_wrong_or_all_right_are_said_beside_the_verdict(right, wrong, words):
    counts = {"Right": right, "Wrong": wrong}
    rows = [("Counts: Solutions by final answer", name, float(count), None, None) for name, count in counts.items()]
    caution = judge_label({"label_trust": pl.concat([judged(60), frame(*rows)])}, "cpmi").caution
    assert (words in caution and caution.startswith("All 9 final answers")) if words else not caution
    assert ("--map gold_answer=FIELD" in caution) == (wrong == 9)


@pytest.mark.parametrize("solutions", [20, 32, 40, 49, 60])
def test_solutions_that_nobody_has_judged_do_not_change_the_answer(solutions):
    for figures, expected in ((quality(-0.18, -0.02, -0.1), NO), (quality(0.02, 0.18, 0.1), YES)):
        answers = {
            judge_label({"label_quality": figures, "label_trust": judged(solutions, labelled)}, "cpmi").answer
            for labelled in (solutions, solutions + 5, solutions + 15, 100_000)
        }
        assert answers == {expected}


def test_solutions_that_the_label_does_not_label_do_not_count():
    rows = [("Counts: Judged solutions, CPMI", name, 20.0, None, None) for name in ("Labelled", "Right")]
    frames = {"label_quality": quality(0.02, 0.18, 0.1), "label_trust": pl.concat([judged(60), frame(*rows)])}
    verdict = judge_label(frames, "cpmi")
    assert (verdict.answer, verdict.judged) == (YES, 20)


@pytest.mark.parametrize(("early", "is_said"), [(34, True), (2, False)])
def test_a_final_answer_stated_before_the_last_step_is_said_beside_the_verdict(early, is_said):
    row = frame(("Counts: Final answer before the last step", "Solutions", early, None, None)).with_columns(n=40)
    verdict = judge_label({"label_trust": pl.concat([judged(60), row], how="diagonal_relaxed")}, "cpmi")
    assert ("In 34 of 40 solutions a step before the last one states the final answer too" in verdict.line) == is_said
    figures = frame(("CPMI", "Without steps that state the final answer", 0.58, 0.5, 0.66))
    trust = pl.concat([judged(60), row], how="diagonal_relaxed")
    line = judge_label({"label_quality": figures, "label_trust": trust}, "cpmi").line
    assert ("without those steps too the AUC is 0.580 [0.500, 0.660; n=40]." in line) == is_said


def test_where_all_that_is_labelled_is_judged_more_has_to_be_labelled():
    frames = {"label_quality": quality(-0.05, 0.15, 0.05), "label_trust": judged(60, labelled=60)}
    assert "add about 180 more solutions to it" in judge_label(frames, "cpmi").following


def test_what_is_known_of_a_label_has_its_figures_beside_chance_and_nothing_is_known_before_somebody_judges():
    found = frame(
        ("CPMI", "First wrong step found", 0.25, 0.2, 0.3), ("Chance", "First wrong step found", 0.19, None, None)
    )
    figures = pl.concat([quality(0.02, 0.18, 0.1), found])
    facts = label_facts({"label_quality": figures, "label_trust": judged(60)}, "cpmi")
    assert facts["train on it?"].startswith("Yes: on 60 judged solutions") and facts["judged solutions"] == "60"
    assert facts["AUC without last steps"] == "0.700 [0.600, 0.800; n=40] (chance 0.500, Step length 0.600)"
    assert facts["first wrong step found"] == "0.250 [0.200, 0.300; n=40] (a blind pick 0.190)"
    assert label_facts({"label_quality": figures, "label_trust": judged(0)}, "cpmi") == {}
