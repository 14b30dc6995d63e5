"""The text of a plan: how its figures are counted or estimated, and a summary.

CPMI: 0.4 h on 8 x h100-80gb, $9.12; 0 % of MC's generated tokens, 3 % of its time
"""

from collections.abc import Iterator, Mapping
from typing import Any

from cpmi_dagster.planning.labeling import ROLES
from cpmi_dagster.planning.plan import BASE, EVERYTHING, Plan
from cpmi_dagster.profiles.settings import Settings

MILLION = 1_000_000
MANY_TOKENS = 100 * MILLION
TITLES = {"mc": "MC", "pav": "PAV", "cpmi": "CPMI", EVERYTHING: "Everything a run labels with"}


def many_tokens(plan: Plan) -> bool:
    """Whether the table counts tokens in millions."""
    return any(tokens >= MANY_TOKENS for tokens in plan.frame["forward_tokens"])


def cells(row: Mapping[str, Any], in_millions: bool) -> list[str]:
    """A method's row as text; ≈ marks estimates."""
    return [
        row["method"],
        count(row["forward_tokens"], row["forward_basis"], in_millions),
        count(row["generated_tokens"], row["generated_basis"], in_millions),
        percent(row["generated_share_of_mc"]),
        percent(row["time_share_of_mc"]),
        _hours(row["gpu_hours"]),
        duration(row["hours"]),
        dollars(row["usd"]),
        _basis(row),
    ]


def _basis(row: Mapping[str, Any]) -> str:
    if {row["forward_basis"], row["generated_basis"]} == {"exact"}:
        return "exact"
    error = row["sampling_error"]
    return "estimate" if error == 0 else f"± {percent(error)}" if error is not None else "± unknown"


def _hours(hours: float) -> str:
    if hours < 0.01:
        return "< 0.01"
    return f"{hours:,.2f}" if hours < 100 else f"{hours:,.0f}"


def count(tokens: int, basis: str, in_millions: bool) -> str:
    """Tokens, whole or in millions."""
    text = f"{tokens / MILLION:,.1f} M" if in_millions else f"{tokens:,}"
    return text if basis == "exact" else f"≈ {text}"


def closing(plan: Plan) -> list[str]:
    """A line on CPMI, or the first other method, compared with MC; and one on a run, which computes all rewards."""
    methods = [name for name in plan.frame["method"] if name not in (BASE, EVERYTHING)]
    chosen = "cpmi" if "cpmi" in methods else [*methods, BASE][0]
    return [_line(plan, chosen), _line(plan, EVERYTHING)]


def _line(plan: Plan, method: str) -> str:
    row = plan.row(method)
    line = f"{TITLES.get(method, method)}: {duration(row['hours'])} on {plan.gpus} x {plan.hardware.name}"
    if plan.hardware.card.usd_per_hour:
        line += f", {dollars(row['usd'])}"
    if method in (BASE, EVERYTHING):
        return line
    shares = percent(row["generated_share_of_mc"]), percent(row["time_share_of_mc"])
    return f"{line}; {shares[0]} of MC's generated tokens, {shares[1]} of its time"


def footnotes(plan: Plan, settings: Settings) -> Iterator[str]:
    """What is counted, what is estimated, and how."""
    for row in plan.frame.iter_rows(named=True):
        if row["also"]:
            yield f"At the price of {row['method']}: {', '.join(row['also'])}."
    yield "Forward tokens include the generated ones, as in labels.labeling_costs."
    if settings.rollouts.sample:
        yield f"Rollouts are planned for all trajectories; a run draws them for {settings.rollouts.sample:,} at most."
    yield from _estimates(plan, settings)
    for role in ROLES:
        if (model := settings.models.of(role)) and model.engine == "endpoint":
            yield f"The {role} is at an endpoint; its hours and price are those of the same model on this card."
    if plan.counted < plan.trajectories:
        yield (
            f"Counted on {plan.counted:,} of {plan.trajectories:,} trajectories, whole chunks drawn with seed "
            f"{settings.seed}, and scaled; ± is the 95 % interval of that. `--sample 0` counts them all."
        )
    card = plan.hardware.card
    price = f", {dollars(card.usd_per_hour)} an hour" if card.usd_per_hour else ""
    yield (
        f"Hours and prices are estimates: {card.about or plan.hardware.name}, {percent(card.forward_utilisation)} of "
        f"its matrix rate in forward passes, {percent(card.generation_utilisation)} of what binds in generation{price}."
        " Give your own with `--hardware FILE.yaml`."
    )


def _estimates(plan: Plan, settings: Settings) -> Iterator[str]:
    negatives, sampling = settings.negatives, settings.rollouts.sampling
    if ("hard_negatives", "generated") in plan.guesses:
        yield (
            f"≈ Hard negatives are not sampled yet: {negatives.samples} samples as long as the gold answer's line, at "
            f"most {negatives.sampling.max_new_tokens} tokens, are assumed; the token trees are counted with heuristic "
            "answers."
        )
    if plan.guesses & {("policy_rollouts", "generated"), ("prover_rollouts", "generated")}:
        yield (
            "≈ Rollouts are not made yet: a continuation is assumed to be as long as the steps that remain, at most "
            f"{sampling.max_new_tokens} tokens; a model that continues after its answer generates more."
        )


def duration(hours: float) -> str:
    """Hours in the unit that fits: 2.1 h, 14 min, 8 s."""
    if hours >= 1:
        return f"{hours:,.1f} h"
    return f"{hours * 60:.0f} min" if hours * 60 >= 1 else f"{hours * 3600:.2g} s"


def dollars(usd: float) -> str:
    """A price; cents only below 100 dollars, nothing for what is free."""
    if not usd:
        return ""
    if usd < 0.01:
        return "< $0.01"
    return f"${usd:,.2f}" if usd < 100 else f"${usd:,.0f}"


def percent(share: float) -> str:
    """A share in percent, with a decimal below ten."""
    decimals = 0 if share >= 0.0995 or not share else 1
    return f"{100 * share:,.{decimals}f} %"
