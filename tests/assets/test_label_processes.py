"""Shards labelled in several processes at once are the shards that one process makes."""

import os
from functools import partial
from queue import Queue

import pytest
from rich.console import Console
from small_run import run_all

from assets.label_processes import ENDED, label_in_processes
from assets.runs import Outcome
from resources.lake import Lake
from resources.progress import RelayedProgress, relay
from resources.terminal import TerminalProgress


@pytest.mark.slow
def test_two_processes_label_what_one_does(own_copy, finished):
    for file in (own_copy.home / "lake" / "labels" / "answer_logprobs").glob("shard=*.parquet"):
        file.unlink()
    two = own_copy.model_copy(update={"orchestration": own_copy.orchestration.model_copy(update={"gpus": 2})})
    outcome = run_all(two, only=("labels/answer_logprobs",))
    assert outcome == Outcome()
    frames = [
        Lake(settings.home).read("labels/answer_logprobs", settings.shard_keys).drop("logprob_sum")
        for settings in (own_copy, finished)
    ]
    assert frames[0].equals(frames[1])
    sums = [
        Lake(settings.home).read("labels/answer_logprobs", settings.shard_keys)["logprob_sum"]
        for settings in (own_copy, finished)
    ]
    assert (sums[0] - sums[1]).abs().max() < 1e-4
    runs = [Lake(own_copy.home).record("labels/answer_logprobs", shard).run_id for shard in own_copy.shard_keys]
    assert len(set(runs)) == 4


def _note(failures: list[str], worker: str, shards: list[str]) -> Outcome:
    return Outcome(failures=[*failures, f"{worker}: {', '.join(shards)}"])


def test_shards_are_dealt_in_stretches_and_every_report_comes_back():
    outcome = label_in_processes(partial(_note, []), ["000", "001", "002", "003", "004"], 2)
    assert outcome.failures == ["worker 1: 000, 001, 002", "worker 2: 003, 004"]


def _die_at_first(worker: str, shards: list[str]) -> Outcome:
    if worker == "worker 1":
        os._exit(9)
    return _note([], worker, shards)


def test_a_labeling_process_that_is_killed_is_named_and_the_others_go_on():
    failures = label_in_processes(_die_at_first, ["000", "001", "002"], 2).failures
    assert failures == [f"the process that labelled shards 000, 001 {ENDED}", "worker 2: 002"]


def test_the_progress_of_workers_is_shown_by_the_process_that_started_them():
    messages: Queue = Queue()
    workers = [RelayedProgress(messages, f"worker {number}") for number in (1, 2)]
    advances = [worker.start("answer_logprobs 000", 10, print) for worker in workers]
    advances[0](4)
    for shard, worker in enumerate(workers):
        worker.finish("answer_logprobs", f"00{shard}", 5, 1.0, skipped=False)
    messages.put(None)
    console = Console(record=True, width=100, force_terminal=True)
    with TerminalProgress(console, {"answer_logprobs": 2}) as progress:
        relay(messages, progress)
        descriptions = {task.description: task.completed for task in progress._bars.tasks}
    assert descriptions == {"worker 1: answer_logprobs 000": 4, "worker 2: answer_logprobs 000": 0}
    assert "2 partitions         10 rows" in " ".join(console.export_text().split("\n"))
