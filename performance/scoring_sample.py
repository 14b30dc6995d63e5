"""Choose a few trajectories whose averages are those the targets are stated for.

    wanted   155 tokens of template and question, 4.8 steps, 83 tokens a step; of the 5 answers 2.5 that differ before
             their last token, as in the whole set (18, 17, 19 do not, 18 and 20 do)
    draws    2,000 by the seed, half GSM8K and half MATH; the one nearest to that is taken

A few trajectories drawn blindly are longer or shorter than the set by a third, and every ratio moves with that; the
harness computes answers that differ in their last token once, so its time is in proportion to the others.
"""

import random
from pathlib import Path
from statistics import mean

import polars as pl
from scoring_models import byte_level_bpe
from scoring_workload import missing_files, negatives_of, read_trajectories, reference_texts
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from cpmi_dagster.trajectories.templates import TEMPLATES, render_question, render_step, render_target

WANTED = (155.0, 4.8, 83.0)
DRAWS = 2000
NEGATIVES = 4
SIZE_COLUMNS = {
    "trajectory_id": pl.String,
    "subset": pl.String,
    "prompt": pl.Float64,
    "step_count": pl.Int64,
    "step_tokens": pl.Int64,
    "answers": pl.Int64,
}


def load_workload(data: Path | None, vocabulary: int) -> tuple[pl.DataFrame, PreTrainedTokenizerFast]:
    """All trajectories, and a tokenizer trained on their references.

    Args:
        data: folder of the real sets, or None for the embedded world.
        vocabulary: tokens.

    Raises:
        SystemExit: the folder lacks a file; the message names it.
    """
    if data and (missing := missing_files(data)):
        raise SystemExit(f"{missing[0]} is missing; give the folder that holds GSM8K, MATH and ProcessBench by --data")
    name = "gsm8k+math" if data else "embedded world"
    return read_trajectories(data), byte_level_bpe(reference_texts(data), vocabulary, name)


def sizes_of(trajectories: pl.DataFrame, tokenizer: PreTrainedTokenizerBase, seed: int) -> pl.DataFrame:
    """What the averages are taken of.

    Args:
        trajectories: columns of `read_trajectories`.
        tokenizer: of the model.
        seed: of the negatives.

    Returns:
        Columns trajectory_id, subset, prompt (tokens, mean over templates), step_count, step_tokens (their sum),
        answers (targets that differ before their last token).
    """

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False))

    wrong: dict[str, list[str]] = dict(
        negatives_of(trajectories, NEGATIVES, seed).group_by("trajectory_id").agg("answer").iter_rows()
    )
    rows = []
    for row in trajectories.iter_rows(named=True):
        name, steps = row["trajectory_id"], row["steps"]
        prompt = mean(count(render_question(row["question"], template)) for template in range(len(TEMPLATES)))
        targets = (render_target(answer) for answer in (row["gold_answer"], *wrong[name]))
        answers = {tuple(tokenizer.encode(target, add_special_tokens=False)[:-1]) for target in targets}
        rows.append(
            (name, row["subset"], prompt, len(steps), sum(count(render_step(step)) for step in steps), len(answers))
        )
    return pl.DataFrame(rows, schema=SIZE_COLUMNS, orient="row")


def representative(
    trajectories: pl.DataFrame, tokenizer: PreTrainedTokenizerBase, count: int, seed: int
) -> pl.DataFrame:
    """The draw of so many trajectories, half of each subset, that is nearest to `WANTED` and to the set's answers.

    Args:
        trajectories: columns of `read_trajectories`.
        tokenizer: of the model.
        count: how many.
        seed: of the draws.
    """
    sized = sizes_of(trajectories, tokenizer, seed)
    by_subset = [rows["trajectory_id"].to_list() for _, rows in sized.group_by("subset", maintain_order=True)]
    answers = mean(rows["answers"].to_numpy().mean() for _, rows in sized.group_by("subset"))
    wanted = (*WANTED, float(answers))
    shares = [(count + place) // len(by_subset) for place in range(len(by_subset))]
    rng = random.Random(seed)
    draws = [
        [name for names, share in zip(by_subset, shares, strict=True) for name in rng.sample(names, share)]
        for _ in range(DRAWS)
    ]
    rows = {row[0]: row[2:] for row in sized.iter_rows()}
    chosen = min(draws, key=lambda draw: _distance([rows[name] for name in draw], wanted))
    return trajectories.filter(pl.col("trajectory_id").is_in(chosen))


def _distance(rows: list[tuple[float, int, int, int]], wanted: tuple[float, ...]) -> float:
    prompt, steps, answers = (mean(row[place] for row in rows) for place in (0, 1, 3))
    own = (prompt, steps, sum(row[2] for row in rows) / sum(row[1] for row in rows), answers)
    return sum(abs(value / other - 1) for value, other in zip(own, wanted, strict=True))
