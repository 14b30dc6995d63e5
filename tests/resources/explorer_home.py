"""A home of made-up labels, small and hostile, for tests of the label explorer."""

from pathlib import Path

import polars as pl

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.lake.database import publish
from cpmi_dagster.resources.lake.lake import Lake, Record

COUNT, STEPS, SHARDS = 100, 3, 2
HOSTILE = "<script>alert('x')</script> & \"quoted\" {{ 7 * 7 }} $\\frac{1}{2}$"
TYPES = ("cpmi", "mc", "<b>own</b>")


def identifier(number: int) -> str:
    """A trajectory's id."""
    return f"t{number:09d}"


def write(lake: Lake, key: str, shard: str | None, rows: list[dict]) -> None:
    """A table, or a shard of it."""
    schema = TABLES[key].schema
    frame = pl.DataFrame(rows, schema=schema.create_empty().schema)
    lake.write(schema.cast(frame), Record(key, shard, "key", "run", "model", "1"))


def made_up_home(home: Path, labelled: bool = True, soft: bool = True, more: str = "") -> Settings:
    """Write 100 trajectories of three steps and publish them; number 7 has hostile text.

    Args:
        more: text after every question.
    """
    lake = Lake(home)
    for shard in range(SHARDS):
        numbers = [number for number in range(COUNT) if number % SHARDS == shard]
        write(lake, "alignment/trajectories", f"{shard:03d}", [_trajectory(number, more) for number in numbers])
        write(lake, "selection/selected_trajectories", f"{shard:03d}", [_selected(number) for number in numbers])
        if labelled:
            for key, rows in _labels(numbers).items():
                write(lake, f"labels/{key}", f"{shard:03d}", rows)
    if labelled and soft:
        write(lake, "dataset/soft_labels", None, _soft_labels())
    settings = load_settings("miniature", home)
    publish(lake, settings)
    return settings


def soft_label(number: int, step: int, reward_type: str) -> float:
    """Types disagree most at step 2 of number 90."""
    if (number, step, reward_type) == (90, 2, "mc"):
        return 0.0
    return {"cpmi": 0.9, "mc": 0.8}.get(reward_type, 0.5)


def _trajectory(number: int, more: str = "") -> dict:
    question = HOSTILE if number == 7 else f"Question {number}: how many eggs?{more}"
    steps = [
        HOSTILE if number == 7 else f"There are {number} + 1 eggs.",
        "So $2 \\cdot 3$ of them.",
        "The answer is: 4",
    ]
    return {
        "trajectory_id": identifier(number), "source_id": HOSTILE if number == 7 else f"mine-{number}",
        "question_id": f"{number:x}", "row_number": number, "task": "MATH" if number % 10 == 0 else "GSM8K",
        "question": question, "steps": steps, "shepherd_labels": None, "final_answer": None,
        "gold_answer": HOSTILE if number == 7 else "4", "match_source": "given", "match_kind": "given",
        "match_score": 1.0,
    }  # fmt: skip


def _selected(number: int) -> dict:
    shard = f"{number % SHARDS:03d}"
    task = _trajectory(number)["task"]
    row = {"trajectory_id": identifier(number), "question_id": f"{number:x}"}
    return {**row, "shard": shard, "task": task, "composition": "unlabelled"}


def _soft_labels() -> list[dict]:
    return [
        {"trajectory_id": identifier(number), "step_index": step, "reward_type": name,
         "soft_label": soft_label(number, step, name)}
        for number in range(COUNT) for step in range(STEPS) for name in TYPES
    ]  # fmt: skip


def _labels(numbers: list[int]) -> dict[str, list[dict]]:
    ids = [identifier(number) for number in numbers]
    contexts = [("question", -1), *(("step", step) for step in range(STEPS))]
    return {
        "step_rewards": [
            {"trajectory_id": name, "step_index": step, "reward_type": kind, "reward": step / 4}
            for name in ids for step in range(STEPS) for kind in TYPES
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
