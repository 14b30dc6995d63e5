"""Connect to Ray: started here for the length of a run, or a cluster that runs already."""

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from math import ceil, floor
from typing import Any

from cpmi_dagster.errors import ActorError, first_line
from cpmi_dagster.profiles.actors import RayActors

# read when Ray is imported: without clusters it keeps to 127.0.0.1, elsewhere it takes the network's address instead
WITHOUT_CLUSTERS = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
LOOPBACK = "127.0.0.1"
ROUNDING = 1e-6


def connect(actors: RayActors) -> bool:
    """Connect this process to Ray.

    Returns:
        Whether this call connected it; False where it was connected before.

    Raises:
        ActorError: Ray is not installed, or the cluster does not answer.
    """
    if find_spec("ray") is None:
        raise ActorError(
            "`orchestration.ray`, and `orchestration.gpus` above 1, need Ray; run `pip install cpmi-dagster[ray]`"
        )
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0"} | (WITHOUT_CLUSTERS if actors.address == "local" else {})
    import ray

    if ray.is_initialized():
        return False
    options = _options_here(actors) if actors.address == "local" else {}
    try:
        with _own_end():
            ray.init(address=actors.address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise ActorError(
            f"orchestration.ray.address: `{actors.address}` cannot be reached ({first_line(error)}); start Ray there, "
            "correct the address, or set RAY_AUTH_MODE=token where the cluster asks for its token"
        ) from error
    return True


@contextmanager
def _own_end() -> Iterator[None]:
    """Keep what this process does on SIGTERM, where this is its main thread: Ray's own handler aborts it."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _options_here(actors: RayActors) -> dict[str, Any]:
    """Ray on this machine alone: no dashboard, no address but the loopback's; calls carry a token by Ray's default."""
    options: dict[str, Any] = {"include_dashboard": False, "_node_ip_address": LOOPBACK}
    if actors.actors != "max":
        # as many as are asked for run at once, also where there are fewer processors
        options["num_cpus"] = max(os.cpu_count() or 1, round(actors.actors * actors.num_cpus))
    return options


def resources_of_actor(actors: RayActors) -> dict[str, float]:
    """What each actor takes of its node; the GPUs of this machine are shared where they are fewer, if there are any.

    A share of one is one part of a whole number of parts; more than one are whole GPUs, since Ray gives no other.
    """
    import ray

    gpus = actors.num_gpus
    if actors.address == "local":
        here = ray.cluster_resources().get("GPU", 0)
        wanted = 1 if actors.actors == "max" else actors.actors
        gpus = min(gpus, 1 / ceil(wanted / here) if wanted > here else here // wanted) if here else 0
    return {"num_gpus": gpus, "num_cpus": actors.num_cpus}


def room(actors: RayActors) -> int:
    """How many actors the profile asks for; with `max`, as many as the cluster has room for now, at least one."""
    if actors.actors != "max":
        return actors.actors
    import ray

    cluster, each = ray.cluster_resources(), resources_of_actor(actors)
    needs = [("GPU", each["num_gpus"]), ("CPU", each["num_cpus"])]
    fitting = [floor(cluster.get(kind, 0) / need + ROUNDING) for kind, need in needs if need]
    return max(1, min(fitting, default=1))
