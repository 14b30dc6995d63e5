"""A home of made-up labels, small and hostile, for tests of the label explorer."""

from pathlib import Path

import polars as pl

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.lake.database import publish
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parquet import Record

COUNT, STEPS, SHARDS = 100, 3, ("000", "001")
HOSTILE = "<script>alert('x')</script> & \"quoted\" {{ 7 * 7 }} $\\frac{1}{2}$"
SOFT_LABELS = {"cpmi": 0.9, "mc": 0.8, "<b>own</b>": 0.5, "first_error": 0.5}


def identifier(number: int) -> str:
    return f"t{number:09d}"


def made_up_home(home: Path) -> Settings:
    """Write 100 trajectories of three steps; a reward is `step / 4`.

    Number 7 has hostile text; types disagree most at step 1 of number 90.
    """
    lake, settings = Lake(home), load_settings("miniature", home)

    def write(key: str, shard: str | None, rows: list[dict]) -> None:
        schema = TABLES[key].schema
        frame = pl.DataFrame(rows, schema=schema.create_empty().schema)
        lake.write(schema.cast(frame), Record(key, shard, "key", "run", "model", "1"))

    for place, shard in enumerate(SHARDS):
        trajectories = [_trajectory(number) for number in range(place, COUNT, len(SHARDS))]
        names = ("trajectory_id", "question_id", "task")
        chosen = [{**{name: row[name] for name in names}, "shard": shard, "composition": "-"} for row in trajectories]
        write("alignment/trajectories", shard, trajectories)
        write("selection/selected_trajectories", shard, chosen)
        for key, rows in _labels([row["trajectory_id"] for row in trajectories]).items():
            write(f"labels/{key}", shard, rows)
    rows = [
        {"trajectory_id": identifier(number), "step_index": step, "reward_type": name,
         "soft_label": 0.0 if (number, step, name) == (90, 1, "mc") else soft_label}
        for number in range(COUNT) for step in range(STEPS) for name, soft_label in SOFT_LABELS.items()
    ]  # fmt: skip
    write("dataset/soft_labels", None, rows)
    publish(lake, settings)
    return settings


def _trajectory(number: int) -> dict:
    question, first = f"Question {number}: how many eggs?", f"There are {number} + 1 eggs."
    row = {
        "trajectory_id": identifier(number), "source_id": f"mine-{number}", "question_id": f"{number:x}",
        "row_number": number, "task": "MATH" if number % 10 == 0 else "GSM8K", "question": question,
        "steps": [first, "So $2 \\cdot 3$ of them.", "The answer is: 4"], "shepherd_labels": None,
        "final_answer": None, "gold_answer": "4", "match_source": "given", "match_kind": "given",
    }  # fmt: skip
    hostile = {"source_id": HOSTILE, "question": HOSTILE, "steps": [HOSTILE, *row["steps"][1:]], "gold_answer": HOSTILE}
    return row | hostile if number == 7 else row


def _labels(ids: list[str]) -> dict[str, list[dict]]:
    contexts = [("question", -1), *(("step", step) for step in range(STEPS))]
    return {
        "step_rewards": [
            {"trajectory_id": name, "step_index": step, "reward_type": kind, "reward": step / 4}
            for name in ids for step in range(STEPS) for kind in SOFT_LABELS
        ],
        "hard_negatives": [{"trajectory_id": name, "rank": 1, "answer": HOSTILE, "source": "model"} for name in ids],
        "answer_logprobs": [
            {"trajectory_id": name, "template": 0, "context": kind, "step_index": step, "answer_rank": rank,
             "logprob_sum": -4.0 if kind == "question" else -1.0 - rank, "token_count": 4}
            for name in ids for kind, step in contexts for rank in (0, 1)
        ],
        "template_scores": [
            {"trajectory_id": name, "step_index": step, "conditioning": "marginal", "template": 0, "gold_shift": 0.75,
             "negative_shift": 0.5, "cpmi": 0.25}
            for name in ids for step in range(STEPS)
        ],
        "policy_rollouts": [
            {"trajectory_id": name, "prefix_length": step + 1, "rollout": rollout, "answer": HOSTILE,
             "correct": step == 0, "generated_tokens": 11, "truncated": False, "text": f"Sampled: {HOSTILE}"}
            for name in ids for step in range(STEPS) for rollout in (0, 1)
        ],
    }  # fmt: skip
