"""`cpmi run` on two GPUs is two processes; one that dies leaves its shards to the process that started it."""

import subprocess

import pytest
from kill_labeling import compare, remove_tables
from small_run import run_all

from cpmi_dagster.resources.dag import gpu_children
from cpmi_dagster.resources.dag.automation import LABEL_TABLES
from cpmi_dagster.resources.dag.runs import Runner
from cpmi_dagster.resources.lake.lake import Lake

pytestmark = pytest.mark.slow


@pytest.fixture
def unlabelled(own_copy, monkeypatch):
    """A finished home without labels, on a machine of two GPUs; what models answered is there."""
    remove_tables(own_copy.home, LABEL_TABLES)
    monkeypatch.setenv("CPMI_ORCHESTRATION__GPUS", "2")
    orchestration = own_copy.orchestration.model_copy(update={"gpus": 2})
    return own_copy.model_copy(update={"orchestration": orchestration})


@pytest.fixture
def children(monkeypatch) -> list[subprocess.Popen[str]]:
    """The processes that label, as they were started."""
    started, start = [], gpu_children._start

    def remember(*arguments) -> subprocess.Popen[str]:
        started.append(start(*arguments))
        return started[-1]

    monkeypatch.setattr(gpu_children, "_start", remember)
    return started


def test_each_of_two_processes_labels_its_half_of_the_shards(unlabelled, finished_home, children, monkeypatch):
    monkeypatch.setattr(Runner, "_run_job", lambda *_: pytest.fail("the first process labels too"))
    assert not run_all(unlabelled, only=("labels",)).failures
    assert [child.returncode for child in children] == [0, 0]
    shards = [str(child.args).partition("--shards', '")[2].partition("'")[0] for child in children]
    assert shards == ["000,002", "001,003"]
    compare(unlabelled.home, finished_home)


def test_the_shards_of_a_process_that_is_killed_are_labelled_and_no_failure_is_reported(
    unlabelled, finished_home, children, monkeypatch, caplog
):
    wait = gpu_children._wait

    def kill_first(child: subprocess.Popen[str], show) -> str:
        if child is children[0]:
            child.kill()
        return wait(child, show)

    monkeypatch.setattr(gpu_children, "_wait", kill_first)
    outcome = run_all(unlabelled, only=("labels",))
    assert not outcome.failures and not outcome.waiting
    assert "of shards 000, 002 ended early (exit code -9); what is missing of them is labelled here" in caplog.text
    assert Lake.of(unlabelled).partitions("labels/step_rewards") == unlabelled.shard_keys
    compare(unlabelled.home, finished_home)
