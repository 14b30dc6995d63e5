"""The contracts of the group `reports`: every table or figure of the paper in one shape, and the report.

artifact      row   column  paper  measured  low   high   n    units  unit      profile
processbench  CPMI  Math    39.6   41.2      36.0  46.1   120  96     question  miniature
"""

import dataframely as dy

ARTIFACT_NAMES = (
    "label_quality", "label_trust", "efficiency", "contrast", "distribution", "distribution_figure", "processbench",
    "prmbench", "best_of_n", "dataset_statistics_table", "processbench_detailed", "prmbench_detailed", "labelers",
    "logic", "objectives", "negatives_ablation", "merge_points", "pav_merges", "reward_models",
    "differences",
)  # fmt: skip


class PaperComparison(dy.Schema):
    """One figure of a table or plot of the paper next to ours; `reports.<artifact>` are views of one artifact."""

    artifact = dy.String(primary_key=True, description="table or figure, e.g. processbench")
    row = dy.String(primary_key=True, description="row label, as in the paper")
    column = dy.String(primary_key=True, description="column label, as in the paper")
    paper = dy.Float64(nullable=True, description="the paper's figure; null if it has none")
    measured = dy.Float64(nullable=True, description="our figure; null if this profile does not measure it")
    low = dy.Float64(nullable=True, description="lower end of the 95 % interval; null from fewer than 10 units")
    high = dy.Float64(nullable=True, description="upper end of the 95 % interval")
    n = dy.Int64(nullable=True, description="number of problems, steps or trajectories behind the figure")
    units = dy.Int64(
        nullable=True, description="how many are resampled for the interval; of two kinds, those with the rarer one"
    )
    unit = dy.String(nullable=True, description="what is resampled: question, shard, judge")
    profile = dy.String(description="profile on which ours was measured")


class Report(dy.Schema):
    """Where the HTML report is."""

    path = dy.String(primary_key=True, description="file, relative to the home")
    artifacts = dy.Int64(min=0, description="tables and figures in it")
    profile = dy.String(description="profile it was measured on")
