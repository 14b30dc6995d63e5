"""The picture of one trajectory's steps: what a bar's colour and number say."""

import polars as pl
import pytest
from matplotlib.colors import to_hex

from cpmi_dagster import plot_steps
from cpmi_dagster.errors import ScoringError
from cpmi_dagster.reports.figure_style import OTHER_STYLE, RIGHT_STEPS, WRONG_STEPS

STEPS = ["Ann pays $3 and $2, which is $5.", "So 4."]
LABELS = pl.DataFrame(
    {
        "id": ["a"] * 4 + ["b"],
        "step_index": [0, 1, 0, 1, 0],
        "step": [*STEPS, *STEPS, "Other."],
        "reward_type": ["cpmi", "cpmi", "step_length", "step_length", "cpmi"],
        "reward": [0.4, -0.2, -33.0, -5.0, 1.0],
        "soft_label": [0.9, 0.1, 0.0, 1.0, 0.5],
    }
)


def colours(panel) -> list[str]:
    return [to_hex(bar.get_facecolor()) for bar in panel.patches]


def test_a_panel_per_reward_type_has_the_colours_of_its_scale_and_the_soft_labels():
    cpmi, length = plot_steps(LABELS).axes
    assert [tick.get_text() for tick in cpmi.get_yticklabels()] == STEPS
    assert colours(cpmi) == [RIGHT_STEPS, WRONG_STEPS] and colours(length) == [OTHER_STYLE[0]] * 2
    assert [text.get_text() for text in cpmi.texts] == ["0.90", "0.10"]
    (other,) = plot_steps(LABELS, "b").axes
    assert [bar.get_width() for bar in other.patches] == [1.0]


@pytest.mark.parametrize(("labels", "name"), [(LABELS, "c"), (LABELS.clear(), None)])
def test_a_trajectory_without_steps_is_named(labels, name):
    with pytest.raises(ScoringError, match=f"no steps of trajectory `{name}`"):
        plot_steps(labels, name)
