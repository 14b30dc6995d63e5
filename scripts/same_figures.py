"""Compares the tables of two homes row by row: what is missing, new or different in the second.

    python -m scripts.same_figures OLD_HOME NEW_HOME

    labels.step_rewards          9,120 rows in both   320 missing   0 new   0 different
      missing: reward_type=judge_token (320)
    reports.paper_comparison       412 rows in both     0 missing   0 new   2 different
      t=processbench, row=MC, column=Math: measured 57.0 -> 57.4

Exits with 1 if a row that both homes have differs by more than `TOLERANCE`.
"""

import sys
from pathlib import Path

import duckdb
import polars as pl

TOLERANCE = 1e-5
SHOWN = 12
KEYS = {
    "alignment.trajectories": ["trajectory_id"],
    "selection.selected_trajectories": ["trajectory_id"],
    "labels.hard_negatives": ["trajectory_id", "rank"],
    "labels.answer_logprobs": ["trajectory_id", "template", "context", "step_index", "answer_rank"],
    "labels.step_rewards": ["trajectory_id", "step_index", "reward_type"],
    "reports.paper_comparison": ["artifact", "row", "column"],
}
"""The key of each table that is compared."""
GROUPS = ("reward_type", "artifact", "context")
"""Columns by which missing and new rows are counted."""
PROVENANCE = ("run_id", "code_version")
"""Columns that are not compared."""


def read_table(home: Path, table: str) -> pl.DataFrame:
    """Read a table of a home's database."""
    with duckdb.connect(str(home / "cpmi.duckdb"), read_only=True) as database:
        return database.sql(f"select * from {table}").pl()


def count_by_group(rows: pl.DataFrame) -> str:
    """Counts of rows in words, by the first of `GROUPS` that they have."""
    group = next((name for name in GROUPS if name in rows.columns), None)
    if group is None:
        return f"{rows.height} rows"
    counts = rows[group].cast(pl.String).value_counts().sort(group)
    return ", ".join(f"{group}={name} ({count})" for name, count in counts.iter_rows())


def compare(table: str, old: pl.DataFrame, new: pl.DataFrame) -> int:
    """Print how two versions of a table differ; returns the number of rows in both that differ."""
    key = KEYS[table]
    texts = [pl.col(name).cast(pl.String) for name in key if old.schema[name] in (pl.Categorical, pl.Enum)]
    old, new = old.with_columns(texts), new.with_columns(texts)
    values = [name for name in old.columns if name in new.columns and name not in (*key, *PROVENANCE)]
    both = old.join(new, on=key, how="inner", suffix="_new", nulls_equal=True)
    equal = [
        (pl.col(name) - pl.col(f"{name}_new")).abs().le(TOLERANCE).fill_null(False)
        | pl.col(name).eq_missing(pl.col(f"{name}_new"))
        if old.schema[name].is_numeric()
        else pl.col(name).cast(pl.String, strict=False).eq_missing(pl.col(f"{name}_new").cast(pl.String, strict=False))
        if not old.schema[name].is_nested()
        else pl.col(name).eq_missing(pl.col(f"{name}_new"))
        for name in values
    ]
    different = both.filter(~pl.all_horizontal(equal)) if equal else both.clear()
    missing = old.join(new, on=key, how="anti", nulls_equal=True)
    added = new.join(old, on=key, how="anti", nulls_equal=True)
    print(
        f"{table:34} {both.height:>8,} rows in both {missing.height:>7,} missing {added.height:>7,} new "
        f"{different.height:>7,} different"
    )
    for words, rows in (("missing", missing), ("new", added)):
        if rows.height:
            print(f"  {words}: {count_by_group(rows)}")
    for row in different.head(SHOWN).iter_rows(named=True):
        named = ", ".join(f"{name}={row[name]}" for name in key)
        changed = [f"{name} {row[name]} -> {row[f'{name}_new']}" for name in values if row[name] != row[f"{name}_new"]]
        print(f"  {named}: {'; '.join(changed)[:200]}")
    return different.height


def main() -> int:
    """Compare the two homes that the command line names."""
    old, new = map(Path, sys.argv[1:3])
    return int(sum(compare(table, read_table(old, table), read_table(new, table)) for table in KEYS) > 0)


if __name__ == "__main__":
    sys.exit(main())
