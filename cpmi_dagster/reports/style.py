"""How every plot looks, and how it becomes SVG or an image in Markdown.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; each reward type also has its own marker. Ink is
one colour that the SVG takes from the page (`currentColor`), so plots follow light and dark pages.
"""

import base64
import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1f2328"
GRID = "#8c959f"
RIGHT_STEPS = "#0072b2"
WRONG_STEPS = "#e69f00"
WIDTH_INCHES = 8.2
DOTS_PER_INCH = 80
LEGEND_COLUMNS = 4
PALETTE = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#8c564b", "#667700", "#8c959f",
)  # fmt: skip
LINES = ("-", "--", "-.", ":")
"""Beyond the palette, colours come again with another kind of line."""

REWARD_STYLES: dict[str, tuple[str, str]] = {
    "MC": ("#0072b2", "o"),
    "PAV": ("#cc79a7", "s"),
    "CPMI": ("#009e73", "D"),
    "CPMI_Merge": ("#d55e00", "^"),
    "Rand_Merge": ("#7f3c8d", "X"),
    "Gold_only": ("#e69f00", "v"),
    "Neg_only": ("#56b4e9", "P"),
    **dict.fromkeys(("True steps", "Trained on true steps"), (INK, "*")),
    **dict.fromkeys(("Uniform random", "Trained on uniform labels"), (GRID, "X")),
}
"""Colour and marker by row label, of labels and of reward models."""
OTHER_STYLE = ("#8c959f", "o")

_XML_PROLOG = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>|\s+xmlns(?::\w+)?=\"[^\"]*\"", re.DOTALL)


def new_figure(
    height: float, panels: int = 1, columns: int = 1, kind: "type[Figure] | None" = None
) -> tuple["Figure", list["Axes"]]:
    """An empty figure of the report's width, and its panels, row by row.

    Args:
        height: inches of a row of panels.
        columns: most panels next to each other.
        kind: of figure; matplotlib's own by default.
    """
    from matplotlib.figure import Figure

    columns = min(columns, panels)
    rows = -(-panels // columns)
    figure = (kind or Figure)(figsize=(WIDTH_INCHES, height * rows), layout="constrained")
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


def line_styles(rows: Sequence[str]) -> dict[str, tuple[str, str]]:
    """A colour and a kind of line for each curve of a plot, no two alike; rows with a colour of their own keep it."""
    styles: dict[str, tuple[str, str]] = {row: (REWARD_STYLES[row][0], "-") for row in rows if row in REWARD_STYLES}
    free = [(colour, line) for line in LINES for colour in PALETTE if (colour, line) not in styles.values()]
    return styles | dict(zip((row for row in rows if row not in styles), free, strict=False))


def add_legend(figure: "Figure", axes: Sequence["Axes"]) -> None:
    """One legend for the whole figure, under it, of the entries of some panels by the mean of their last values."""
    handles: dict[str, Any] = {}
    ends: dict[str, list[float]] = {}
    for panel in axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
            values = [float(value) for value in getattr(handle, "get_ydata", list)()]
            ends.setdefault(label, []).extend(values[-1:])
    labels = sorted(handles, key=lambda label: -sum(ends[label]) / max(1, len(ends[label])))
    columns = min(len(labels), LEGEND_COLUMNS)
    shown = [handles[label] for label in labels]
    figure.legend(shown, labels, loc="outside lower center", ncols=columns, frameon=False, labelcolor=INK, fontsize=9)


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
