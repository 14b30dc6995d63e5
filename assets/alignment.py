"""Source rows become trajectories with a gold answer, or rejected rows with a reason."""

import dagster as dg
import polars as pl

from cpmi_dagster.alignment.align import ReferenceIndex, align_trajectories
from cpmi_dagster.alignment.review import render_review, review_alignment
from cpmi_dagster.contracts.keys import REFERENCES, REJECTED_ROWS, SHEPHERD, TRAJECTORIES
from cpmi_dagster.resources.dag.declaration import StageOutput
from cpmi_dagster.resources.dag.stage import stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.trajectories.math_shepherd import parse_rows, without_duplicates

SHARD_EXAMPLES = 5


@stage(
    TRAJECTORIES,
    also=[REJECTED_ROWS],
    code_version="7",
    inputs=[SHEPHERD, REFERENCES],
    settings=["answers.identity"],
    lineage={
        "steps": ["sources/math_shepherd.input"],
        "shepherd_labels": ["sources/math_shepherd.label", "sources/math_shepherd.value"],
        "final_answer": ["sources/math_shepherd.input"],
        "gold_answer": ["sources/reference_problems.answer"],
        "match_source": ["sources/reference_problems.problem_id", "sources/math_shepherd.source_id"],
        "reason": ["sources/math_shepherd.input", "sources/math_shepherd.label"],
    },
)
def trajectories(run: StageRun) -> StageOutput:
    """Source rows parsed into steps, each with its own gold answer or that of the matching reference problem."""
    parsed, malformed = parse_rows(run.read(SHEPHERD))
    parsed, repeated = without_duplicates(parsed)
    version = run.version(REFERENCES), run.settings.answers.identity
    index = run.once(f"reference index {version}", lambda: _reference_index(run))
    aligned, unmatched = align_trajectories(parsed, index)
    rejected = pl.concat([malformed, repeated, unmatched]).sort("row_number")
    rows = aligned.height + rejected.height
    review = review_alignment(aligned, rejected, index.references, SHARD_EXAMPLES)
    return StageOutput(
        frames={TRAJECTORIES: aligned, REJECTED_ROWS: rejected},
        metadata={
            "match_rate": aligned.height / rows if rows else 1.0,
            "alignment": dg.MetadataValue.md(render_review(review)),
        },
    )


def _reference_index(run: StageRun) -> ReferenceIndex:
    return ReferenceIndex(run.read(REFERENCES), run.settings.answers.comparison)


STAGES = (trajectories,)
