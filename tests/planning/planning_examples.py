"""Five trajectories of three questions, in two shards, and a card whose figures are easy to calculate with."""

import polars as pl

from cpmi_dagster.planning.hardware import Card, Hardware, Teraflops

STEPS = {
    "t000000001": ["48 / 2 = 24", "48 + 24 = 72. The answer is: 72"],
    "t000000002": ["48 / 2 = 24", "48 - 24 = 24", "So 24. The answer is: 24"],
    "t000000003": ["He has 3 + 4 = 7 left. The answer is: 7"],
    "t000000004": ["7 - 3 = 4", "4 x 7 = 28", "28 + 3 = 31", "The answer is: 31"],
    "t000000005": ["Tom buys 5 pens for 2 dollars each.", "5 x 2 = 10. The answer is: 10"],
}
QUESTIONS = {
    "q1": ("Ana has 48 shells and finds half as many. How many has she?", "72"),
    "q2": ("Ben has 7 apples and 3 pears. How many fruits has he?", "10"),
    "q3": ("Tom buys 5 pens at 2 dollars. What does he pay?", "10"),
}
QUESTION_OF = dict(zip(STEPS, ["q1", "q1", "q2", "q2", "q3"], strict=True))
SHARD_OF = {"q1": "000", "q2": "001", "q3": "001"}


# 1 TFLOP/s, 1 GB/s, half of the one and a quarter of the other reached, 3.60 dollars an hour
CARD = Hardware(
    name="test-card",
    card=Card(
        about="a test card",
        device="cpu",
        teraflops=Teraflops(float32=1, bfloat16=2, float16=2),
        memory_gb=1,
        bandwidth_gb_per_s=1,
        forward_utilisation=0.5,
        generation_utilisation=0.25,
        usd_per_hour=3.6,
    ),
)


def trajectory_rows() -> pl.DataFrame:
    """What labeling reads of `alignment.trajectories`, in the order of a run."""
    rows = [
        (name, question_id, QUESTIONS[question_id][0], steps, QUESTIONS[question_id][1])
        for (name, steps), question_id in zip(STEPS.items(), QUESTION_OF.values(), strict=True)
    ]
    return pl.DataFrame(rows, ["trajectory_id", "question_id", "question", "steps", "gold_answer"], orient="row")
