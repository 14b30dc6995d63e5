"""The numbers of `docs/label_by_hand.md`, by the functions that label real data."""

import re
from pathlib import Path

import polars as pl
import pytest

from cpmi_dagster.contracts.tables import AnswerLogprobs
from cpmi_dagster.rewards.methods import template_mean
from cpmi_dagster.rewards.settings import SoftLabels
from cpmi_dagster.rewards.soft_labels import soft_labels
from cpmi_dagster.scoring.conditionings import template_scores

PAGE = Path(__file__).resolve().parents[2] / "docs" / "label_by_hand.md"
TOKENS = 5
CONTEXTS = [("question", -1), ("step", 0), ("step", 1)]
RANKS = {5: 0, 6: 1, 1: 2}


def test_the_shifts_rewards_and_soft_labels_of_the_page_are_those_of_the_method():
    blocks = re.findall(r"(?:^\|.*\n)+", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    sums, shifts, page_rewards, page_labels = [
        [tuple(map(float, line.strip("|").split("|"))) for line in block.splitlines()[2:]] for block in blocks
    ]
    rows = [
        ("t", int(template), *context, RANKS[int(answer)], logprob_sum, TOKENS)
        for template, answer, *of_contexts in sums
        for context, logprob_sum in zip(CONTEXTS, of_contexts, strict=True)
    ]
    names = ["trajectory_id", "template", "context", "step_index", "answer_rank", "logprob_sum", "token_count"]
    scores = template_scores(AnswerLogprobs.cast(pl.DataFrame(rows, schema=names, orient="row")), ["marginal"])
    shown = scores.sort("step_index", "template").select("gold_shift", "negative_shift", "cpmi").rows()
    assert [pytest.approx(row, abs=5e-4) for row in shown] == [row[2:] for row in shifts]
    rewards = template_mean(scores, pl.col("cpmi"))["reward"].to_list()
    assert rewards == pytest.approx([reward for _, reward in page_rewards], abs=5e-4)
    five = [*(reward for _, reward in page_rewards), -0.15, 0.05, 0.15]
    frame = pl.DataFrame({"trajectory_id": "t", "step_index": range(5), "reward_type": "cpmi", "reward": five})
    labels = soft_labels(frame, SoftLabels())["soft_label"].to_list()
    assert labels[:2] == pytest.approx([label for _, label in page_labels], abs=5e-4)
