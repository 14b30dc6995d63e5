"""Rates and time left, while a partition is made and after."""

import pytest

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.planning.hardware import peak_flops
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.pace import Pace, pace_of

TABLE = "labels/policy_rollouts"


def test_the_pace_is_that_of_what_this_run_made():
    pace = Pace(100, done=40).after(20, Cost(4.0, 2_000, 0)).after(20, Cost(6.0, 3_000, 100))
    assert (pace.done, pace.trajectories_per_second, pace.tokens_per_second) == (80, 4.0, 500.0)
    assert pace.seconds_left == 5.0
    assert str(pace) == "80 of 100 trajectories, 4 a second, 500 tokens a second, about 5 s left"
    assert pace.metadata() == {"trajectories_per_second": 4.0, "tokens_per_second": 500.0}


def test_before_the_first_chunk_nothing_is_foretold():
    pace = Pace(100, done=40)
    assert (pace.seconds_left, pace.metadata(), str(pace)) == (None, {}, "40 of 100 trajectories")


def test_the_pace_lies_beside_the_chunks_and_is_found_there(tmp_path):
    pace = Pace(100, peak_share=0.31).after(20, Cost(4.0, 2_000, 0, 3.5))
    lake = Lake(tmp_path, "miniature")
    chunks = lake.chunks(TABLE, "003", "1f0c")
    chunks.show(pace)
    assert chunks.pace == pace
    assert lake.paces(TABLE) == {"003": pace}
    assert "31% of the card's peak" in str(pace)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"total": 1, "cost": {}}', '{"total": 1, "cost": 3}'])
def test_a_damaged_pace_is_none(text):
    assert pace_of(text.encode()) is None


@pytest.mark.parametrize(
    ("device", "teraflops"),
    [
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA L40", None),
        ("NVIDIA L4", 121),
        ("NVIDIA GeForce RTX 4090", 165),
        ("NVIDIA GeForce RTX 3070 Laptop GPU", None),
        ("Tesla T4", None),
    ],
)
def test_a_card_is_known_by_the_name_of_its_driver(device, teraflops):
    assert peak_flops(device, "bfloat16") == (teraflops and teraflops * 1e12)
