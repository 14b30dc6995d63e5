"""How every plot looks, and how it becomes SVG or an image in Markdown.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; each reward type also has its own marker. Ink is
one colour that the SVG takes from the page (`currentColor`), so plots follow light and dark pages.
"""

import base64
import io
import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1f2328"
GRID = "#8c959f"
RIGHT_STEPS = "#0072b2"
WRONG_STEPS = "#e69f00"
WIDTH_INCHES = 8.2
NAME_GAP = 0.075
"""Least distance of two names beside a panel, as a share of its height."""
DOTS_PER_INCH = 80

REWARD_STYLES: dict[str, tuple[str, str]] = {
    "MC": ("#0072b2", "o"),
    "PAV": ("#cc79a7", "s"),
    "CPMI": ("#009e73", "D"),
    "CPMI_Merge": ("#d55e00", "^"),
    "Rand_Merge": ("#8c959f", "X"),
    "Gold_only": ("#e69f00", "v"),
    "Neg_only": ("#56b4e9", "P"),
    **dict.fromkeys(("True steps", "Trained on true steps"), (INK, "*")),
    **dict.fromkeys(("Uniform random", "Trained on uniform labels"), (GRID, "X")),
}
"""Colour and marker by row label, of labels and of reward models."""
OTHER_STYLE = ("#8c959f", "o")

_XML_PROLOG = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>|\s+xmlns(?::\w+)?=\"[^\"]*\"", re.DOTALL)


def new_figure(
    height: float,
    panels: int = 1,
    columns: int = 1,
    margin: float = 0,
    kind: "type[Figure] | None" = None,
) -> tuple["Figure", list["Axes"]]:
    """An empty figure of the report's width.

    Args:
        height: inches of a row of panels.
        columns: most panels next to each other.
        margin: inches added to the rows' height.
        kind: of figure; matplotlib's own by default.

    Returns:
        The figure and its panels, row by row.
    """
    from matplotlib.figure import Figure

    columns = min(columns, panels)
    rows = -(-panels // columns)
    figure = (kind or Figure)(figsize=(WIDTH_INCHES, height * rows + margin), layout="constrained")
    figure.patch.set_alpha(0)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel in axes:
        panel.set_facecolor("none")
        panel.spines[["top", "right"]].set_visible(False)
        panel.spines[["left", "bottom"]].set_color(GRID)
        panel.tick_params(colors=INK, labelsize=9, length=3)
        panel.grid(color=GRID, alpha=0.25, linewidth=0.6)
        panel.set_axisbelow(True)
    for panel in axes[panels:]:
        panel.set_axis_off()
    return figure, axes[:panels]


def label_axes(axes: "Axes", x: str, y: str = "", title: str = "") -> None:
    """Axis labels with their units, and a title at the left."""
    axes.set_xlabel(x, color=INK, fontsize=10)
    axes.set_ylabel(y, color=INK, fontsize=10)
    axes.set_title(title, color=INK, fontsize=10.5, loc="left", fontweight="bold")


def add_legend(figure: "Figure", axes: "Axes") -> None:
    """One legend for the whole figure, under it, from the entries of one panel; plain lines come last."""
    from matplotlib.lines import Line2D

    entries = sorted(zip(*axes.get_legend_handles_labels(), strict=True), key=lambda entry: type(entry[0]) is Line2D)
    figure.legend(
        [handle for handle, _ in entries],
        [label for _, label in entries],
        loc="outside lower center",
        ncols=min(len(entries), 5),
        frameon=False,
        labelcolor=INK,
        fontsize=9,
    )


def label_ends(axes: "Axes", ends: Sequence[tuple[float, str, str]]) -> None:
    """Name lines at the right of the panel instead of in a legend.

    Args:
        ends: height, name and colour of every line's right end.
    """
    low, high = axes.get_ylim()
    places = spread([end for end, _, _ in ends], NAME_GAP * (high - low))
    for place, (_, name, colour) in zip(places, ends, strict=True):
        axes.text(1.02, place, name, transform=axes.get_yaxis_transform(), color=colour, fontsize=8.5, va="center")


def spread(values: Sequence[float], gap: float) -> list[float]:
    """Values moved as little as possible to be `gap` apart, in the same order: neighbours push each other away."""
    placed = list(values)
    order = sorted(range(len(placed)), key=lambda index: placed[index])
    for _ in range(100):
        for lower, upper in itertools.pairwise(order):
            push = max(0.0, gap - (placed[upper] - placed[lower])) / 2
            placed[lower], placed[upper] = placed[lower] - push, placed[upper] + push
    return placed


def colour_of(row: str) -> str:
    """Colour of a reward type by its row label; variants share that of the type they start with."""
    family = max((name for name in REWARD_STYLES if row.startswith(name)), key=len, default="")
    return REWARD_STYLES.get(family, OTHER_STYLE)[0]


def marker_of(row: str) -> str:
    """Marker of a reward type by its row label."""
    return REWARD_STYLES.get(row, OTHER_STYLE)[1]


def to_svg(figure: "Figure", name: str) -> str:
    """Draw as an `<svg>` element for an HTML page, without prolog, metadata or namespaces.

    The ink takes the page's text colour.

    Args:
        name: unique on the page; keeps the ids inside the drawing apart from those of others.
    """
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": name, "svg.id": name}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return _XML_PROLOG.sub("", buffer.getvalue()).replace(INK, "currentColor")


def to_markdown(figure: "Figure") -> str:
    """Draw as an image on white embedded in Markdown text, for Dagster's metadata."""
    return f"![](data:image/png;base64,{base64.b64encode(to_png(figure)).decode()})"


def to_png(figure: "Figure") -> bytes:
    """Draw as an image on white."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH, facecolor="white")
    return buffer.getvalue()
