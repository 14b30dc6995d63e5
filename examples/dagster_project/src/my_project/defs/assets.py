"""An asset whose solutions CPMI labels, and one that reads the labels."""

from pathlib import Path

import dagster as dg
import polars as pl

SOLUTIONS = Path(__file__).parents[3] / "data" / "solutions.parquet"


def solution(number: int) -> dict[str, object]:
    """Of each question there are three: a right one, one that is wrong from its first step on, one from its second."""
    hats, wrong = 3 + number // 3, number % 3
    after = hats + 4 + (wrong == 1)
    left = after - 2 + (wrong == 2)
    return {
        "id": f"solution-{number}",
        "question": f"Ann has {hats} hats. She buys 4 more and gives 2 away. How many hats does Ann have now?",
        "steps": [f"Ann has {hats} + 4 = {after} hats.", f"Ann has {after} - 2 = {left} hats. The answer is {left}."],
        "gold_answer": str(hats + 2),
    }


@dg.asset
def solutions() -> None:
    """A dozen solutions of four questions."""
    SOLUTIONS.parent.mkdir(exist_ok=True)
    pl.DataFrame(map(solution, range(12))).write_parquet(SOLUTIONS)


@dg.asset(
    ins={
        "rewards": dg.AssetIn(["my_labels", "labels", "step_rewards"]),
        "trajectories": dg.AssetIn(["my_labels", "alignment", "trajectories"]),
    }
)
def weakest_steps(rewards: pl.DataFrame, trajectories: pl.DataFrame) -> dg.MaterializeResult:
    """The step of each solution that CPMI rewards least, by the solution's own id."""
    named = rewards.join(trajectories.select("trajectory_id", id="source_id"), on="trajectory_id")
    weakest = named.sort("reward").unique("id", keep="first").sort("id").select("id", "step_index", "reward")
    weakest.write_parquet(SOLUTIONS.with_name("weakest_steps.parquet"))
    return dg.MaterializeResult(metadata={"solutions": weakest.height})
