"""Shards side by side: what they yield, and what becomes of the others when one fails."""

import threading
from collections.abc import Iterator

import pytest

from cpmi_dagster.errors import ScoringError
from cpmi_dagster.resources.workers.side_by_side import side_by_side

LONG = 120
SHARDS = ["000", "001", "002", "003"]


def test_several_are_in_work_at_once_and_all_they_yield_arrives():
    together = threading.Barrier(2, timeout=LONG)

    def work(shard: str) -> Iterator[str]:
        for number in range(2):
            together.wait()
            yield f"{shard}/{number}"

    found = list(side_by_side(work, SHARDS, 2, lambda: None))
    assert sorted(found) == [f"{shard}/{number}" for shard in SHARDS for number in range(2)]
    assert found.index("000/0") < found.index("000/1")


@pytest.mark.parametrize("fails", [True, False])
def test_an_error_or_a_caller_that_leaves_stops_the_others(fails):
    stopped, other_has_begun, begun = threading.Event(), threading.Event(), []

    def work(shard: str) -> Iterator[str]:
        begun.append(shard)
        if shard == "000":
            yield shard
            assert other_has_begun.wait(LONG)
            if fails:
                raise ScoringError("trajectory t7 cannot be scored")
        other_has_begun.set()
        assert stopped.wait(LONG)

    found = side_by_side(work, SHARDS, 2, stopped.set)
    assert next(found) == "000"
    if fails:
        with pytest.raises(ScoringError, match="t7"):
            list(found)
    else:
        found.close()
    assert stopped.is_set() and len(begun) <= 3
