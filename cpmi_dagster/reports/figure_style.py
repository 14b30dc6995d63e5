"""How every plot looks, and how it becomes SVG or an image in Markdown.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; each reward type also has its own marker. Ink is
one colour that the SVG takes from the page (`currentColor`), so plots follow light and dark pages.
"""

import base64
import io
import re
from typing import TYPE_CHECKING

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


def add_legend(figure: "Figure", axes: "Axes") -> None:
    """One legend for the whole figure, under it, from the entries of one panel."""
    handles, labels = axes.get_legend_handles_labels()
    columns = min(len(labels), LEGEND_COLUMNS)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, labelcolor=INK, fontsize=9)


def style_of(row: str) -> tuple[str, str]:
    """Colour and marker of a reward type by its row label; variants have the colour of the type they start with."""
    family = max((name for name in REWARD_STYLES if row.startswith(name)), key=len, default="")
    return REWARD_STYLES.get(family, OTHER_STYLE)[0], REWARD_STYLES.get(row, OTHER_STYLE)[1]


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
