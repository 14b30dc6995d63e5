"""How the rewards of a shard are distributed, as a Markdown table that is small enough for every run's record.

| reward type | steps | mean | 5 % | median | 95 % | from smallest to largest |
|---|---|---|---|---|---|---|
| cpmi | 838 | 0.031 | -0.21 | 0.02 | 0.35 | ▁▂▅█▃▁▁▁ |
"""

import polars as pl

from cpmi_dagster.files.text import in_markdown

BARS = "▁▂▃▄▅▆▇█"
BINS = 16
HEAD = "| reward type | steps | mean | 5 % | median | 95 % | from smallest to largest |\n|---|---|---|---|---|---|---|"


def reward_summary(rewards: pl.DataFrame) -> str:
    """Mean, quantiles and a histogram of each reward type.

    Args:
        rewards: `reward_type`, `reward` in the type's own unit.
    """
    rows = []
    for (name,), part in sorted(rewards.drop_nulls("reward").partition_by("reward_type", as_dict=True).items()):
        values = part["reward"]
        numbers = (values.mean(), *(values.quantile(share) for share in (0.05, 0.5, 0.95)))
        figures = " | ".join(f"{number:.3g}" for number in numbers)
        rows.append(f"| {in_markdown(name)} | {values.len():,} | {figures} | {histogram(values)} |")
    return "\n".join([HEAD, *rows])


def histogram(values: pl.Series, bins: int = BINS) -> str:
    """Bars of equal width from the smallest value to the largest; the fullest is the highest. One value is one bar."""
    least, most = float(values.min()), float(values.max())  # pyright: ignore[reportArgumentType]
    if least == most:
        return BARS[-1]
    place = ((values - least) / (most - least) * bins).floor().clip(0, bins - 1).cast(pl.Int64)
    counts = dict(place.value_counts().iter_rows())
    fullest = max(counts.values())
    heights = (counts.get(number, 0) / fullest * (len(BARS) - 1) for number in range(bins))
    # a dot for none, since Markdown joins spaces; the lowest bar for a few
    return "".join(BARS[round(height)] if height else "·" for height in heights)
