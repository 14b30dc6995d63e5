"""The text of a plan: its figures as cells of a table, and how they are counted or estimated."""

from collections.abc import Iterator, Mapping
from typing import Any

from cpmi_dagster.planning.counting import ROLES
from cpmi_dagster.planning.plan import Plan
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.rewards.registry import reward_type

MILLION = 1_000_000
MANY_TOKENS = 100 * MILLION


def many_tokens(plan: Plan) -> bool:
    """Whether the table counts tokens in millions."""
    return any(tokens >= MANY_TOKENS for tokens in plan.frame["forward_tokens"])


def cells(row: Mapping[str, Any], in_millions: bool) -> list[str]:
    """A method's row as text; ≈ marks estimates."""
    error, basis = row["sampling_error"], "exact"
    if "estimate" in (row["forward_basis"], row["generated_basis"]):
        basis = "± unknown" if error is None else f"± {percent(error)}" if error else "estimate"
    hours = row["gpu_hours"]
    return [
        row["method"],
        count(row["forward_tokens"], row["forward_basis"], in_millions),
        count(row["generated_tokens"], row["generated_basis"], in_millions),
        percent(row["generated_share_of_mc"]),
        percent(row["time_share_of_mc"]),
        "< 0.01" if hours < 0.01 else f"{hours:,.2f}" if hours < 100 else f"{hours:,.0f}",
        duration(row["hours"]),
        dollars(row["usd"]),
        basis,
    ]


def footnotes(plan: Plan, settings: Settings) -> Iterator[str]:
    """What is counted, what is estimated, and how."""
    for row in plan.frame.iter_rows(named=True):
        if row["also"]:
            yield f"At the price of {row['method']}: {', '.join(row['also'])}."
    yield "Forward tokens include the generated ones, as in labels.labeling_costs."
    if controls := [name for name in settings.rewards.types if reward_type(name).needs.controls]:
        yield f"Not counted: {', '.join(controls)}, each of which takes about as long as CPMI or less."
    if settings.rollouts.sample:
        yield f"Rollouts are planned for all trajectories; a run draws them for {settings.rollouts.sample:,} at most."
    if plan.guesses:
        yield (
            f"≈ Not made yet: {', '.join(sorted(plan.guesses))}. A sampled negative is assumed to be as long as the "
            "gold answer's line, and token trees have heuristic ones; a rollout, as long as the steps that remain. A "
            "model that continues after its answer generates more."
        )
    for role in ROLES:
        if (model := settings.models.of(role)) and model.engine == "endpoint":
            yield f"The {role} is at an endpoint; its hours and price are those of the same model on this card."
    if plan.counted < plan.trajectories:
        yield (
            f"Counted on {plan.counted:,} of {plan.trajectories:,} trajectories, whole chunks drawn with seed "
            f"{settings.seed}, and scaled; ± is the 95 % interval of that. `--sample 0` counts them all."
        )
    card = plan.hardware
    price = f", {dollars(card.usd_per_hour)} an hour" if card.usd_per_hour else ""
    if plan.labelled:
        yield (
            f"Hours are scaled from what {plan.labelled:,} labelled trajectories of this home took. Price: "
            f"{card.about or card.name}{price}. With `--hardware`, hours are estimated for a card."
        )
    else:
        yield (
            f"Hours and prices are estimates: {card.about or card.name}, {percent(card.forward_utilisation)} of its "
            f"matrix rate in forward passes, {percent(card.generation_utilisation)} of what binds in generation{price}."
            " Name another, such as h100-80gb, or your own file with `--hardware`."
        )


def count(tokens: int, basis: str, in_millions: bool) -> str:
    """Tokens, whole or in millions."""
    text = f"{tokens / MILLION:,.1f} M" if in_millions else f"{tokens:,}"
    return text if basis == "exact" else f"≈ {text}"


def duration(hours: float) -> str:
    """Hours in the unit that fits: 2.1 h, 14 min, 8 s."""
    if hours >= 1:
        return f"{hours:,.1f} h"
    return f"{hours * 60:.0f} min" if hours * 60 >= 1 else f"{hours * 3600:.2g} s"


def dollars(usd: float) -> str:
    """A price; cents only below 100 dollars, nothing for what is free."""
    if 0 < usd < 0.01:
        return "< $0.01"
    return f"${usd:,.{2 if usd < 100 else 0}f}" if usd else ""


def percent(share: float) -> str:
    """A share in percent, with a decimal below ten."""
    decimals = 0 if share >= 0.0995 or not share else 1
    return f"{100 * share:,.{decimals}f} %"
