"""Puts the headline of a finished home into the README, the rows that `cpmi run` prints at its end.

    python scripts/readme_table.py .cpmi/miniature

The rows are kept in docs/demo_headline.csv, so that a test can tell whether the README was edited by hand.
"""

import argparse
import re
from pathlib import Path

import polars as pl

from cpmi_dagster.contracts.keys import FIGURES
from cpmi_dagster.files.whole_files import write_whole
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.reports.artifacts import by_artifact
from cpmi_dagster.reports.summary import BEST_FREE, format_headline, headline_table
from cpmi_dagster.resources.lake.lake import Lake

ROOT = Path(__file__).resolve().parents[1]
README, ROWS = ROOT / "README.md", ROOT / "docs" / "demo_headline.csv"
SHOWN_ROWS = ("MC", "CPMI", "First error", "Right so far", "Step surprisal", "Chance")
LEFT_OUT = ("… over all steps", "PRMScore", "MATH500 best of 8 (%)")
INTERVAL = re.compile(r" \[.*\]| too few \(.*\)")
BLOCK = re.compile(r"(?<=<!-- headline -->\n).*?(?=<!-- end of headline -->)", re.DOTALL)


def markdown_table(rows: pl.DataFrame) -> str:
    """Rows of text as a Markdown table."""
    lines = [rows.columns, ["---"] * rows.width, *rows.iter_rows()]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def with_table(readme: str, rows: pl.DataFrame) -> str:
    """The README's text with some rows and columns as its table, without intervals."""
    reward = pl.col("Reward")
    shown = rows.filter(reward.is_in(SHOWN_ROWS) | reward.str.starts_with(BEST_FREE)).drop(LEFT_OUT)
    cells = pl.all().map_elements(lambda cell: INTERVAL.sub("", cell), return_dtype=pl.String)
    return BLOCK.sub(lambda _: markdown_table(shown.select(cells)), readme)


def main() -> None:
    """Write the rows of a home and the README's table."""
    parser = argparse.ArgumentParser(description="Put the headline of a finished home into the README.")
    parser.add_argument("home", type=Path, help="home of a finished run of the miniature profile")
    settings = load_settings("miniature", home=parser.parse_args().home)
    frames = by_artifact(Lake.of(settings).read(FIGURES))
    rows = format_headline(headline_table(frames, settings.recipes))
    write_whole(ROWS, rows.write_csv())
    write_whole(README, with_table(README.read_text(encoding="utf-8"), rows))


if __name__ == "__main__":
    main()
