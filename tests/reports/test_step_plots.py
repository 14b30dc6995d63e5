"""The picture of one trajectory's steps: what a bar's colour and number say."""

import polars as pl
from matplotlib.colors import to_hex

from cpmi_dagster import plot_steps
from cpmi_dagster.reports.figure_style import OTHER_STYLE, RIGHT_STEPS, WRONG_STEPS


def test_a_panel_per_reward_type_has_the_colours_of_its_scale_and_the_soft_labels():
    steps = pl.DataFrame({"id": "a", "step_index": [0, 1] * 2, "step": ["It is $5.", "So 4."] * 2}).with_columns(
        reward_type=pl.Series(["cpmi", "cpmi", "step_length", "step_length"]),
        reward=pl.Series([0.4, -0.2, -33.0, -5.0]),
        soft_label=pl.Series([0.9, 0.1, 0.0, 1.0]),
    )
    judged = steps.head(2).select("id", "step_index", "step", probability=pl.Series([0.5, 0.3]))
    panels = [*plot_steps(steps).axes, *plot_steps(judged).axes]
    colours = [[to_hex(bar.get_facecolor()) for bar in panel.patches] for panel in panels]
    assert colours == [[RIGHT_STEPS, WRONG_STEPS], [OTHER_STYLE[0]] * 2, [RIGHT_STEPS, WRONG_STEPS]]
    assert [tick.get_text() for tick in panels[0].get_yticklabels()] == ["It is $5.", "So 4."]
    assert [text.get_text() for text in panels[0].texts] == ["0.90", "0.10"]
