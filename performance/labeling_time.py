"""Labeling time of CPMI and of MC taken in turns on the trajectories of a finished run: tokens first, then seconds.

    python performance/labeling_time.py --profile miniature --trajectories 16 --repeats 5
    | | MC | CPMI | CPMI : MC |

Both label the same trajectories with the same loaded model, one after the other, `--repeats` rounds; the ratio is taken
within each round, so that the load of the machine, which changes between rounds, cancels out. Hard negatives are read
from the home: sampling them is not part of either time.
"""

import argparse
from functools import partial
from statistics import median

import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.generation.monte_carlo import prefix_rollouts
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.models.language_models import load_language_model
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.scoring.logprobs import answer_logprobs
from cpmi_dagster.scoring.settings import Scoring


def trajectories_and_negatives(settings: Settings, count: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`count` selected trajectories drawn at random, and their hard negatives."""
    lake = Lake.of(settings)
    selected = lake.read("selection/selected_trajectories").select("trajectory_id")
    trajectories = lake.read("alignment/trajectories").join(selected, on="trajectory_id", how="semi")
    drawn = trajectories.sort("trajectory_id").sample(min(count, trajectories.height), seed=settings.seed)
    return drawn, lake.read("labels/hard_negatives").join(drawn, on="trajectory_id", how="semi")


def main() -> None:
    """Print tokens and seconds of both, and the ratio of each round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="miniature", help="of a home that has hard negatives")
    parser.add_argument("--trajectories", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    settings = load_settings(options.profile)
    trajectories, negatives = trajectories_and_negatives(settings, options.trajectories)
    labeler, rollouts = settings.models.labeler, settings.rollouts
    model = load_language_model(labeler.name, labeler.revision, labeler.dtype, labeler.device, labeler.device_map)
    scoring = Scoring(
        templates=settings.scoring.templates,
        conditionings=(settings.rewards.default_conditioning,),
        layout=settings.scoring.layout,
    )
    engine = TransformersEngine(model, rollouts.batch_sequences)
    score = partial(answer_logprobs, negatives=negatives, model=model, scoring=scoring)
    sample = partial(
        prefix_rollouts,
        engine=engine,
        count=rollouts.policy_count,
        sampling=rollouts.sampling,
        seed=settings.seed,
        include_question=False,
    )
    for label in (score, sample):
        label(trajectories.head(1))  # nobody times the first use of the model
    rounds: list[tuple[Cost, Cost]] = []
    for _ in range(options.repeats):
        rounds.append((sample(trajectories)[1], score(trajectories).cost))
    by_mc, by_cpmi = rounds[0]
    ratios = sorted(cpmi.wall_seconds / mc.wall_seconds for mc, cpmi in rounds)
    seconds = [[cost.wall_seconds for cost in costs] for costs in zip(*rounds, strict=True)]
    print(f"{trajectories.height} trajectories, {options.repeats} rounds, {model.identity}")
    print("| | MC | CPMI | CPMI : MC |\n|---|---|---|---|")
    for name in ("generated_tokens", "forward_tokens"):
        mc, cpmi = getattr(by_mc, name), getattr(by_cpmi, name)
        print(f"| {name.replace('_', ' ')} | {mc:,} | {cpmi:,} | {cpmi / mc:.2f} |")
    spread = f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    print(f"| seconds, median | {median(seconds[0]):.1f} | {median(seconds[1]):.1f} | {spread} |")


if __name__ == "__main__":
    main()
