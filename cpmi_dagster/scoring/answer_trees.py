"""Token trees of questions, in windows of whole questions; a window is built while the model reads the previous one.

trajectories of q1 (20), q2 (15), q3 (9)  ->  windows q1 + q2 (35), q3 (9)

The tree of a question has the branches of all its trajectories: every context, followed by every answer.

    t1, template 0, prefix/1, gold    ->    [BOS] question | step 0 | step 1 | "The answer is: 72"
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, product
from typing import NamedTuple, TypeVar

import polars as pl

from cpmi_dagster.contracts.tables import AnswerLogprobs
from cpmi_dagster.models.tokens import TokenIds
from cpmi_dagster.scoring.tokenization import TokenizedTrajectory
from cpmi_dagster.tree_forward.trees import ROOT, GrowingTree, TokenTree

WINDOW_TRAJECTORIES = 32
LARGEST_WINDOW = 8 * WINDOW_TRAJECTORIES
TARGET_SCHEMA = (
    AnswerLogprobs.create_empty().select("trajectory_id", "context", "step_index", "answer_rank", "token_count").schema
)
Item = TypeVar("Item")


class AnswerTree(NamedTuple):
    """The tree of a question under a template, and its targets.

    Attributes:
        tree: its places predict the tokens of the targets, one target after the other.
        targets: trajectory_id, context, step_index, answer_rank, token_count, template.
    """

    tree: TokenTree
    targets: pl.DataFrame


@dataclass(frozen=True)
class Window:
    """Trajectories of some questions, ready to be scored.

    Attributes:
        size: number of trajectories, rejected ones included.
        trajectories: the others, tokenised.
        trees: one per question and template; none for the reference scorer.
    """

    size: int
    trajectories: Sequence[TokenizedTrajectory]
    trees: Sequence[AnswerTree]


def slices(trajectories: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Split trajectories by whole questions, about `WINDOW_TRAJECTORIES` each; larger questions at `LARGEST_WINDOW`.

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


def trees_of(trajectories: Iterable[TokenizedTrajectory]) -> list[AnswerTree]:
    """A tree per question and template; branches are built once for all templates."""
    groups: dict[tuple[int, tuple[TokenIds, ...]], list[TokenizedTrajectory]] = {}
    for trajectory in trajectories:
        groups.setdefault((trajectory.first_template, trajectory.prompts), []).append(trajectory)
    return [
        AnswerTree(branches.under(prompt), targets.with_columns(pl.lit(template, pl.Int64).alias("template")))
        for (first, prompts), group in groups.items()
        for branches, targets in [_grow_branches(group)]
        for template, prompt in enumerate(prompts, first)
    ]


def _grow_branches(trajectories: Iterable[TokenizedTrajectory]) -> AnswerTree:
    """Every target of the trajectories under each context, without the question."""
    growing = GrowingTree()
    targets: list[tuple[str, str, int, int, int]] = []
    for trajectory in trajectories:
        ends: dict[tuple[int, ...], int] = {}
        for context in trajectory.contexts:
            steps = tuple(context.steps(len(trajectory.steps)))
            # a prefix is a shorter prefix and a step: its path continues that of the shorter one
            node = ends.get(steps[:-1])
            for step in steps if node is None else steps[-1:]:
                node = growing.extend(ROOT if node is None else node, trajectory.steps[step])[-1]
            ends[steps] = node = ROOT if node is None else node
            for rank, target in trajectory.targets_under(context).items():
                targets.append((trajectory.trajectory_id, context.kind, context.step_index, rank, len(target)))
                growing.places += growing.extend(node, target[:-1])
                growing.predicted += target
    return AnswerTree(growing.in_preorder(), pl.DataFrame(targets, schema=TARGET_SCHEMA, orient="row"))


def written_out(
    trajectories: Sequence[TokenizedTrajectory],
) -> Iterator[tuple[tuple[str, int, str, int, int], TokenIds, TokenIds]]:
    """Every sequence to score.

    Yields:
        Key (trajectory_id, template, context, step_index, answer_rank), context token ids, target token ids.
    """
    for trajectory in trajectories:
        templates = enumerate(trajectory.prompts, trajectory.first_template)
        for (template, prompt), context in product(templates, trajectory.contexts):
            before = (*prompt, *chain.from_iterable(trajectory.context_steps(context)))
            for rank, target in trajectory.targets_under(context).items():
                key = (trajectory.trajectory_id, template, context.kind, context.step_index, rank)
                yield key, before, target


def prefetch(items: Iterator[Item]) -> Iterator[Item]:
    """The same items, each computed in a thread while the previous one is used."""
    done = object()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="ahead") as worker:
        following = worker.submit(next, items, done)
        while (item := following.result()) is not done:
            following = worker.submit(next, items, done)
            yield item  # type: ignore[misc]
