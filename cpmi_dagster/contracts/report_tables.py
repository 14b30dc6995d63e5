"""The contracts of the group `reports`: every table or figure of the paper in one shape, and the report.

artifact      row   column  paper  measured  low   high   n    units  unit      profile
processbench  CPMI  Math    39.6   41.2      36.0  46.1   120  96     question  miniature
"""

import dataframely as dy

ARTIFACT_TITLES = {
    "label_quality": "How well the labels themselves tell right steps from wrong ones",
    "label_trust": "What can be said of the labels without knowing which steps are right",
    "efficiency": "Labeling cost against the quality of the reward model",
    "contrast": "The two terms of CPMI, alone and together",
    "distribution": "How far apart the scores of right and wrong steps lie (ProcessBench-Math)",
    "distribution_figure": "Scores of right and wrong steps (ProcessBench-Math)",
    "processbench": "ProcessBench, F1 of finding the first wrong step",
    "prmbench": "PRMBench, PRMScore by group",
    "best_of_n": "Best-of-N accuracy on the question sets",
    "dataset_statistics_table": "The data set that the reward models learn from",
    "processbench_detailed": "ProcessBench in full",
    "prmbench_detailed": "PRMBench by category",
    "labelers": "Other, smaller labelers",
    "logic": "Logical reasoning, best of 8",
    "objectives": "Training objectives",
    "negatives_ablation": "Hard negatives, their number M and what they are sampled from",
    "merge_points": "How many steps take MC before CPMI takes over",
    "pav_merges": "Merges that start from PAV",
    "reward_models": "Are the reward models any good",
    "differences": "Which differences between reward models are more than noise",
}
"""By the name of a table or figure of the report: what it shows."""
ARTIFACT_NAMES = tuple(ARTIFACT_TITLES)


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
