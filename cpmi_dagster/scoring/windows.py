"""Trajectories a window at a time: whole questions, built into trees while the model reads the previous window.

trajectories of q1 (20), q2 (15), q3 (9)  ->  windows q1 + q2 (35), q3 (9)
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import polars as pl

from cpmi_dagster.models.tokens import TokenIds
from cpmi_dagster.scoring.admission import TokenizedTrajectory
from cpmi_dagster.scoring.trees import TokenTree, grow_branches

WINDOW_TRAJECTORIES = 32
LARGEST_WINDOW = 8 * WINDOW_TRAJECTORIES
Item = TypeVar("Item")


@dataclass(frozen=True)
class Window:
    """Some trajectories, ready to be scored.

    Attributes:
        size: number of trajectories, refused ones included.
        trajectories: the admitted ones.
        refused: (trajectory_id, reason) of the others.
        trees: one per question and template of the admitted ones; none for the reference scorer.
    """

    size: int
    trajectories: Sequence[TokenizedTrajectory]
    refused: Sequence[tuple[str, str]]
    trees: Sequence[TokenTree]


class Scored(NamedTuple):
    """Log-probabilities of a window, as both scorers return them.

    Attributes:
        logprobs: columns of `labels.answer_logprobs`, in no particular order; sums may be NaN or infinite.
        forward_tokens: tokens that went through a forward pass.
    """

    logprobs: pl.DataFrame
    forward_tokens: int


def slices(trajectories: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Whole questions, `WINDOW_TRAJECTORIES` or a little more at a time; a question beyond `LARGEST_WINDOW` is divided.

    Args:
        trajectories: columns trajectory_id, question.
    """
    ordered = trajectories.sort("question", "trajectory_id")
    first = size = 0
    for count in ordered["question"].rle().struct.field("len"):
        size += count
        if size >= WINDOW_TRAJECTORIES:
            yield from ordered.slice(first, size).iter_slices(LARGEST_WINDOW)
            first, size = first + size, 0
    if size:
        yield ordered.slice(first, size)


def trees_of(trajectories: Sequence[TokenizedTrajectory]) -> list[TokenTree]:
    """A tree per question and template; a question's branches are built once for all templates."""
    groups: dict[tuple[int, tuple[TokenIds, ...]], list[TokenizedTrajectory]] = {}
    for trajectory in trajectories:
        groups.setdefault((trajectory.first_template, trajectory.prompts), []).append(trajectory)
    return [
        branches.under(prompt, template)
        for (first, prompts), group in groups.items()
        for branches in [grow_branches(group)]
        for template, prompt in enumerate(prompts, first)
    ]


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items, each computed in a thread while the previous one is used."""
    done = object()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="ahead") as worker:
        following = worker.submit(next, items, done)
        while (item := following.result()) is not done:
            following = worker.submit(next, items, done)
            yield item  # type: ignore[misc]
