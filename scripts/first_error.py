"""Fits the weights that ship with the package: the hazard of the first error on ProcessBench's GSM8K and MATH.

    python -m scripts.first_error processbench          reads gsm8k and math there, every second row, as .jsonl.gz
    python -m scripts.first_error processbench --evidence .cpmi/evidence human-steps-0.5b human-steps-1.5b
    python -m scripts.first_error --miniature .cpmi/miniature          weights of the demo, on 50 of its solutions

Labels of two labelers, which `make evidence` makes, are kept in `first_error_labels.parquet` beside this file;
`--evidence` reads them anew. A fit with labels is on the steps of both labelers, by z-scores within a solution, which a
third labeler has too. The file written has a fit for each set of labels, with and without the final answer.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import yaml

from cpmi_dagster import miniature
from cpmi_dagster.contracts.keys import SHEPHERD, STEP_REWARDS, TRAJECTORIES, TRUTH
from cpmi_dagster.files.bounded_reading import open_text
from cpmi_dagster.files.whole_files import whole_file, write_whole
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.commands.calibrate import judged_solutions, write_weights
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.rewards.hazard import LABELS, OUTCOME, SHIPPED, Fit, Solution, part_of
from cpmi_dagster.rewards.hazard_fit import Judged, fit_hazard, fitted_weights, steps_at_risk
from cpmi_dagster.rewards.reward_type import LabelInputs

KEPT = Path(__file__).with_name("first_error_labels.parquet")
SHIPPED_LABELS = ("step_surprisal", "cpmi_incremental", "cpmi")
SUBSETS = ("gsm8k", "math")
MINIATURE = Path(miniature.__file__).with_name("first_error.yaml")
MINIATURE_SOLUTIONS, MINIATURE_LABELS = 50, ("step_surprisal", "cpmi_incremental")
RESAMPLES, SEED = 200, 0
FITTED_ON = "human judgements of ProcessBench's GSM8K and MATH (Apache-2.0), every second row; labels by "
HEADER = "# Written by scripts/first_error.py: log-odds that a step is the first wrong one (docs/first_error.md).\n"


class Row(NamedTuple):
    """A judged solution of ProcessBench."""

    name: str
    question: str
    steps: list[str]
    first_error: int
    is_right: bool

    @property
    def correct(self) -> list[bool | None]:
        """Whether each step is right; null behind the first wrong one."""
        return [None if 0 <= self.first_error < step else step != self.first_error for step in range(len(self.steps))]


def read_rows(folder: Path, subsets: Sequence[str] = SUBSETS) -> Iterator[Row]:
    """The rows of ProcessBench's subsets in a folder."""
    for subset in subsets:
        [file] = folder.glob(f"{subset}.*jsonl*")
        with open_text(file) as lines:
            for line in lines:
                row = json.loads(line)
                yield Row(row["id"], row["problem"], row["steps"], row["label"], bool(row["final_answer_correct"]))


def labelled_solutions(rows: Sequence[Row], labels: pl.DataFrame) -> list[Judged]:
    """Every solution once for each labeler that has labelled it, or once without labels.

    Args:
        labels: labeler, id, and of `SHIPPED_LABELS` a list of a value per step.
    """
    by_id: dict[str, list[dict[str, Any]]] = {}
    for row in labels.sort("labeler").iter_rows(named=True):
        by_id.setdefault(row["id"], []).append(row)
    judged: list[Judged] = []
    for row in rows:
        lengths = np.array([len(step) for step in row.steps], dtype=float)
        for known in by_id.get(row.name, [{}]):
            values = {name: np.array(known[name]) for name in SHIPPED_LABELS if known.get(name)}
            solution = Solution(row.name, lengths, values, row.is_right, part_of(row.question))
            judged.append((solution, row.correct))
    return judged


def fits(rows: Sequence[Row], labels: pl.DataFrame, resamples: int) -> Iterator[Fit]:
    """A fit for each set of labels, those that read the final answer first."""
    labelled, alone = labelled_solutions(rows, labels), labelled_solutions(rows, labels.clear())
    for outcome in ((OUTCOME,), ()):
        for count in range(len(SHIPPED_LABELS) + 1):
            for names in combinations(SHIPPED_LABELS, count):
                read = (*outcome, *names)
                steps = steps_at_risk(labelled if names else alone, read)
                yield fit_hazard(steps, read, resamples=resamples, seed=SEED)


def weights_text(folder: Path, labels: pl.DataFrame, resamples: int = RESAMPLES) -> str:
    """The text of the file that ships."""
    rows = list(read_rows(folder))
    labelers = " and ".join(str(name).removesuffix(".gguf") for name in labels["labeler"].unique().sort())
    values: dict[str, Any] = {"fitted_on": FITTED_ON + labelers, "solutions": len(rows)}
    values["fits"] = [fit.model_dump(mode="json") for fit in fits(rows, labels, resamples)]
    return HEADER + yaml.safe_dump(values, default_flow_style=None, sort_keys=False, width=10_000)


def keep_labels(folder: Path, profiles: Sequence[str]) -> pl.DataFrame:
    """labeler, id, and a list of values per label, from finished homes of profiles in a folder."""
    frames = []
    for profile in profiles:
        settings = load_settings(profile, folder / Path(profile).stem)
        labeler = settings.models.labeler.name.replace(":", "/").rpartition("/")[2]
        lake = Lake.of(settings)
        ids = lake.read(SHEPHERD).select("row_number", id="source_id")
        named = lake.read(TRAJECTORIES).join(ids, on="row_number").select("trajectory_id", "id")
        rewards = lake.read(STEP_REWARDS).filter(pl.col("reward_type").is_in(LABELS)).sort("step_index")
        lists = rewards.group_by("trajectory_id", "reward_type", maintain_order=True).agg("reward")
        wide = lists.pivot("reward_type", index="trajectory_id", values="reward").join(named, on="trajectory_id")
        frames.append(wide.select(pl.lit(labeler).alias("labeler"), "id", *SHIPPED_LABELS))
    kept = pl.concat(frames).with_columns(pl.col(SHIPPED_LABELS).cast(pl.List(pl.Float32)))
    return kept.sort("labeler", "id")


def fit_miniature(home: Path) -> None:
    """Writes the demo's weights, fitted on some of a finished demo's solutions."""
    lake = Lake.of(load_settings("miniature", home))
    rewards, evidence = lake.read(STEP_REWARDS), LabelInputs(lake.read(TRAJECTORIES))
    judged = judged_solutions(evidence, lake.read(TRUTH), rewards)
    chosen = np.random.default_rng(SEED).permutation(len(judged))[:MINIATURE_SOLUTIONS]
    weights = fitted_weights([judged[number] for number in sorted(chosen)], MINIATURE_LABELS, "miniature")
    write_weights(weights, MINIATURE)


def main() -> None:
    """Writes the weights, and with `--evidence` the labels that they are fitted on."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="ProcessBench: gsm8k and math as JSON Lines")
    parser.add_argument("--miniature", type=Path, help="home of a finished demo, for its weights")
    parser.add_argument(
        "--evidence", nargs="+", help="a folder of finished homes, and the profiles whose labels are kept"
    )
    given = parser.parse_args()
    if not (given.folder or given.miniature):
        parser.error("give the folder of ProcessBench, or --miniature")
    if given.miniature:
        fit_miniature(given.miniature)
        return
    if given.evidence:
        with whole_file(KEPT) as unfinished:
            keep_labels(Path(given.evidence[0]), given.evidence[1:]).write_parquet(unfinished)
    write_whole(SHIPPED, weights_text(given.folder, pl.read_parquet(KEPT)))


if __name__ == "__main__":
    main()
