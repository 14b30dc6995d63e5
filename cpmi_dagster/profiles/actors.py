"""Settings of the Ray actors that make chunks of labels.

orchestration: {ray: {address: local, actors: 8}}                      the eight GPUs of this machine
orchestration: {ray: {address: "ray://head:10001", actors: max}}       every GPU of a cluster, as they come and go
orchestration: {ray: {address: auto, num_gpus: 0.5, actors: 16}}       two actors on each of eight GPUs
"""

import re
from typing import Literal

from pydantic import Field, field_validator

from cpmi_dagster.contracts.frozen import Frozen

ADDRESS = re.compile(r"local|auto|ray://[^\s/@]+|[^\s/:@]+:\d+")


class RayActors(Frozen):
    """Processes that make chunks, each with models of its own, on this machine or on the nodes of a Ray cluster."""

    address: str = Field(
        default="local",
        description="local = Ray is started here for the run; auto = the cluster this machine is a node of; else "
        "ray://HOST:10001 or HOST:6379",
    )
    actors: int | Literal["max"] = Field(default="max", description="how many; max = as many as there is room for")
    num_gpus: float = Field(
        default=1, ge=0, description="GPUs of an actor, or its share of one; 0 on a cluster without GPUs"
    )
    num_cpus: float = Field(default=1, ge=0, description="processors of an actor; on a CPU, also its threads")
    shards_at_once: int = Field(
        default=4, ge=1, description="shards that a run labels at once; their chunks share the actors"
    )

    @field_validator("address")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        if not ADDRESS.fullmatch(value):
            raise ValueError("it must be `local`, `auto`, ray://HOST:PORT or HOST:PORT, without user or password")
        return value

    @field_validator("actors")
    @classmethod
    def _is_positive(cls, value: int | str) -> int | str:
        if value != "max" and int(value) < 1:
            raise ValueError("it must be at least 1, or `max`")
        return value

    @field_validator("num_gpus")
    @classmethod
    def _is_whole_or_a_share(cls, value: float) -> float:
        if value > 1 and value != int(value):
            raise ValueError("above one GPU, it must be a whole number")
        return value
