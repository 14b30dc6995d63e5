"""All edits of an answer, in a seeded order that mixes the kinds and keeps the less likely mistakes for last.

propose("18", seed=0)  ->  19 (plus_minus_1), 16 (plus_minus_2), 17 (plus_minus_1), 20 (plus_minus_2), … -18
"""

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import chain, zip_longest

from cpmi_dagster.negatives.mistakes.asked import Asked, is_possible, propose_rest, what_is_asked
from cpmi_dagster.negatives.mistakes.chains import is_chain, propose_chain_changes, propose_last_side
from cpmi_dagster.negatives.mistakes.digits import is_in_base, propose_digit_changes, propose_wider_digit_changes
from cpmi_dagster.negatives.mistakes.fraction_changes import propose_constant_swaps, propose_fraction_swaps
from cpmi_dagster.negatives.mistakes.intervals import propose_bracket_changes, propose_other_half_lines
from cpmi_dagster.negatives.mistakes.letters import propose_letters
from cpmi_dagster.negatives.mistakes.lists import propose_entry_swaps, propose_missing_entries
from cpmi_dagster.negatives.mistakes.multiples import propose_multiples, propose_term_multiples
from cpmi_dagster.negatives.mistakes.notation import brace_arguments, written_like
from cpmi_dagster.negatives.mistakes.number_changes import (
    propose_larger_changes,
    propose_negative_numbers,
    propose_number_changes,
    propose_single_changes,
    propose_wider_changes,
)
from cpmi_dagster.negatives.mistakes.numerals import is_plain_number
from cpmi_dagster.negatives.mistakes.operators import propose_operator_changes, propose_sign_changes
from cpmi_dagster.negatives.mistakes.plausible import is_nonsense, is_unpolished
from cpmi_dagster.negatives.mistakes.proposal import Proposal
from cpmi_dagster.negatives.mistakes.repeated import in_all_places
from cpmi_dagster.negatives.mistakes.words import propose_phrases, propose_words

CACHED_GOLDS = 1 << 14
LONGEST_ANSWER = 400

Proposer = Callable[[str], Iterator[Proposal]]
Tiers = tuple[tuple[Proposer, ...], ...]
"""Functions that propose edits of an answer: likely mistakes, two tiers of less likely ones, last resorts."""

USUAL: Tiers = (
    (propose_operator_changes, propose_number_changes, propose_fraction_swaps, propose_bracket_changes,
     propose_entry_swaps, propose_words, propose_letters),
    (propose_wider_changes, propose_constant_swaps, propose_other_half_lines, propose_missing_entries,
     propose_term_multiples),
    (propose_multiples, propose_single_changes, propose_phrases),
    (propose_larger_changes, propose_negative_numbers),
)  # fmt: skip
IN_BASE: Tiers = ((propose_digit_changes,), (propose_wider_digit_changes, propose_sign_changes))
CHAIN: Tiers = (
    (lambda answer: propose_chain_changes(answer, propose_number_changes),),
    (lambda answer: propose_chain_changes(answer, propose_wider_changes),),
    (lambda answer: propose_last_side(answer, propose_number_changes),),
)
_SIGNED = re.compile(r"[-+]|^\(.*,|^\\left\s*\(|matrix|(?<![A-Z]{2})=")
_WORDS = re.compile(r"\\(?:text\w*|mbox|mathrm)\{[^{}]*\}|\\[A-Za-z]+")


def propose(answer: str, seed: int, question: str = "") -> Iterator[Proposal]:
    """Edits of an answer, each text once, the answer itself never; none of a text too long to be an answer.

    The seed decides the order of the kinds, and of the edits of one kind. Edits that cannot answer the question, such
    as a probability above 1, come last of all.
    """
    stripped = answer.strip()
    if len(stripped) > LONGEST_ANSWER:
        return
    gold = brace_arguments(stripped)
    rng = random.Random(f"{seed}:{answer}".encode("utf-8", "surrogatepass"))
    seen = {answer, stripped, gold}
    for proposal in chain.from_iterable(_mixed(tier, rng) for tier in _tiers(gold, what_is_asked(question, stripped))):
        written = written_like(proposal.answer, stripped)
        if written not in seen:
            seen.add(written)
            yield Proposal(written, proposal.heuristic)


@lru_cache(maxsize=CACHED_GOLDS)
def _tiers(gold: str, asked: Asked) -> tuple[list[Proposal], ...]:
    """Likely mistakes, less likely ones, last resorts, edits that would have been simplified, impossible answers."""
    tiers: list[list[Proposal]] = []
    unpolished: list[Proposal] = []
    impossible: list[Proposal] = []
    for place, proposers in enumerate(_proposers(gold)):
        tiers.append([])
        of_question = propose_rest(gold, asked) if place == 0 else ()
        for edit, heuristic in chain(of_question, *(proposer(gold) for proposer in proposers)):
            proposal = Proposal(in_all_places(gold, edit), heuristic)
            if not is_possible(proposal.answer, asked):
                impossible.append(proposal)
            elif not is_nonsense(proposal.answer, gold):
                (unpolished if is_unpolished(proposal.answer, gold) else tiers[-1]).append(proposal)
    return (*tiers, unpolished, impossible)


def _proposers(gold: str) -> Tiers:
    if is_in_base(gold):
        return IN_BASE
    if is_chain(gold):
        return CHAIN
    place = 0 if _has_sign(gold) else 3 if is_plain_number(gold) else 1
    return (*USUAL[:place], (*USUAL[place], propose_sign_changes), *USUAL[place + 1 :])


def _has_sign(gold: str) -> bool:
    """Whether the answer has a sign, or is of a kind that often has: a point, a matrix, an equation, with letters."""
    return bool(_SIGNED.search(gold)) or bool(re.search(r"[a-z]", _WORDS.sub("", gold)))


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
