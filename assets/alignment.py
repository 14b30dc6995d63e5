"""Source rows become trajectories with a gold answer, or rejected rows with a reason."""

import polars as pl

from cpmi_dagster.alignment import align_trajectories
from cpmi_dagster.math_shepherd import parse_rows
from resources.stage import stage
from resources.stage_run import Made, StageRun


@stage(
    "alignment/trajectories",
    "alignment/rejected_rows",
    inputs=["sources/math_shepherd", "sources/reference_problems"],
    lineage={
        "steps": ["sources/math_shepherd.input"],
        "shepherd_labels": ["sources/math_shepherd.label", "sources/math_shepherd.value"],
        "final_answer": ["sources/math_shepherd.input"],
        "gold_answer": ["sources/reference_problems.answer"],
        "match_source": ["sources/reference_problems.problem_id"],
        "reason": ["sources/math_shepherd.input", "sources/math_shepherd.label"],
    },
)
def trajectories(run: StageRun, shard: str) -> Made:
    """Parse each row into steps, find its question among the references, take that problem's answer as gold."""
    parsed, malformed = parse_rows(run.read("sources/math_shepherd", shard))
    aligned, unmatched = align_trajectories(parsed, run.read("sources/reference_problems"))
    rejected = pl.concat([malformed, unmatched]).sort("row_number")
    rows = aligned.height + rejected.height
    return Made(
        frames={"alignment/trajectories": aligned, "alignment/rejected_rows": rejected},
        metadata={"match_rate": aligned.height / rows if rows else 1.0},
    )


STAGES = (trajectories,)
