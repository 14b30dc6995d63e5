"""Dagster's pools: a run waits until one has a free slot, and slots of runs that were killed are freed."""

import logging
import time
from pathlib import Path

import dagster as dg

from cpmi_dagster.errors import CpmiError
from cpmi_dagster.resources.run_life import end_dead_runs, free_slots_of_ended_runs

LOG = logging.getLogger(__name__)


def wait_for_pool(instance: dg.DagsterInstance, pool: str, folder: Path) -> None:
    """Wait until a pool has a free slot. Dagster would wait without a message, and for runs that were killed.

    Args:
        folder: the home's `dagster`.

    Raises:
        CpmiError: the wait was interrupted.
    """
    warned = False
    try:
        while _is_full(instance, pool):
            if not warned:
                LOG.warning("another run on this home is at work; waiting for it to end (Ctrl-C ends the wait)")
                warned = True
            time.sleep(1)
            end_dead_runs(instance, folder)
            free_slots_of_ended_runs(instance, instance.event_log_storage.get_concurrency_info(pool).active_run_ids)
    except KeyboardInterrupt:
        raise CpmiError("interrupted while another run on this home was at work; run again when it has ended") from None


def _is_full(instance: dg.DagsterInstance, pool: str) -> bool:
    state = instance.event_log_storage.get_concurrency_info(pool)
    return state.limit is not None and state.active_slot_count >= state.limit
