"""Plots of tables: what is drawn is what the rows say."""

import numpy as np
import polars as pl
import pytest

from cpmi_dagster.reports.table_plots import draw_calibration


def test_a_calibrated_model_lies_on_the_line_and_an_overconfident_one_below_it():
    draws = np.random.default_rng(0)
    share = draws.uniform(0.2, 0.8, 20_000)
    is_right = draws.uniform(size=share.size) < share
    for excess in (0.0, 0.2):
        _, curve = draw_calibration(pl.DataFrame({"probability": share + excess, "is_right": is_right})).axes[0].lines
        assert curve.get_ydata() == pytest.approx(curve.get_xdata() - excess, abs=0.04)
