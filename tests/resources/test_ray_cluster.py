"""How many actors there are, and what each takes, by what a cluster has."""

import sys
from types import SimpleNamespace

import pytest

from cpmi_dagster.profiles.actors import RayActors
from cpmi_dagster.resources.ray_cluster import resources_of_actor, room


@pytest.fixture
def cluster(monkeypatch):
    """`cluster(GPU=8, CPU=64)`: what Ray says that it has."""

    def has(**resources: float) -> None:
        monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(cluster_resources=lambda: resources))

    return has


@pytest.mark.parametrize(
    ("gpus_here", "actors", "share"), [(8, 8, 1), (8, 2, 1), (8, "max", 1), (2, 4, 0.5), (3, 8, 1 / 3), (0, 2, 0)]
)
def test_gpus_of_this_machine_are_shared_where_they_are_fewer_than_actors(cluster, gpus_here, actors, share):
    cluster(GPU=gpus_here, CPU=16)
    assert resources_of_actor(RayActors(actors=actors)) == {"num_gpus": share, "num_cpus": 1}


@pytest.mark.parametrize(("actors", "share"), [(3, 2), (2, 4), (5, 1), (16, 0.5)])
def test_actors_of_several_gpus_have_whole_ones_though_these_are_fewer(cluster, actors, share):
    cluster(GPU=8.0, CPU=16)
    assert resources_of_actor(RayActors(actors=actors, num_gpus=4))["num_gpus"] == share


def test_a_cluster_has_to_have_the_gpus_that_are_asked_for(cluster):
    cluster(CPU=16)
    assert resources_of_actor(RayActors(address="auto", actors=4))["num_gpus"] == 1


@pytest.mark.parametrize(
    ("wanted", "number"),
    [({}, 8), ({"num_gpus": 0.1}, 64), ({"num_gpus": 4}, 2), ({"num_gpus": 0, "num_cpus": 4}, 16), ({"actors": 3}, 3)],
)
def test_as_many_actors_as_there_is_room_for(cluster, wanted, number):
    cluster(GPU=8, CPU=64)
    assert room(RayActors(address="auto", **wanted)) == number


def test_a_cluster_without_room_is_asked_for_one_actor(cluster):
    cluster(CPU=2)
    assert room(RayActors(address="auto")) == 1
