"""The token tree of a question: it has every distinct prefix of its contexts and answers once.

Question `q`, one step `s`, answers `a b` and `a c` under the contexts q and q s; a target's last token is only
predicted, never read, so it is not a node:

    node      0    1    2    3
    token     q    a    s    a          q ── a            predicts b, c
    depth     0    1    1    2          └─ s ── a         predicts b, c
    end       4    2    4    4

Nodes are in preorder, so the descendants of j are the nodes from j + 1 to end[j] - 1, and node i may attend to j
exactly when `j <= i < end[j]`: the same test for one tree and for many side by side.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cpmi_dagster.contracts.tables import AnswerLogprobs
from cpmi_dagster.models.tokens import TokenIds
from cpmi_dagster.scoring.admission import TokenizedTrajectory

Integers = NDArray[np.int64]

ROOT = -1
TARGET_SCHEMA = (
    AnswerLogprobs.create_empty().select("trajectory_id", "context", "step_index", "answer_rank", "token_count").schema
)


@dataclass(frozen=True)
class TokenTree:
    """Nodes in preorder, and where the tokens of each target are predicted.

    Attributes:
        tokens: token id of each node, [nodes].
        depth: tokens before it on its branch, [nodes]; its position id.
        end: index after its last descendant, [nodes].
        targets: one row per target: trajectory_id, context, step_index, answer_rank, token_count.
        predictors: node that predicts each target token, targets one after the other, [target tokens].
        predicted: token id it predicts, [target tokens].
    """

    tokens: Integers
    depth: Integers
    end: Integers
    targets: pl.DataFrame
    predictors: Integers
    predicted: Integers

    def __len__(self) -> int:
        """Nodes."""
        return len(self.tokens)

    @cached_property
    def by_predictor(self) -> Integers:
        """Target tokens in the order of the nodes that predict them, [target tokens]."""
        return np.argsort(self.predictors, kind="stable")

    def under(self, prompt: TokenIds, template: int) -> "TokenTree":
        """The tree of these branches below a prompt, whose last token becomes their root; targets gain `template`.

        Args:
            prompt: token ids of BOS, template and question; at least one.
        """
        shift = len(prompt)
        size = shift + len(self)
        return TokenTree(
            tokens=np.concatenate([np.array(prompt, np.int64), self.tokens]),
            depth=np.concatenate([np.arange(shift), self.depth + shift]),
            end=np.concatenate([np.full(shift, size), self.end + shift]),
            targets=self.targets.with_columns(pl.lit(template, pl.Int64).alias("template")),
            predictors=self.predictors + shift,
            predicted=self.predicted,
        )


def grow_branches(trajectories: Iterable[TokenizedTrajectory]) -> TokenTree:
    """Branches of all trajectories of a question, without the question itself.

    Returns:
        Nodes whose first would follow the question's last token; predictor -1 is that token.
    """
    branches = _Branches()
    for trajectory in trajectories:
        branches.add(trajectory)
    return branches.in_preorder()


class _Branches:
    """Nodes in the order they are added; a parent always precedes its children."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.targets: list[tuple[str, str, int, int, int]] = []
        self.predictors: list[int] = []
        self.predicted: list[int] = []
        self._children: dict[tuple[int, int], int] = {}

    def add(self, trajectory: TokenizedTrajectory) -> None:
        """Add every target of a trajectory under each of its contexts."""
        ends: dict[tuple[int, ...], int] = {}
        for context in trajectory.contexts:
            steps = tuple(context.steps(len(trajectory.steps)))
            # a prefix is a shorter prefix and a step: its path starts where that one ended
            node = ends.get(steps[:-1])
            for step in steps if node is None else steps[-1:]:
                node = self._path(ROOT if node is None else node, trajectory.steps[step])[-1]
            ends[steps] = node = ROOT if node is None else node
            for rank, target in trajectory.targets_under(context).items():
                key = (trajectory.trajectory_id, context.kind, context.step_index, rank)
                self.targets.append((*key, len(target)))
                self.predictors += self._path(node, target[:-1])
                self.predicted += target

    def _path(self, node: int, tokens: Sequence[int]) -> list[int]:
        """The nodes from `node` along the tokens, both ends included; missing ones are added."""
        path = [node]
        for token in tokens:
            child = self._children.setdefault((node, token), len(self.tokens))
            if child == len(self.tokens):
                self.tokens.append(token)
                self.parents.append(node)
            path.append(child)
            node = child
        return path

    def in_preorder(self) -> TokenTree:
        """The tree with every subtree in consecutive nodes."""
        parents = self.parents
        count = len(parents)
        # one cell more than there are nodes: the last one, at index ROOT, is the question's last token
        sizes, depth, place, free = ([value] * (count + 1) for value in (1, -1, ROOT, 0))
        for node in range(count - 1, -1, -1):
            sizes[parents[node]] += sizes[node]
        for node in range(count):
            depth[node] = depth[parents[node]] + 1
            place[node] = free[parents[node]]
            free[parents[node]] += sizes[node]
            free[node] = place[node] + 1
        places = np.array(place, np.int64)
        order = np.argsort(places[:count])
        return TokenTree(
            tokens=np.array(self.tokens, np.int64)[order],
            depth=np.array(depth[:count], np.int64)[order],
            end=(places[:count] + np.array(sizes[:count], np.int64))[order],
            targets=pl.DataFrame(self.targets, schema=TARGET_SCHEMA, orient="row"),
            predictors=places[np.array(self.predictors, np.int64)],
            predicted=np.array(self.predicted, np.int64),
        )
