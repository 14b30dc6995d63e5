r"""A review of an alignment for a person: how questions were matched, what was rejected and why, what to check.

    trajectories    t000000000 … "Find $x$ …"  math/train/algebra/7  normalized  1.0
    rejected_rows   17  align  "the question is in none of the reference problems"  "Find the large …"

    match_kinds     exact 91.2 %, whitespace 5.1 %, normalized 3.6 %, fuzzy 0.1 %
    rejections      align: the question is in none of the reference problems     1,204 rows of 41 questions
    misses          "Find the large …"          nearest "Find the largest …", math/train/algebra/9, 0.93
    fuzzy_matches   0.86  "Find a value of …"   "Find the value of …"

Everything comes from the tables; nothing is aligned again.
"""

import re

import polars as pl
from rapidfuzz import fuzz, process

from cpmi_dagster.alignment.align import AMBIGUOUS, FORMS, FUZZY, NO_MATCH, name_references
from cpmi_dagster.files.text import in_markdown
from cpmi_dagster.trajectories.identifiers import GIVEN
from cpmi_dagster.trajectories.math_shepherd import EXCERPT_CHARACTERS

EXAMPLES = 20
MATCH_KINDS = (GIVEN, *(kind for kind, _ in FORMS), FUZZY)

_OF_ONE_ROW = re.compile(
    r"(?P<kept>`[^`]*`)|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\b[a-z]\w*/\w+/\S+|(?<![\w.])\d+(?:\.\d+)?(?!\w)"
)
_EXAMPLE_COLUMNS = {
    "question": pl.String(),
    "reason": pl.String(),
    "rows": pl.UInt32(),
    "nearest": pl.String(),
    "nearest_source": pl.String(),
    "similarity": pl.Float64(),
}


AlignmentReview = dict[str, pl.DataFrame]
"""The alignment of a corpus, as tables to be read, by their titles."""


def review_alignment(
    trajectories: pl.DataFrame, rejected: pl.DataFrame, references: pl.DataFrame, examples: int = EXAMPLES
) -> AlignmentReview:
    """Summarize an alignment: counts, and up to `examples` rows of each kind where a person should look.

    Returns:
        match kinds: `match_kind`, `rows`, `questions`, `share` of all rows; strictest kind first.
        rejected rows: `stage`, `reason` (what differs from row to row as `…`), `rows`, `questions`, `share`, `example`.
        misses and conflicts: `question`, `reason`, `rows`, `nearest`, `nearest_source`, `similarity`.
        fuzzy matches: `match_score`, `question`, `reference`, `match_source`, `rows`; lowest score first.
    """
    rows = max(trajectories.height + rejected.height, 1)
    places = pl.col("match_kind").replace_strict(MATCH_KINDS, range(len(MATCH_KINDS)), default=len(MATCH_KINDS))
    match_kinds = trajectories.group_by("match_kind").agg(rows=pl.len(), questions=pl.col("question_id").n_unique())
    wordings = name_references(references).select("match_source", reference=references["question"])
    fuzzy_matches = (
        trajectories.filter(pl.col("match_kind") == FUZZY)
        .group_by("match_score", "question", "match_source")
        .agg(rows=pl.len())
        .sort("match_score", "question")
        .head(examples)
        .join(wordings.unique("match_source", keep="first"), on="match_source", how="left", maintain_order="left")
    )
    columns = ["match_score", "question", "reference", "match_source", "rows"]
    return {
        "How questions were matched": match_kinds.with_columns(share=pl.col("rows") / rows).sort(places),
        "Rejected rows": _rejections(rejected, rows),
        "Questions in no reference": _examples(rejected, NO_MATCH, references, examples),
        "Questions that fit references with different answers": _examples(rejected, AMBIGUOUS, references, examples),
        "Fuzzy matches, most doubtful first": fuzzy_matches.select(columns),
    }


def render_review(review: AlignmentReview) -> str:
    """The review as Markdown: one heading and one table for each table that has rows."""
    parts = []
    for title, frame in review.items():
        lines = [frame.columns, ["---"] * frame.width, *(map(_cell, row) for row in frame.iter_rows())]
        if frame.height:
            parts.append("\n".join([f"### {title}\n", *(f"| {' | '.join(cells)} |" for cells in lines)]))
    return "\n\n".join(parts)


def general_reason(reason: str) -> str:
    """A reason without what belongs to one row: `step 3 of 5 is empty` becomes `step … of … is empty`."""
    return _OF_ONE_ROW.sub(lambda found: found["kept"] or "…", reason)


def _rejections(rejected: pl.DataFrame, rows: int) -> pl.DataFrame:
    general = {reason: general_reason(reason) for reason in rejected["reason"].unique()}
    return (
        rejected.sort("row_number")
        .with_columns(pl.col("reason").replace(general), example="reason")
        .group_by("stage", "reason")
        .agg(
            rows=pl.len(),
            questions=pl.col("excerpt").n_unique(),
            share=pl.len() / rows,
            example=pl.col("example").first(),
        )
        .sort(["rows", "stage", "reason"], descending=[True, False, False])
    )


def _examples(rejected: pl.DataFrame, reason: str, references: pl.DataFrame, count: int) -> pl.DataFrame:
    """The questions with the most rejected rows; only for these few is the nearest reference looked up."""
    found = (
        rejected.filter(pl.col("reason") == reason)
        .group_by("excerpt")
        .agg(rows=pl.len(), row_number=pl.col("row_number").min())
        .sort(["rows", "row_number"], descending=[True, False])
        .head(count)
    )
    beginnings = [question[:EXCERPT_CHARACTERS] for question in references["question"]]
    names = name_references(references)["match_source"]
    examples = []
    for excerpt, rows in found["excerpt", "rows"].iter_rows():
        best = process.extractOne(excerpt, beginnings, scorer=fuzz.ratio)
        nearest = (best[0], names[best[2]], best[1] / 100) if best else (None, None, None)
        examples.append((excerpt, reason, rows, *nearest))
    return pl.DataFrame(examples, schema=_EXAMPLE_COLUMNS, orient="row")


def _cell(value: object) -> str:
    """Texts with their LaTeX and Markdown signs shown, and not interpreted."""
    if isinstance(value, str):
        return in_markdown(value)
    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else f"{value:,}"
