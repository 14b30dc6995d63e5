r"""How many trajectories to take of each cell, task x composition, so that two shares hold exactly.

              mixed   pure                target 40, gsm8k 1/2, mixed 7/10
    gsm8k       14      6   = 20          supply (30, 30, 9, 30)  ->  gsm8k (19, 1), math (9, 11)
    math        14      6   = 20
               = 28   = 12

Both margins are fixed; the cells between them start at the product of the shares and move as little as supply demands.
Where supply cannot meet the margins, the total shrinks to the largest one that it can.
"""

from collections.abc import Mapping
from fractions import Fraction
from math import lcm
from typing import NamedTuple

LARGEST_DENOMINATOR = 100


class Cell(NamedTuple):
    """One kind of trajectory."""

    is_gsm8k: bool
    is_mixed: bool

    def __str__(self) -> str:
        """As messages name it: `GSM8K mixed`."""
        return f"{'GSM8K' if self.is_gsm8k else 'MATH'} {'mixed' if self.is_mixed else 'pure'}"


GSM8K_MIXED, GSM8K_PURE = Cell(True, True), Cell(True, False)
MATH_MIXED, MATH_PURE = Cell(False, True), Cell(False, False)
CELLS = (GSM8K_MIXED, GSM8K_PURE, MATH_MIXED, MATH_PURE)


class Shares(NamedTuple):
    """Share of GSM8K and share of mixed trajectories; 1 for a constraint that is lifted."""

    gsm8k: Fraction
    mixed: Fraction

    @property
    def step(self) -> int:
        """Both shares of any multiple of this are whole numbers."""
        return lcm(self.gsm8k.denominator, self.mixed.denominator)


def exact_share(share: float | None) -> Fraction:
    """A share as a fraction: 0.7 is 7/10."""
    return Fraction(1) if share is None else Fraction(share).limit_denominator(LARGEST_DENOMINATOR)


def choose_quotas(supply: Mapping[Cell, int], total: int, shares: Shares) -> dict[Cell, int]:
    """The largest quotas of at most `total` trajectories that keep the shares.

    Shares are rounded to whole trajectories only where `total` itself demands it, or where supply is smaller than the
    smallest set with exact shares.
    """
    # the wanted size, smaller ones with whole shares, then those below the first of these
    whole = range(total // shares.step * shares.step, 0, -shares.step)
    for size in (total, *whole, *range(min(total, shares.step) - 1, 0, -1)):
        if quotas := quotas_of_size(supply, size, shares):
            return quotas
    return dict.fromkeys(CELLS, 0)


def quotas_of_size(supply: Mapping[Cell, int], size: int, shares: Shares) -> dict[Cell, int] | None:
    """Quotas that add up to `size` with both shares, None where supply does not allow any."""
    gsm8k, mixed = round(shares.gsm8k * size), round(shares.mixed * size)
    lowest = max(0, gsm8k - supply[GSM8K_PURE], mixed - supply[MATH_MIXED], gsm8k + mixed - size)
    highest = min(supply[GSM8K_MIXED], gsm8k, mixed, supply[MATH_PURE] - size + gsm8k + mixed)
    if lowest > highest:
        return None
    both = min(max(round(shares.gsm8k * shares.mixed * size), lowest), highest)
    return {
        GSM8K_MIXED: both,
        GSM8K_PURE: gsm8k - both,
        MATH_MIXED: mixed - both,
        MATH_PURE: size - gsm8k - mixed + both,
    }


def name_shortfalls(supply: Mapping[Cell, int], total: int, shares: Shares, quotas: Mapping[Cell, int]) -> list[str]:
    """What is short of the wanted total and shares, one sentence each; empty if the quotas reach it."""
    reached = sum(quotas.values())
    if reached >= total:
        return []
    wanted = {
        "GSM8K": (round(shares.gsm8k * total), {GSM8K_MIXED, GSM8K_PURE}),
        "MATH": (total - round(shares.gsm8k * total), {MATH_MIXED, MATH_PURE}),
        "mixed": (round(shares.mixed * total), {GSM8K_MIXED, MATH_MIXED}),
        "pure": (total - round(shares.mixed * total), {GSM8K_PURE, MATH_PURE}),
        "all": (total, set(CELLS)),
    }
    found = []
    for name, (count, cells) in wanted.items():
        there = sum(supply[cell] for cell in cells)
        if there < count:
            found.append(f"{name} trajectories: {count} wanted, {there} there")
    if not found:
        counts = ", ".join(f"{cell} {supply[cell]}" for cell in CELLS)
        found.append(f"the combination of task and composition: there are {counts}")
    return [f"short of {shortage}; the selection shrinks from {total} to {reached}" for shortage in found]
