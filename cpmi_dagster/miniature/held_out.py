"""Which questions the miniature world keeps for itself, so that its language models never train on them.

A question's own text decides, by a hash: one question in four is held out. The world is drawn from those only, whatever
its seed; training documents are drawn from the others only. So the two cannot meet.
"""

import hashlib
import random
from collections.abc import Callable

from cpmi_dagster.miniature.plans import Problem

HELD_OUT_SHARE = 4


def is_held_out(question: str) -> bool:
    """Whether a question belongs to the world rather than to its models' training text."""
    digest = hashlib.sha256(question.encode()).digest()
    return digest[0] % HELD_OUT_SHARE == 0


def draw_held_out(make: Callable[[random.Random], Problem], rng: random.Random) -> Problem:
    """The next problem from `make` whose question is held out."""
    while not is_held_out((problem := make(rng)).question):
        pass
    return problem


def draw_for_training(make: Callable[[random.Random], Problem], rng: random.Random) -> Problem:
    """The next problem from `make` whose question is not held out."""
    while is_held_out((problem := make(rng)).question):
        pass
    return problem
