"""How much of its rows a file has, along axes of which a profile may ask for more or less.

    policy_rollouts   {"demand.policy_steps": 1, "rollouts.policy_count": 8}       T = 8 rollouts of the first prefix
    asked for         {"demand.policy_steps": None, "rollouts.policy_count": 8}    of all prefixes (None): not covered
    drawn             those of the other prefixes; the first's are kept

A number is how many, None is all, a list is which.
"""

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any

from pydantic_core import to_jsonable_python

from cpmi_dagster.contracts.keys import CONTROLS, LOGPROBS, NEGATIVES, POLICY_ROLLOUTS, PROVER_ROLLOUTS

Extent = Mapping[str, Any]

# by table, the settings that say how much of it is asked for
AXES = {
    NEGATIVES: ("demand.negatives",),
    LOGPROBS: ("demand.conditionings", "scoring.templates", "demand.negatives"),
    CONTROLS: ("demand.controls", "scoring.templates"),
    POLICY_ROLLOUTS: ("demand.policy_steps", "rollouts.policy_count"),
    PROVER_ROLLOUTS: ("demand.prover_steps", "rollouts.prover_count"),
}


def setting_values(paths: Iterable[str], settings: object) -> dict[str, Any]:
    """Settings by their dotted paths, as values that JSON can hold; along axes, how much a profile asks for."""
    return {path: to_jsonable_python(attrgetter(path)(settings), by_alias=False) for path in paths}


def covers(extent: Extent, asked: Extent) -> bool:
    """Whether a file has all that is asked for."""
    return all(_has(extent[axis], wanted) for axis, wanted in asked.items())


def widened(extent: Extent, asked: Extent) -> dict[str, Any]:
    """The least extent that covers both."""
    return {axis: _both(extent[axis], wanted) for axis, wanted in asked.items()}


def is_nothing(asked: Extent) -> bool:
    """Whether no row is asked for: an axis has none."""
    return any(wanted in (0, [], ()) for wanted in asked.values())


def _has(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return value is None or set(wanted) <= set(value)
    return value is None or (wanted is not None and value >= wanted)


def _both(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return None
    return [*one, *(name for name in other if name not in one)] if isinstance(one, list) else max(one, other)
