"""Draws docs/images/architecture.svg from the code: the groups of assets, their tables, and what each group reads.

    python -m scripts.architecture_picture

A test fails if the picture is not up to date.
"""

from itertools import chain
from pathlib import Path
from xml.sax.saxutils import escape

from cpmi_dagster.definitions import STAGES
from cpmi_dagster.files.whole_files import write_whole

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "architecture.svg"
GROUPS = ("sources", "alignment", "selection", "labels", "dataset", "models", "benchmarks", "reports")
WIDTH, LEFT, LINE, GAP, LANE, PER_LINE, MOST_LINES = 780, 150, 17, 26, 16, 3, 4
INK, PAPER, EDGE = "#1f2937", "#f3f4f6", "#6b7280"
STYLE = f"text{{font:12px sans-serif;fill:{INK}}} .group{{font-weight:bold}} path{{fill:none;stroke:{EDGE}}}"


def tables_of(group: str) -> list[str]:
    """Names of a group's tables, in the order of the stages."""
    keys = chain.from_iterable(stage.tables for stage in STAGES)
    return [key.split("/")[1] for key in keys if key.split("/")[0] == group]


def groups_read_by(group: str) -> list[str]:
    """The groups that a group's stages read, without itself, in the order of the data."""
    stages = (stage for stage in STAGES if any(key.split("/")[0] == group for key in stage.tables))
    read = {key.split("/")[0] for stage in stages for key in stage.inputs} - {group}
    return sorted(read, key=GROUPS.index)


def lines_of(group: str) -> list[str]:
    """A group's tables as lines of text; if there are too many, the last line counts the rest."""
    names = tables_of(group)
    kept = names if len(names) <= PER_LINE * MOST_LINES else names[: PER_LINE * (MOST_LINES - 1)]
    lines = [", ".join(kept[start : start + PER_LINE]) for start in range(0, len(kept), PER_LINE)]
    return lines if len(kept) == len(names) else [*lines, f"and {len(names) - len(kept)} more"]


def picture() -> str:
    """The picture as SVG: a box for each group from top to bottom, with a line from each group that it reads."""
    boxes, middles, top = [], {}, GAP // 2
    for group in GROUPS:
        lines = lines_of(group)
        height = LINE * len(lines) + 14
        middles[group] = top + height / 2
        boxes.append(_box(group, lines, top, height))
        top += height + GAP
    pairs = [(read, group) for group in GROUPS for read in groups_read_by(group)]
    arrows = [_arrow(middles[read], middles[group], GROUPS.index(read)) for read, group in pairs]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" role="img">'
    title = "<title>Groups of assets, their tables, and what each group reads</title>"
    marker = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<polygon points="0,0 8,4 0,8" fill="{EDGE}"/></marker></defs>'
    )
    return "\n".join([head, title, f"<style>{STYLE}</style>", marker, *arrows, *boxes, "</svg>", ""])


def _box(group: str, lines: list[str], top: int, height: int) -> str:
    size = f'width="{WIDTH - LEFT - 2}" height="{height}"'
    rect = f'<rect x="{LEFT}" y="{top}" {size} rx="5" fill="{PAPER}" stroke="{EDGE}"/>'
    name = f'<text class="group" x="{LEFT + 12}" y="{top + 20}">{escape(group)}</text>'
    texts = [f'<text x="{LEFT + 110}" y="{top + 20 + LINE * n}">{escape(line)}</text>' for n, line in enumerate(lines)]
    return "".join([rect, name, *texts])


def _arrow(start: float, end: float, lane: int) -> str:
    """A line out of a box at its left, down the lane of its group, into another box."""
    x, into = LEFT - 14 - LANE * lane, end - 9 + 3 * lane
    return f'<path d="M{LEFT},{start + 4} H{x} V{into} H{LEFT}" marker-end="url(#tip)"/>'


if __name__ == "__main__":
    write_whole(PICTURE, picture())
