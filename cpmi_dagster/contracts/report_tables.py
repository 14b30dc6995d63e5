"""The table contracts of the group `reports`: the figures of the report in one shape, and the report.

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
"""Title of each table and figure of the report, by name."""
ARTIFACT_NAMES = tuple(ARTIFACT_TITLES)
OF_LABELS, OF_DATA_SET = ("label_quality", "label_trust"), ("dataset_statistics_table",)
TOPICS = {
    "labels": OF_LABELS,
    "data_set": OF_DATA_SET,
    "models": tuple(name for name in ARTIFACT_NAMES if name not in (*OF_LABELS, *OF_DATA_SET)),
}
"""The tables and figures that are made together, since they show the same measures."""
TOPIC_OF = {name: topic for topic, names in TOPICS.items() for name in names}
"""The topic of each table and figure."""


class PaperComparison(dy.Schema):
    """Figures of the report, the paper's beside ours; the view `reports.<artifact>` has those of one table or plot."""

    artifact = dy.String(primary_key=True, description="table or plot, e.g. processbench")
    row = dy.String(primary_key=True, description="row label, as in the paper")
    column = dy.String(primary_key=True, description="column label, as in the paper")
    paper = dy.Float64(nullable=True, description="the paper's figure; null if the paper has none")
    measured = dy.Float64(nullable=True, description="our figure; null if the profile does not measure it")
    low = dy.Float64(nullable=True, description="lower end of the 95 % interval; null if units < 10")
    high = dy.Float64(nullable=True, description="upper end of the 95 % interval; null if units < 10")
    n = dy.Int64(nullable=True, description="number of problems, steps or trajectories behind the figure")
    units = dy.Int64(nullable=True, description="units resampled; of two classes compared, those of the smaller")
    unit = dy.String(nullable=True, description="what is resampled: question, shard or judge")
    profile = dy.String(description="profile that our figure was measured on")


class Report(dy.Schema):
    """The HTML report: where it is, and how much it shows."""

    path = dy.String(primary_key=True, description="file of the report, relative to the home")
    artifacts = dy.Int64(min=0, description="number of tables and figures in the report")
    profile = dy.String(description="profile that the figures were measured on")
