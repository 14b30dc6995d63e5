"""Tokens to seconds, against figures worked out by hand."""

import pytest
from planning_examples import CARD

from cpmi_dagster.planning.durations import Work
from cpmi_dagster.planning.shapes import ModelShape

# 2 layers of 4 query heads and 2 key heads of 16; a body of a million parameters, a head of 100,000; float32
SHAPE = ModelShape(1_000_000, 100_000, 1_200_000, 2, 64, 64, "float32", 4096)


def test_a_forward_pass_takes_its_flops_over_what_the_card_reaches():
    # 2 x 1e6 x 1000 + 4 x 2 x 64 x 50,000 + 2 x 1e5 x 10 = 2.0276e9 FLOP at 0.5e12 FLOP/s
    work = Work(read_tokens=1000, read_attended=50_000, projected=10)
    assert work.read_seconds(SHAPE, CARD) == pytest.approx(2.0276e9 / 0.5e12)


def test_a_small_batch_waits_for_memory():
    # 4.8e6 bytes of weights for each of 100 / 4 passes, 2 x 64 x 4 bytes for each of 6,000 positions, at 1e9 B/s
    work = Work(generated_tokens=100, generated_attended=6_000, sequences=4)
    moved = 4.8e6 * 25 + 512 * 6_000
    assert work.generation_seconds(SHAPE, CARD, 256) == pytest.approx(moved / 1e9 / 0.25)
    assert work.generation_seconds(SHAPE, CARD, 2) > work.generation_seconds(SHAPE, CARD, 4)


def test_a_large_batch_waits_for_arithmetic():
    # 2 x 1.1e6 x 1e6 = 2.2e12 FLOP at 1e12 FLOP/s; the weights are read 1e6 / 1e5 times: 4.8e7 bytes
    work = Work(generated_tokens=1_000_000, sequences=100_000)
    assert work.generation_seconds(SHAPE, CARD, 100_000) == pytest.approx(2.2 / 0.25)


def test_generated_tokens_count_as_forward_tokens_too():
    cost = Work(read_tokens=70, generated_tokens=30, sequences=3).cost(SHAPE, CARD, 256)
    assert (cost.forward_tokens, cost.generated_tokens) == (100, 30)
    assert Work().cost(SHAPE, CARD, 256).wall_seconds == 0


def test_work_adds_up():
    one, other = Work(read_tokens=10, projected=1), Work(read_tokens=5, generated_tokens=2, sequences=8)
    assert one + other == Work(read_tokens=15, projected=1, generated_tokens=2, sequences=8)
