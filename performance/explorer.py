"""The label explorer on 80,000 trajectories: seconds until the first paint, and from a key to the next trajectory.

    PYTHONPATH=. python performance/explorer.py --trajectories 80000 --home /tmp/explorer-home

Every table that the pages read is made up from a hash of its keys, straight into the lake, and published; a home that
is there already is used again. Chromium then opens pages as a reader does: each figure is the median and the worst of
so many visits, of a server that has started.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import polars as pl

from cpmi_dagster.contracts.contexts import contexts_of
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.lake.database import Database
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.records import FileRecord
from cpmi_dagster.trajectories.identifiers import shard_name

SAMPLED = "Of the {} eggs half are sold. " + "The rest is packed in crates of 12. " * 11 + "The answer is: 60"
SHARDS, STEPS, TEMPLATES, ANSWERS, ROLLOUTS = 80, 6, 4, 5, 8
TYPES = ["cpmi", "cpmi_incremental", "cpmi_merge1", "cpmi_prefix", "gold_only", "mc", "neg_only", "pav"]
PORT = 3187
CHROMIUM = "/usr/bin/chromium"
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def numbers(name: str, values: range | list) -> pl.DataFrame:
    """One column."""
    return pl.DataFrame({name: values})


def drawn(*keys: str) -> pl.Expr:
    """A number in [0, 1) from the hash of some columns."""
    return (pl.struct(*keys).hash() % 10_000) / 10_000


def shard_tables(shard: int, count: int) -> dict[str, pl.DataFrame]:
    """The tables of a shard by their keys; trajectories are dealt out to shards in turn, as by a hash."""
    rows = pl.DataFrame({"row_number": range(shard, count, SHARDS)}).with_columns(
        trajectory_id=pl.format("t{}", pl.col("row_number").cast(pl.String).str.zfill(9)),
        question_id=pl.col("row_number").cast(pl.String),
    )
    steps = [
        f"Then it has {n} * 12 = <<{n}*12={n * 12}>>{n * 12} eggs, and {n} of them are sold." for n in range(STEPS)
    ]
    question = "A farm harvests {} eggs on Monday and twice as many on Tuesday. " + "Each crate holds 12 of them. " * 6
    is_even = pl.col("row_number") % 2 == 0
    trajectories = rows.with_columns(
        source_id=pl.lit(None, pl.String),
        task=pl.when(is_even).then(pl.lit("GSM8K")).otherwise(pl.lit("MATH")),
        question=pl.format(question, "row_number"),
        steps=pl.lit(steps),
        shepherd_labels=pl.lit([True] * STEPS),
        final_answer=pl.lit("60"),
        gold_answer=pl.col("row_number").cast(pl.String),
        match_source=pl.lit("gsm8k/train/1"),
        match_kind=pl.lit("exact"),
        match_score=pl.lit(1.0),
    )
    return {"alignment/trajectories": trajectories, **labels(rows.select("trajectory_id").sort("trajectory_id"))}


def labels(ids: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The tables of labels of some trajectories."""
    template, answer_rank = numbers("template", range(TEMPLATES)), numbers("answer_rank", range(ANSWERS))
    contexts = contexts_of(["marginal", "incremental"], STEPS)
    logprobs = crossed(ids, template, pl.DataFrame(contexts, ["context", "step_index"], orient="row"), answer_rank)
    rollouts = crossed(ids, numbers("prefix_length", range(1, STEPS + 1)), numbers("rollout", range(ROLLOUTS)))
    of_steps = crossed(ids, numbers("step_index", range(STEPS)))
    scores = crossed(of_steps, numbers("conditioning", ["incremental", "marginal"]), template)
    return {
        "labels/hard_negatives": crossed(ids, numbers("rank", range(1, ANSWERS))).with_columns(
            answer=pl.col("rank").cast(pl.String), source=pl.lit("model")
        ),
        "labels/answer_logprobs": logprobs.with_columns(logprob_sum=-12 * drawn(*logprobs.columns), token_count=6),
        "labels/template_scores": scores.with_columns(gold_shift=0.0, negative_shift=0.0, cpmi=0.0),
        "labels/policy_rollouts": rollouts.with_columns(
            answer=pl.lit("60"),
            correct=drawn(*rollouts.columns) < 0.5,
            generated_tokens=150,
            truncated=False,
            text=pl.format(SAMPLED, pl.struct(rollouts.columns).hash()),
        ),
        "labels/step_rewards": crossed(of_steps, numbers("reward_type", TYPES)).with_columns(
            reward=2 * drawn("trajectory_id", "step_index", "reward_type") - 1
        ),
    }


def crossed(*frames: pl.DataFrame) -> pl.DataFrame:
    """Every combination of the rows."""
    first, *others = frames
    for other in others:
        first = first.join(other, how="cross")
    return first


def make_home(home: Path, count: int) -> None:
    """Write the tables and publish them."""
    lake, soft, selected = Lake(home, "miniature"), [], []
    for number in range(SHARDS):
        shard = shard_name(number)
        tables = shard_tables(number, count)
        for key, frame in tables.items():
            write(lake, key, shard, frame)
        rewards = tables["labels/step_rewards"]
        soft.append(rewards.with_columns(soft_label=(pl.col("reward") + 1) / 2))
        selected.append(tables["alignment/trajectories"].with_columns(shard=pl.lit(shard), composition=pl.lit("pure")))
        print(f"\r{number + 1} of {SHARDS} shards", end="", file=sys.stderr)
    write(lake, "selection/selected_trajectories", None, pl.concat(selected))
    write(lake, "dataset/soft_labels", None, pl.concat(soft))
    truth = numbers("row_number", range(count)).with_columns(correct=pl.lit([True] * STEPS))
    write(lake, "sources/step_truth", None, truth.with_columns(kind=None, operations_left=None))
    Database(lake, load_settings("miniature", home).model_copy(update={"shards": SHARDS})).publish()


def write(lake: Lake, key: str, shard: str | None, frame: pl.DataFrame) -> None:
    """A table, or a shard of it, as a stage writes it."""
    schema = TABLES[key].schema
    lake.write(schema.cast(frame.select(schema.column_names())), FileRecord(key, shard, "", "", "1"))


def timed(visits: int, visit: Callable[[int], float]) -> str:
    """Median and worst of some visits, in milliseconds."""
    found = [visit(number) for number in range(visits)]
    return f"{statistics.median(found):6.0f} ms, {max(found):6.0f} at worst"


def measure(visits: int, count: int) -> None:
    """Print what a reader waits for."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

        page = browser.new_page()
        for name in ("disagreement", "distributions"):
            began = time.perf_counter()
            page.goto(f"http://127.0.0.1:{PORT}/{name}")
            page.wait_for_selector("#figures table, #figures svg", timeout=60_000)
            print(f"figures of {name:<17} {1000 * (time.perf_counter() - began):6.0f} ms")

        def first_paint(path: str) -> float:
            page = browser.new_page()
            page.goto(f"http://127.0.0.1:{PORT}{path}")
            while not (found := page.evaluate(FIRST_PAINT)):
                page.wait_for_timeout(10)
            page.close()
            return float(found)

        middle = [f"/trajectory/t{number * count // (visits + 1):09d}" for number in range(1, visits + 1)]
        print(f"first paint, list            {timed(visits, lambda _: first_paint('/'))}")
        print(f"first paint, search          {timed(visits, lambda _: first_paint('/?search=harvests+77'))}")
        print(f"first paint, a trajectory    {timed(visits, lambda number: first_paint(middle[number]))}")
        print(f"first paint, disagreement    {timed(visits, lambda _: first_paint('/disagreement'))}")
        print(f"first paint, distributions   {timed(visits, lambda _: first_paint('/distributions'))}")
        page.goto(f"http://127.0.0.1:{PORT}{middle[0]}")

        def key(name: str) -> float:
            return page.evaluate(
                """name => new Promise(done => {
                    const chosen = ["h1", "tr.chosen a.step"];
                    const seen = () => chosen.map((each) => document.querySelector(each)?.textContent).join();
                    const before = seen(), began = performance.now();
                    const look = () => seen() === before ? requestAnimationFrame(look)
                        : requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
                    document.body.dispatchEvent(new KeyboardEvent("keydown", {key: name, bubbles: true}));
                    look();
                })""",
                name,
            )

        print(f"key j to next trajectory     {timed(visits, lambda _: key('j'))}")
        print(f"key n to next step           {timed(min(visits, STEPS - 1), lambda _: key('n'))}")
        browser.close()


def main() -> None:
    """Make the home, serve it, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trajectories", type=int, default=80_000)
    parser.add_argument("--visits", type=int, default=20)
    parser.add_argument("--home", type=Path, required=True, help="made where it is not there")
    chosen = parser.parse_args()
    if not (chosen.home / "cpmi.duckdb").exists():
        make_home(chosen.home, chosen.trajectories)
    command = [sys.executable, "-m", "cpmi_dagster", "explore", "--port", str(PORT)]
    of_home = {"CPMI_HOME": str(chosen.home.resolve()), "CPMI_SHARDS": str(SHARDS)}
    server = subprocess.Popen(command, env={**os.environ, **of_home})
    began = time.perf_counter()
    try:
        while True:
            try:
                httpx.get(f"http://127.0.0.1:{PORT}/", timeout=120)
                break
            except httpx.ConnectError:
                time.sleep(0.1)
        print(f"ready after                  {1000 * (time.perf_counter() - began):6.0f} ms")
        measure(chosen.visits, chosen.trajectories)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
