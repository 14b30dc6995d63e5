"""Measures what follows labeling at full size: rewards, data set and report of 80,000 trajectories.

    python performance/downstream.py --references DATA --rows 83000

Rows are those of `ingestion.py`, reward types the paper's; log-probabilities and rollouts are made up
(`made_up_labels.py`). Everything after them is `cpmi run` in a separate process, whose seconds and peak memory are
printed, then the seconds of some queries. No reward model is trained.
"""

import argparse
import tempfile
import time
from pathlib import Path

from ingestion import run, write_profile
from made_up_labels import no_models
from rich.console import Console

from cpmi_dagster import definitions
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.query import query

MEASURED = ("labels/template_scores", "labels/step_rewards", "labels/labeling_costs", "labels/rejected_trajectories")
QUERIES = (
    "select reward_type, count(*) from labels.step_rewards group by all",
    "select source_id as id, step_index, reward from labels.step_rewards join alignment.trajectories "
    "using (trajectory_id) where reward_type = 'cpmi' order by all limit 100",
    "select * from reports.paper_comparison",
    "select d.source_id, d.soft_labels from alignment.trajectories t join dataset.cpmi_80k d "
    "on d.source_id = t.source_id limit 100",
    "select method, sum(wall_seconds) from labels.labeling_costs group by all",
)
PROFILE = {
    "models": {"prover": {"name": "miniature:prover", "dtype": "float32"}},
    "selection": {"trajectories": None, "gsm8k_share": None, "mixed_share": None, "leave_out_too_hard": False},
    "negatives": {"samples": 0},
    "recipes": [],
}


def main() -> None:
    """Make the labels up, then measure what follows them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--references", type=Path, required=True, help="as for ingestion.py")
    parser.add_argument("--rows", type=int, default=83_000)
    parser.add_argument("--shards", type=int, default=80)
    chosen = parser.parse_args()
    values = {**PROFILE, "shards": chosen.shards, "rewards": {"types": list(load_settings("paper").rewards.types)}}
    before = [key for key in TABLES if key.startswith("labels/") and key not in MEASURED]
    with tempfile.TemporaryDirectory() as folder:
        profile = write_profile(Path(folder), chosen.references.resolve(), chosen.rows, **values)
        settings = load_settings(profile)
        only, console = ("sources", "alignment", "selection", *before), Console(stderr=True)
        with no_models():
            outcome = definitions.run_with_progress(settings, settings.shard_keys, only, False, console, quiet=False)
        assert not outcome.failures, outcome.failures
        seconds, peak = run(profile)
        rows = Lake.of(settings).read("labels/step_rewards", columns=["trajectory_id"])
        print(f"{rows.n_unique():,} trajectories, {rows.height:,} rewards")
        print(f"step_rewards to report: {seconds / 60:.1f} minutes, {peak:.1f} GiB at most")
        for sql in QUERIES:
            began = time.perf_counter()
            count = query(settings, sql).rows.height
            print(f"{time.perf_counter() - began:.2f} s  {count:>7,} rows  {sql}")


if __name__ == "__main__":
    main()
