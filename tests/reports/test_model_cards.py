"""A model card takes up what was measured with the model, once."""

from cpmi_dagster.prm.card import with_figures
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.quality import MEASURES, card_figures

CARD = """\
# cpmi_bce

| reward type | `cpmi` |

## Figures

Nothing has been measured with this model yet; `cpmi run` measures it.

## Use

load it
"""


def test_the_card_holds_every_measure_of_its_recipe(inputs: ReportInputs) -> None:
    figures = dict(card_figures(inputs, "cpmi_bce"))
    estimate = MEASURES["PRMB"].of(inputs, "cpmi_bce")
    assert estimate is not None
    shown = figures["PRMBench, overall PRMScore, the threshold with the best F1 of wrong steps"]
    assert shown.startswith(f"{estimate.value:.1f} [{estimate.low:.1f}, {estimate.high:.1f}; n=12] (chance ")
    assert figures["ROC-AUC of step scores on ProcessBench-Math"].endswith("(chance 0.500)")
    assert len(figures) == len(MEASURES)
    assert card_figures(ReportInputs(), "cpmi_bce") == []


def test_figures_of_an_earlier_report_are_replaced_and_the_rest_stays() -> None:
    first = with_figures(CARD, [("ProcessBench F1", "30.0")], "miniature")
    second = with_figures(first, [("ProcessBench F1", "31.0")], "miniature")
    assert "| ProcessBench F1 | 30.0 |" in first and "Nothing has been measured" not in first
    assert second == first.replace("30.0", "31.0")
    assert second.startswith(CARD.partition("## Figures")[0]) and second.endswith("## Use\n\nload it\n")
