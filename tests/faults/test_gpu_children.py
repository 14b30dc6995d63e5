"""`cpmi run` on two GPUs is two processes; one that dies leaves its shards to the process that started it."""

import subprocess

import pytest
from kill_labeling import compare
from small_run import run_all

from cpmi_dagster.resources.dag import runner
from cpmi_dagster.resources.dag.jobs import LABEL, PHASES


@pytest.mark.slow
def test_each_of_two_processes_labels_half_of_the_shards_and_those_of_one_that_dies_are_labelled_here(
    own_copy, finished_home, monkeypatch, caplog
):
    for key in PHASES[LABEL]:
        for path in (own_copy.home / "lake" / key).glob("*.parquet"):  # what models answered stays
            path.unlink()
    monkeypatch.setenv("CPMI_ORCHESTRATION__GPUS", "2")
    orchestration = own_copy.orchestration.model_copy(update={"gpus": 2})
    settings = own_copy.model_copy(update={"orchestration": orchestration})
    children: list[subprocess.Popen[str]] = []
    start, wait = runner._start, runner._wait

    def remember(*arguments) -> subprocess.Popen[str]:
        children.append(start(*arguments))
        return children[-1]

    def kill_first(child: subprocess.Popen[str], show) -> str:
        if child is children[0]:
            child.kill()
        return wait(child, show)

    monkeypatch.setattr(runner, "_start", remember)
    monkeypatch.setattr(runner, "_wait", kill_first)
    outcome = run_all(settings, only=("labels",))
    assert not outcome.failures and not outcome.waiting
    shards = [str(child.args).partition("--shards', '")[2].partition("'")[0] for child in children]
    assert shards == ["000,002", "001,003"] and [child.returncode for child in children] == [-9, 0]
    assert "of shards 000, 002 ended early (exit code -9); what is missing of them is labelled here" in caplog.text
    compare(own_copy.home, finished_home)
