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
        # in sorted order the text with the longest common beginning is a neighbour of the prompt
        place = bisect_left(known, (prompt, 0))
        shared = [
            Beginning(donor, _common_length(prompt, text)) for text, donor in known[max(place - 1, 0) : place + 1]
        ]
        beginning = max(shared, key=lambda beginning: beginning.length, default=None)
        # a donor that took this beginning itself passes on the prompt that read it
        while beginning and (source := found[beginning.donor]) and source.length >= beginning.length:
            beginning = Beginning(source.donor, beginning.length)
        insort(known, (prompt, number))
        taken = None
        if beginning and beginning.length >= LEAST_SHARE * len(prompt):
            kept = donors | {beginning.donor}
            if sum(len(prompts[donor]) for donor in kept) <= most_tokens:
                donors, taken = kept, beginning
        found.append(taken)
    return found


def _common_length(one: TokenIds, other: TokenIds) -> int:
    """Length of the common beginning of two prompts, without the last token of the first."""
    most = min(len(one) - 1, len(other))
    return bisect_left(range(most), True, key=lambda index: one[: index + 1] != other[: index + 1])
