"""From which earlier prompt a prompt takes the keys and values of its beginning, so that shared text is read once.

    prompts in the order they are read     donor  length
    0  q s1 s2 s3                          -      0
    1  q s1 s2                             0      all of it but the last token, whose logits are needed
    2  q s4                                0      tokens of q
    3  p                                   -      0      p and q begin with the same template, but that is too little

A prompt's last token is always read: its samples are drawn from the logits behind it. Where less than half of a prompt
is shared, it does not wait for a donor.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import NamedTuple

from cpmi_dagster.models.tokens import TokenIds

LEAST_SHARE = 1 / 2


class Beginning(NamedTuple):
    """The first `length` tokens of a prompt are those of prompt number `donor`, which is read earlier."""

    donor: int
    length: int


def shared_beginnings(prompts: Sequence[TokenIds], most_tokens: int) -> list[Beginning | None]:
    """From which earlier prompt each prompt takes its longest common beginning.

    Args:
        prompts: token ids, in the order they are read.
        most_tokens: most tokens of prompts whose keys and values are kept for later ones.

    Returns:
        One entry a prompt; None where less than `LEAST_SHARE` of it is shared. A donor has read that beginning itself.
    """
    known: list[tuple[TokenIds, int]] = []
    found: list[Beginning | None] = []
    donors: set[int] = set()
    for number, prompt in enumerate(prompts):
        taken, beginning = None, _first_read(_longest(prompt, known), found)
        insort(known, (prompt, number))
        if beginning and beginning.length >= LEAST_SHARE * len(prompt):
            kept = donors | {beginning.donor}
            if sum(len(prompts[donor]) for donor in kept) <= most_tokens:
                donors, taken = kept, beginning
        found.append(taken)
    return found


def _longest(prompt: TokenIds, known: list[tuple[TokenIds, int]]) -> Beginning | None:
    """The longest beginning shared with a known text: in sorted order that text is a neighbour of the prompt."""
    place = bisect_left(known, (prompt, 0))
    neighbours = known[max(place - 1, 0) : place + 1]
    shared = [Beginning(number, _common_length(prompt, other)) for other, number in neighbours]
    return max(shared, key=lambda beginning: beginning.length, default=None)


def _first_read(beginning: Beginning | None, found: Sequence[Beginning | None]) -> Beginning | None:
    """The same beginning from the prompt that read it, where the donor took it from there itself."""
    while beginning and (source := found[beginning.donor]) and source.length >= beginning.length:
        beginning = Beginning(source.donor, beginning.length)
    return beginning


def _common_length(one: TokenIds, other: TokenIds) -> int:
    """Length of the common beginning of two prompts, without the last token of the first."""
    most = min(len(one) - 1, len(other))
    return bisect_left(range(most), True, key=lambda index: one[: index + 1] != other[: index + 1])
