"""Connect to Ray: started here for the length of a run, or a cluster that runs already."""

import logging
import os
import signal
import threading
from importlib.util import find_spec
from math import ceil, floor
from pathlib import Path
from typing import Any

from cpmi_dagster.errors import ActorError, first_line
from cpmi_dagster.profiles.actors import RayActors

LOCAL = "local"
PACKAGE = Path(__file__).parents[2]
ROUNDING = 1e-6


def connect(actors: RayActors) -> bool:
    """Connect this process to Ray, whose actors then run the code of this package as it is here.

    With `address: local`, Ray has no dashboard and listens on the loopback alone; its calls carry a token.

    Returns:
        Whether this call connected it; False where it was connected before.

    Raises:
        ActorError: Ray is not installed, or the cluster does not answer.
    """
    if find_spec("ray") is None:
        raise ActorError(
            "`orchestration.ray`, and `orchestration.gpus` above 1, need Ray; run `pip install cpmi-dagster[ray]`"
        )
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    options: dict[str, Any] = {"runtime_env": {"py_modules": [str(PACKAGE)]}}
    if actors.address == LOCAL:
        # read when Ray is imported: without clusters it keeps to 127.0.0.1
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        options |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        if actors.actors != "max":
            # as many as are asked for run at once, also where there are fewer processors
            options["num_cpus"] = max(os.cpu_count() or 1, round(actors.actors * actors.num_cpus))
    import ray

    if ray.is_initialized():
        return False
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=actors.address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise ActorError(
            f"orchestration.ray.address: `{actors.address}` cannot be reached ({first_line(error)}); start Ray there, "
            "correct the address, or set RAY_AUTH_MODE=token where the cluster asks for its token"
        ) from error
    finally:
        # Ray sets a handler of its own, without a setting to keep ours
        if on_sigterm is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_sigterm)
    return True


def resources_of_actor(actors: RayActors) -> dict[str, float]:
    """What each actor takes of its node; the GPUs of this machine are shared where they are fewer, if there are any.

    A share of one is one part of a whole number of parts; more than one are whole GPUs, since Ray gives no other.
    """
    import ray

    gpus = actors.num_gpus
    if actors.address == LOCAL:
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
