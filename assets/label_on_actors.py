"""Label several shards at once on the profile's actors, so that the last chunks of one shard leave no actor idle.

Each shard is a Dagster run as ever, in a thread of its own; the chunks of all of them are in the actors' one queue,
those of earlier shards first.
"""

import logging
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial

import dagster as dg

from assets.automation import LABEL
from assets.runs import INTERRUPTED, Outcome, run_phase
from cpmi_dagster.errors import CpmiError, first_line
from cpmi_dagster.profiles.actors import RayActors
from cpmi_dagster.profiles.settings import Settings
from resources.dagster_home import open_side_by_side, wait_for_pool
from resources.language_models import LanguageModels
from resources.stage import GPU_POOL

LOG = logging.getLogger(__name__)


def with_actors(settings: Settings) -> Settings:
    """A profile that labels on several GPUs of this machine, with an actor for each; other profiles as they are."""
    own = settings.orchestration
    if own.ray is not None or own.gpus == 1:
        return settings
    ray = RayActors(actors=own.gpus)
    return settings.model_copy(update={"orchestration": own.model_copy(update={"ray": ray})})


def label_on_actors(
    definitions: dg.Definitions,
    settings: Settings,
    instance: dg.DagsterInstance,
    models: LanguageModels,
    shards: Sequence[str],
    selection: Sequence[str],
) -> Outcome:
    """Label shards, several at once; after a failure the shards in work are finished, and no other is begun.

    Args:
        definitions: of the profile; their models are `models`.
        instance: of the home; labeling waits for the runs that are at work there.
        selection: tables of the labeling phase.
    """
    outcome = Outcome()
    at_once = settings.orchestration.ray.shards_at_once if settings.orchestration.ray else 1
    wait_for_pool(instance, GPU_POOL)
    try:
        with open_side_by_side(settings, at_once) as several, ThreadPoolExecutor(at_once, "shard") as threads:
            label = partial(_label, definitions, settings, several, selection, outcome)
            try:
                with _ended_as_interrupted():
                    wait([threads.submit(label, shard) for shard in shards])
            except KeyboardInterrupt:
                threads.shutdown(wait=False, cancel_futures=True)
                models.stop_actors()
                return Outcome([INTERRUPTED])
    finally:
        # the actors leave their GPUs to what follows
        models.release()
    return outcome


def _label(
    definitions: dg.Definitions,
    settings: Settings,
    instance: dg.DagsterInstance,
    selection: Sequence[str],
    outcome: Outcome,
    shard: str,
) -> None:
    if outcome.failures:
        return
    try:
        outcome.add(run_phase(definitions, settings, instance, LABEL, [shard], selection))
    except CpmiError as error:
        outcome.failures.append(str(error))
    except Exception as error:
        LOG.exception("labeling shard %s failed", shard)
        outcome.failures.append(f"shard {shard}: {first_line(error)}")


@contextmanager
def _ended_as_interrupted() -> Iterator[None]:
    """Within the block, SIGTERM is an interrupt, as Dagster has it for a run in the main thread."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
