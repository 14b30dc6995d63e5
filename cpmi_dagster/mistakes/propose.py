"""All edits of an answer, in a seeded order that mixes the kinds and keeps the less likely mistakes for last.

propose("18", seed=0)  ->  19 (plus_minus_1), 16 (plus_minus_2), 20 (plus_minus_10_percent), 17, 20, 16, … -18
"""

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, zip_longest
from math import gcd

from cpmi_dagster.mistakes.numerals import (
    brace_arguments,
    is_plain_number,
    propose_fraction_swaps,
    propose_larger_changes,
    propose_number_changes,
)
from cpmi_dagster.mistakes.operators import (
    propose_bracket_changes,
    propose_finite_ends,
    propose_multiples,
    propose_operator_changes,
    propose_sign_changes,
)
from cpmi_dagster.mistakes.proposal import Proposal
from cpmi_dagster.mistakes.words import propose_letters, propose_phrases, propose_words

Proposer = Callable[[str], Iterator[Proposal]]

LIKELY: tuple[Proposer, ...] = (
    propose_operator_changes,
    propose_number_changes,
    propose_fraction_swaps,
    propose_bracket_changes,
    propose_words,
    propose_letters,
)
LAST_RESORTS: tuple[Proposer, ...] = (propose_larger_changes, propose_multiples, propose_phrases, propose_finite_ends)
_FRACTION = re.compile(r"frac\{-?(\d+)\}\{-?(\d+)\}|(\d+)/(\d+)")


def propose(answer: str, seed: int) -> Iterator[Proposal]:
    """Edits of an answer, each text once, the answer itself never.

    Args:
        answer: Gold answer.
        seed: Decides the order among edits of one kind, and of the kinds.
    """
    text = brace_arguments(answer.strip())
    rng = random.Random(f"{seed}:{answer}")
    sign_is_likely = not is_plain_number(text) or text.startswith("-")
    likely = [*LIKELY, propose_sign_changes] if sign_is_likely else [*LIKELY]
    rest = LAST_RESORTS if sign_is_likely else (*LAST_RESORTS, propose_sign_changes, _propose_negatives)
    offered = [proposal for proposer in likely for proposal in proposer(text)]
    unreduced = [proposal for proposal in offered if _has_unreduced_fraction(proposal.answer)]
    first = [proposal for proposal in offered if proposal not in unreduced]
    last = [proposal for proposer in rest for proposal in proposer(text)]
    seen = {answer, text}
    for proposal in chain(_mixed(first, rng), _mixed(unreduced, rng), _mixed(last, rng)):
        if proposal.answer not in seen:
            seen.add(proposal.answer)
            yield proposal


def _mixed(proposals: Iterable[Proposal], rng: random.Random) -> Iterator[Proposal]:
    """One proposal of each heuristic in turn."""
    by_heuristic: dict[str, list[Proposal]] = defaultdict(list)
    for proposal in proposals:
        by_heuristic[proposal.heuristic].append(proposal)
    queues = list(by_heuristic.values())
    rng.shuffle(queues)
    for queue in queues:
        rng.shuffle(queue)
    for round_ in zip_longest(*queues):
        yield from (proposal for proposal in round_ if proposal is not None)


def _has_unreduced_fraction(answer: str) -> bool:
    r"""Whether some fraction of numbers, like `\frac{2}{4}`, would have been reduced."""
    parts = (tuple(int(part) for part in found.groups() if part) for found in _FRACTION.finditer(answer))
    return any(gcd(*part) != 1 for part in parts)


def _propose_negatives(answer: str) -> Iterator[Proposal]:
    """For numbers near zero: the values below it."""
    if answer in {"0", "1"}:
        yield from (Proposal(str(int(answer) - step), f"plus_minus_{step}") for step in (1, 2) if int(answer) < step)
