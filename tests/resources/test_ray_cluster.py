"""How many actors there are, and what each takes, by what a cluster has."""

import sys
from types import SimpleNamespace

import pytest

from cpmi_dagster.profiles.actors import RayActors
from cpmi_dagster.resources.workers.ray_cluster import resources_of_actor, room


@pytest.fixture
def cluster(monkeypatch):
    """`cluster(GPU=8, CPU=64)`: what Ray says that it has."""

    def has(**resources: float) -> None:
        monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(cluster_resources=lambda: resources))

    return has


@pytest.mark.parametrize(
    ("gpus_here", "wanted", "share"),
    [
        (8, {"actors": 8}, 1), (8, {"actors": 2}, 1), (8, {"actors": "max"}, 1),
        (2, {"actors": 4}, 0.5), (3, {"actors": 8}, 1 / 3), (0, {"actors": 2}, 0),
        (8, {"actors": 3, "num_gpus": 4}, 2), (8, {"actors": 2, "num_gpus": 4}, 4),
        (8, {"actors": 5, "num_gpus": 4}, 1), (8, {"actors": 16, "num_gpus": 4}, 0.5),
        (0, {"actors": 4, "address": "auto"}, 1),
    ],
)  # fmt: skip
def test_gpus_of_this_machine_are_shared_where_they_are_fewer(cluster, gpus_here, wanted, share):
    cluster(GPU=gpus_here, CPU=16)
    assert resources_of_actor(RayActors(**wanted)) == {"num_gpus": share, "num_cpus": 1}


@pytest.mark.parametrize(
    ("gpus", "wanted", "number"),
    [
        (8, {}, 8), (8, {"num_gpus": 0.1}, 64), (8, {"num_gpus": 4}, 2), (8, {"num_gpus": 0, "num_cpus": 4}, 16),
        (8, {"actors": 3}, 3), (0, {}, 1),
    ],
)  # fmt: skip
def test_as_many_actors_as_there_is_room_for_and_at_least_one(cluster, gpus, wanted, number):
    cluster(GPU=gpus, CPU=64)
    assert room(RayActors(address="auto", **wanted)) == number
