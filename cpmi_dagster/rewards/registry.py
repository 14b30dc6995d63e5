"""The registry of reward types, and what several of them need together.

A new reward type is a formula and an entry beside it, in `methods`, `variants`, `first_error` or
`controls`. Profiles, costs, soft
labels, the plan and the reports read everything about it from here; no other module tests a reward type's name.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

import polars as pl

from cpmi_dagster.contracts.contexts import CONDITIONINGS, Conditioning
from cpmi_dagster.contracts.registries import by_name
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.text import did_you_mean
from cpmi_dagster.rewards.controls import CONTROLS
from cpmi_dagster.rewards.first_error import TOGETHER
from cpmi_dagster.rewards.methods import METHODS
from cpmi_dagster.rewards.reward_type import DEFAULT, EVERY, Demand, RewardType
from cpmi_dagster.rewards.variants import VARIANTS

REWARD_TYPES: dict[str, RewardType] = by_name((*METHODS, *VARIANTS, *TOGETHER, *CONTROLS))
"""Every reward type by name, in the order in which tables and plots list them."""


def reward_type(name: str) -> RewardType:
    """The entry of a reward type.

    Raises:
        SettingsError: there is no such reward type; the message lists them.
    """
    if name not in REWARD_TYPES:
        raise SettingsError(
            f"`{name}` is not a reward type{did_you_mean(name, REWARD_TYPES)}; choose from {', '.join(REWARD_TYPES)}"
        )
    return REWARD_TYPES[name]


def demand_of(
    types: Iterable[str], default_conditioning: Conditioning, negatives: int, asked: Sequence[Conditioning] = ()
) -> Demand:
    """What some reward types need together.

    CPMI with few negatives (appendix D.1) needs all M, since their scores tell which are the hardest.

    Args:
        types: names of reward types.
        default_conditioning: conditioning of types that name none.
        negatives: the profile's M.
        asked: further conditionings to score.
    """
    wanted = Demand(tuple(asked), EVERY if asked else 0)
    total = reduce(or_, (reward_type(name).demand for name in types), wanted)
    named = {default_conditioning if name == DEFAULT else name for name in total.conditionings}
    in_order = tuple(name for name in CONDITIONINGS if name in named)
    return replace(total, conditionings=in_order, negatives=0 if total.negatives == 0 else negatives)


def reward_label(name: str) -> str:
    """The label of a reward type in tables; user-supplied labels keep their name."""
    return REWARD_TYPES[name].label if name in REWARD_TYPES else name


def listing_place(column: str) -> pl.Expr:
    """The position of a reward type in tables and plots; user-supplied labels come last."""
    places = {name: place for place, name in enumerate(REWARD_TYPES)}
    return pl.col(column).replace_strict(places, default=len(places), return_dtype=pl.Int64)


def comes_with_data(name: str) -> bool:
    """Whether labels come with the corpus or from the user."""
    return name not in REWARD_TYPES or REWARD_TYPES[name].kind == "corpus"
