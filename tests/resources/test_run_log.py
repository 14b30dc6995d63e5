"""CPMI_LOG_FORMAT=json: the compute logs of a run that Dagster has launched are JSON Lines."""

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import logging, sys, warnings
from pathlib import Path
import dagster as dg
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run
from cpmi_dagster.files.json_log import logged_as
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.dagster_home import write_dagster_yaml
from cpmi_dagster.resources.dag.run_life import WatchedExecutor
from cpmi_dagster.resources.dag.run_log import console_loggers

settings = load_settings("miniature", Path(sys.argv[1]))

@dg.op
def label(context: dg.OpExecutionContext) -> None:
    context.log.info("of the run")
    with logged_as(stage="labels.x", shard="003"):
        context.log.warning("of the shard")
        logging.getLogger("cpmi_dagster.resources.lake.lake").warning("of %s", "a module")
        warnings.warn("of Python")
    raise dg.Failure("it cannot be scored")

@dg.job
def labels() -> None:
    label()

# as in a code location
definitions = dg.Definitions(jobs=[labels], executor=WatchedExecutor(settings.home), loggers=console_loggers())
job = definitions.resolve_job_def("labels")

with dg.DagsterInstance.from_config(str(write_dagster_yaml(settings))) as instance:
    run = instance.create_run_for_job(job)
    # as the process of a launched run does
    execute_run(InMemoryJob(job), run, instance)
    print(run.run_id)
"""


def run_program(home: Path, form: str) -> tuple[str, list[str]]:
    """Runs the program: the run's id, and the lines of its compute log."""
    environment = {**os.environ, "CPMI_LOG_FORMAT": form}
    command = [sys.executable, "-c", PROGRAM, str(home)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [file] = (home / "dagster" / "storage").rglob("compute_logs/*.err")
    return done.stdout.split()[-1], file.read_text().splitlines()


def test_every_line_of_a_compute_log_is_an_object_that_names_its_run(tmp_path):
    run_id, lines = run_program(tmp_path, "json")
    said = {line["message"]: line for line in map(json.loads, lines)}
    assert said["of the run"].items() >= {"run_id": run_id, "stage": "label", "level": "INFO"}.items()
    assert said["of the shard"].items() >= {"run_id": run_id, "stage": "labels.x", "shard": "003"}.items()
    assert said["of a module"].items() >= {"logger": "cpmi_dagster.resources.lake.lake", "shard": "003"}.items()
    assert any("UserWarning: of Python" in message for message in said)
    [failure] = [line for line in said.values() if line.get("event") == "STEP_FAILURE"]
    assert "it cannot be scored" in failure["error"]


def test_without_the_setting_a_compute_log_is_text(tmp_path):
    _, lines = run_program(tmp_path, "text")
    assert any(line.endswith("label - of the run") for line in lines)
