"""A proposed wrong answer and the heuristic that made it."""

from typing import NamedTuple


class Proposal(NamedTuple):
    """`answer` differs from the gold answer in text; whether it differs in value is for the caller to check."""

    answer: str
    heuristic: str
