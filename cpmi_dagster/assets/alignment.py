"""Source rows become trajectories, or rejected rows with a reason."""

from typing import Any

import dagster as dg
import polars as pl

from cpmi_dagster.alignment import ReferenceIndex, align_trajectories, review_alignment
from cpmi_dagster.answers.gold import doubt_gold_answers
from cpmi_dagster.contracts.keys import REFERENCES, REJECTED_ROWS, SHEPHERD, TRAJECTORIES
from cpmi_dagster.errors import LakeError
from cpmi_dagster.resources.dag.presentation import preview
from cpmi_dagster.resources.dag.stage import StageOutput, stage
from cpmi_dagster.resources.dag.stage_run import Home, StageRun
from cpmi_dagster.trajectories.rows import separate_defects, separate_duplicates

REVIEWED = ["match_kind", "question_id", "gold_answer"]


def _review(home: Home, _: str | None) -> dict[str, Any]:
    """How many rows have a gold answer, and examples of each way to find it."""
    aligned, rejected = home.lake.read(TRAJECTORIES, columns=REVIEWED), home.lake.read(REJECTED_ROWS)
    count = aligned.height + rejected.height
    tables = [f"### {title}\n\n{preview(rows)}" for title, rows in review_alignment(aligned, rejected).items()]
    return {
        "match_rate": aligned["gold_answer"].count() / count if count else 1.0,
        "alignment": dg.MetadataValue.md("\n\n".join(tables)),
    }


@stage(
    TRAJECTORIES,
    also=[REJECTED_ROWS],
    code_version="10",
    inputs=[SHEPHERD, REFERENCES],
    settings=["answers.identity"],
    summary=_review,
    lineage={
        "steps": ["sources/math_shepherd.steps"],
        "shepherd_labels": ["sources/math_shepherd.labels"],
        "final_answer": ["sources/math_shepherd.final_answer"],
        "gold_answer": ["sources/reference_problems.answer", "sources/math_shepherd.gold_answer"],
        "match_source": ["sources/reference_problems.problem_id", "sources/math_shepherd.source_id"],
        "source_id": ["sources/math_shepherd.source_id"],
        "reason": ["sources/math_shepherd.defect"],
    },
)
def trajectories(run: StageRun) -> StageOutput:
    """Takes the gold answer from the row or from the reference problem with the same question."""
    source = run.read(SHEPHERD)
    rows, defects = separate_defects(source)
    rows, repeated = separate_duplicates(rows)
    version = run.content_hash(REFERENCES), run.settings.answers.identity
    index = run.cached(f"reference index {version}", lambda: _reference_index(run))
    aligned, unmatched = align_trajectories(rows, index)
    rejected = pl.concat([defects, repeated, unmatched]).sort("row_number")
    account_for(source, aligned, rejected)
    doubt = doubt_gold_answers(aligned.select("gold_answer", "final_answer").iter_rows())
    if doubt:
        run.tell(f"Warning: {doubt}")
    return StageOutput({TRAJECTORIES: aligned, REJECTED_ROWS: rejected}, notes=[doubt] if doubt else [])


def account_for(source: pl.DataFrame, kept: pl.DataFrame, rejected: pl.DataFrame) -> None:
    """Check that each source row is a trajectory or a rejected row, and one of these alone, by row_number.

    Raises:
        LakeError: a row is lost, or twice there.
    """
    accounted = pl.concat([kept["row_number"], rejected["row_number"]])
    if not source["row_number"].sort().equals(accounted.sort()):
        raise LakeError(
            f"{source.height:,} rows were read, and {kept.height:,} trajectories and {rejected.height:,} rejected rows "
            "are not all of these once; nothing is written: this is a defect of the package, please report it"
        )


def _reference_index(run: StageRun) -> ReferenceIndex:
    return ReferenceIndex(run.read(REFERENCES), run.settings.answers.comparison)


STAGES = (trajectories,)
