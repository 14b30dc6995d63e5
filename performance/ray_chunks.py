"""Chunks on Ray actors: what they cost beside this process, and how many chunks the driver can commit in a second.

    python performance/ray_chunks.py --profile miniature --actors 1 2 4 --home DIR
    | contestant | start-up s | labeling s | overhead |
    | actors | chunks/s | driver's processor s a chunk | actors it could feed |

First the labels of a profile: in this process, and on one actor with as many threads, each in a copy of the same home
in which everything before labeling is made. Then chunks that take no time, of as many rows as real ones, through the
stage's own machinery with its chunk store: the rate that the run sustains, and how many seconds a chunk has to take for
it to keep 512 actors at work.
"""

import argparse
import os
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import polars as pl
from rich.console import Console

from cpmi_dagster import definitions
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.keys import LOGPROBS, REJECTED_TRAJECTORIES
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.profiles.actors import RayActors
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.progress import LoggedProgress
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.lake.database import Database
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.resources.workers.chunks import Advance, ChunkRun, StageOutput
from cpmi_dagster.resources.workers.language_models import LanguageModels
from cpmi_dagster.resources.workers.ray_actors import Actors

BEFORE_LABELS = ("sources", "alignment", "selection")
MOST_ACTORS = 512
SHARDS = 4


def copied(own: ChunkRun, chunk: pl.DataFrame, advance: Advance, *, rows: pl.DataFrame) -> StageOutput:
    """Rows as many as a chunk of log-probabilities has, without the work of making them."""
    frames = {LOGPROBS: rows, REJECTED_TRAJECTORIES: TABLES[REJECTED_TRAJECTORIES].schema.create_empty()}
    return StageOutput(frames, "none", Cost.zero())


def with_ray(settings: Settings, ray: RayActors | None) -> Settings:
    """A profile with other actors."""
    return settings.model_copy(update={"orchestration": settings.orchestration.model_copy(update={"ray": ray})})


def label(settings: Settings) -> float:
    """Seconds that the labels of a home take."""
    began = time.perf_counter()
    console = Console(stderr=True)
    outcome = definitions.run_with_progress(settings, settings.shard_keys, ("labels",), False, console, quiet=True)
    if outcome.failures:
        raise SystemExit("; ".join(outcome.failures))
    return time.perf_counter() - began


def start_up(settings: Settings) -> float:
    """Seconds until an actor has made its first chunk, which needs no model."""
    actors = Actors(settings, LanguageModels(settings))
    began = time.perf_counter()
    _commit(settings, actors, "000", 1, TABLES[LOGPROBS].schema.create_empty())
    seconds = time.perf_counter() - began
    actors.stop()
    return seconds


def compare_labeling(settings: Settings, home: Path, threads: int) -> None:
    """Print the seconds of labeling in this process and on one actor."""
    one = RayActors(actors=1, num_cpus=threads, shards_at_once=1)
    print("| contestant | start-up s | labeling s | beside this process |\n|---|---|---|---|")
    alone = 0.0
    for name, ray in (("this process", None), ("one actor", one)):
        own = with_ray(settings.model_copy(update={"home": home / name.replace(" ", "-")}), ray)
        shutil.copytree(settings.home, own.home)
        starting = start_up(own) if ray else 0.0
        seconds = label(own)
        alone = alone or seconds
        print(f"| {name} | {starting:.1f} | {seconds:.1f} | {(seconds - starting) / alone - 1:+.1%} |", flush=True)


def _commit(settings: Settings, actors: Actors, shard: str, chunks: int, rows: pl.DataFrame) -> None:
    lake = Lake.of(settings)
    run = StageRun(
        "answer_logprobs", [LOGPROBS, REJECTED_TRAJECTORIES], settings, lake, LanguageModels(settings),
        DataSources(settings), Database(lake), LoggedProgress(), "r", lambda _: None,
        chunks=lake.chunks(LOGPROBS, shard, "rate"), actors=actors,
    )  # fmt: skip
    items = pl.DataFrame({"trajectory_id": [f"{shard}-{number}" for number in range(chunks)]})
    run.in_chunks(shard, items, 1, partial(copied, rows=rows))
    lake.chunks(LOGPROBS, shard, "rate").clear()


def measure_rate(settings: Settings, actors: Sequence[int], chunks: int, rows: pl.DataFrame) -> None:
    """Print how many chunks a second are made, sent and committed."""
    print(f"\nchunks of {rows.height:,} rows\n| actors | chunks/s | driver's processor s a chunk |", end="")
    print(f" seconds a chunk with which {MOST_ACTORS} actors are fed |\n|---|---|---|---|")
    for number in actors:
        own = with_ray(settings, RayActors(actors=number))
        pool = Actors(own, LanguageModels(own))
        _commit(own, pool, "warm", 2 * number, rows)
        began, spent = time.perf_counter(), time.process_time()
        shards = [f"{shard:03d}" for shard in range(SHARDS)]
        with ThreadPoolExecutor(SHARDS) as threads:
            list(threads.map(partial(_commit, own, pool, chunks=chunks // SHARDS, rows=rows), shards))
        rate = chunks / (time.perf_counter() - began)
        each = (time.process_time() - spent) / chunks
        pool.stop()
        print(f"| {number} | {rate:.1f} | {each:.4f} | {MOST_ACTORS * max(each, 0):.1f} |", flush=True)


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="miniature")
    parser.add_argument("--home", type=Path, required=True, help="a folder for homes")
    parser.add_argument("--actors", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--chunks", type=int, default=256)
    parser.add_argument("--only", choices=["labeling", "rate"])
    options = parser.parse_args()
    threads = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
    settings = load_settings(options.profile, options.home / "before")
    quiet = Console(stderr=True)
    definitions.run_with_progress(settings, settings.shard_keys, BEFORE_LABELS, False, quiet, quiet=True)
    if options.only != "rate":
        compare_labeling(settings, options.home, threads)
    if options.only != "labeling":
        measure_rate(settings, options.actors, options.chunks, _rows_of_a_chunk(settings))


def _rows_of_a_chunk(settings: Settings) -> pl.DataFrame:
    """64 trajectories of 6 steps under 3 contexts, 4 templates and 5 answers."""
    schema = TABLES[LOGPROBS].schema
    steps = pl.DataFrame({"step_index": range(6)})
    rows = (
        pl.DataFrame({"trajectory_id": [f"trajectory-{number:05d}" for number in range(64)]})
        .join(pl.DataFrame({"template": range(settings.scoring.templates)}), how="cross")
        .join(pl.DataFrame({"context": ["question", "prefix", "step"]}), how="cross")
        .join(steps, how="cross")
        .join(pl.DataFrame({"answer_rank": range(5)}), how="cross")
        .with_columns(logprob_sum=pl.int_range(pl.len()).cast(pl.Float64).sin() - 3, token_count=4)
    )
    return schema.cast(rows.select(schema.column_names()))


if __name__ == "__main__":
    main()
