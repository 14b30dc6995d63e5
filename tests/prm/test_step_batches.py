"""Batches hold solutions of similar length, each solution once."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.prm.trainer import SimilarLengthSampler

lengths_of_solutions = st.lists(st.integers(1, 50), max_size=40)


@settings(deadline=None, max_examples=50)
@given(lengths_of_solutions, st.integers(1, 9))
def test_an_epoch_holds_every_example_once(lengths, batch_size):
    sampler = SimilarLengthSampler(lengths, batch_size)
    assert sorted(sampler) == list(range(len(lengths)))
    assert len(sampler) == len(lengths)


def test_training_batches_hardly_pad_and_come_in_random_order():
    lengths = np.random.default_rng(0).integers(60, 260, 288).tolist()
    order = list(SimilarLengthSampler(lengths, 16))
    longest = [max(lengths[index] for index in order[start : start + 16]) for start in range(0, 288, 16)]
    assert sum(longest) * 16 < 1.05 * sum(lengths)
    assert longest not in (sorted(longest), sorted(longest, reverse=True))


def test_seed_and_epoch_decide_the_order():
    def order(seed: int, epoch: int) -> list[int]:
        sampler = SimilarLengthSampler(list(range(40)), 4, seed)
        sampler.set_epoch(epoch)
        return list(sampler)

    assert order(1, 3) == order(1, 3)
    assert len({tuple(order(seed, epoch)) for seed in (1, 2) for epoch in (0, 1)}) == 4
