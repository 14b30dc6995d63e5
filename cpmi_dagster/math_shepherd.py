"""Rows of Math-Shepherd, under the module name that users import."""

from cpmi_dagster.trajectories.math_shepherd import MalformedRow, Trajectory, parse_row, render_row

__all__ = ["MalformedRow", "Trajectory", "parse_row", "render_row"]
