"""Rows of Math-Shepherd, under the module name that users import."""

from cpmi_dagster.trajectories.math_shepherd import MalformedRowError, Trajectory, parse_row, render_row

__all__ = ["MalformedRowError", "Trajectory", "parse_row", "render_row"]
