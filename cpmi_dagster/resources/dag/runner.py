"""`cpmi run`: makes what is missing or stale, run after run in this process, so that models are loaded once.

    ingest         sources, alignment, selection        one run
    label_shards   000, then 001, …                     one run a shard; a shard that fails stops no other
    build_dataset, train_and_evaluate, build_reports

A partition that is current by `States` is not run. On several GPUs, a child process for each labels its part of the
shards, on the GPU that it is dealt:

    orchestration.gpus: 4, shards 000 to 007   ->   000 and 004 by the first process, 001 and 005 by the second, …
"""

import logging
import os
import shlex
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import IO

import dagster as dg

from cpmi_dagster.contracts.keys import STEP_REWARDS
from cpmi_dagster.errors import FATAL_NAMES, CpmiError, Interrupted
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.models.processors import THREADS, usable_cores
from cpmi_dagster.profiles.partitions import needed_assets, partition_words, partitions_of
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.checks import blocked
from cpmi_dagster.resources.dag.general_checks import EVERY_ASSETS, IS_CURRENT, unreported
from cpmi_dagster.resources.dag.instance import PROCESS_TAG, hold_run
from cpmi_dagster.resources.dag.jobs import DATASET, INGEST, JUDGE_FILES, LABEL, TRAIN, label_tables, phases
from cpmi_dagster.resources.dag.making import INTERRUPTED, reason_of
from cpmi_dagster.resources.dag.stage import Stage, asset_key, distinct
from cpmi_dagster.resources.dag.stage_run import Home
from cpmi_dagster.resources.dag.states import States

CHECK_FAILED = "DagsterAssetCheckFailedError"
# the pages of a job find its runs by this tag, which Dagster sets on runs from a code server
OF_THIS_LOCATION = {".dagster/repository": "__repository__@cpmi"}
# the terminal shows progress instead of the log
WITHOUT_LOG = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
LOOK_EVERY_SECONDS = 5.0
LAST_LINES = 3
CHILD = "LABELS_FOR_CPMI_RUN"
"""The environment variable that marks a child process."""
Current = Callable[[Sequence[str], Iterable[str]], set[str]]
"""Gives those of some shards of which all files of some tables are current."""
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """The result of `cpmi run`, in sentences.

    Attributes:
        failures: a sentence per failed step or blocking check.
        failed_checks: by name, a sentence per failed check that stops nothing.
        waiting: why a phase was not started.
    """

    failures: list[str] = field(default_factory=list)
    failed_checks: dict[str, str] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Raise what failed.

        Raises:
            Interrupted: a signal has stopped the run.
            CpmiError: something else failed.
        """
        if self.failures:
            stopped = any(each.endswith(INTERRUPTED) for each in self.failures)
            raise (Interrupted if stopped else CpmiError)("; ".join(self.failures))


@dataclass(frozen=True)
class Runner:
    """Runs the stages of a home in this process."""

    definitions: dg.Definitions
    home: Home
    instance: dg.DagsterInstance
    outcome: Outcome = field(default_factory=Outcome)
    labelled_elsewhere: set[str] = field(default_factory=set)
    """Shards that child processes label on the GPUs."""

    def run(self, shards: Sequence[str], wanted: Set[str], labelled: Callable[[], None]) -> Outcome:
        """Make what is missing or stale, phase by phase; a failed phase ends the run.

        Args:
            shards: to label; what comes before labeling is made for all shards.
            wanted: keys of tables.
            labelled: called after labeling, before reward models are trained.
        """
        tables_of = phases(self.home.settings)
        for phase, tables in tables_of.items():
            selection = [key for key in tables if key in wanted]
            if not selection:
                continue
            if phase not in (INGEST, LABEL) and (due := self._due_elsewhere(shards)):
                self.outcome.waiting.append(
                    f"`{phase}` and everything after it wait for {partition_words(STEP_REWARDS, due)}, missing or "
                    "stale: soft labels are over the whole set; run without --shards to label them"
                )
                break
            if phase == LABEL:
                given = label_on_gpus(self.home, shards, selection, self._current)
                self.labelled_elsewhere.update(given)
            self._run_phase(phase, shards, selection)
            if self.outcome.failures:
                break
            if phase == DATASET and self.home.settings.recipes and wanted & set(tables_of.get(TRAIN, ())):
                labelled()
        self._report_currency()
        return self.outcome

    def _due_elsewhere(self, shards: Sequence[str]) -> list[str]:
        """The shards that are not asked for, and whose labels are missing or stale."""
        others = set(self.home.settings.shard_keys) - set(shards)
        return sorted(others - self._current(label_tables(self.home.settings), others))

    def _report_currency(self) -> None:
        """Have Dagster know which tables are current now; a child process leaves that to its parent."""
        if environment_variable(CHILD):
            return
        tables, states = needed_assets(self.home.settings), self.home.states()
        if changed := unreported(self.instance, tables, states):
            checks = frozenset(dg.AssetCheckKey(asset_key(key), IS_CURRENT) for key in changed)
            self._execute(self.definitions.resolve_job_def(JUDGE_FILES).get_subset(asset_check_selection=checks), None)

    def _run_phase(self, phase: str, shards: Sequence[str], selection: Sequence[str]) -> None:
        """Make some tables of a phase; a partition that fails stops what follows, but no other partition."""
        stages = distinct(self.home.stages[key] for key in selection)
        keys = partitions_of(stages[0].table, self.home.settings) if stages[0].run_partitioning else None
        partitions = [None] if keys is None else list(shards) if phase == LABEL else keys
        states = self.home.states()
        to_run = [each for each in partitions if not self._skips(states, stages, each)]
        if not to_run:
            # Dagster runs checks in runs alone, and what one has refused before may still be there
            self.outcome.failures.extend(blocked(self.home.lake, self.home.settings, selection))
            return
        assets = frozenset(asset_key(key) for stage in stages for key in stage.assets)
        job = self.definitions.resolve_job_def(phase).get_subset(asset_selection=assets)
        for partition in to_run:
            if self._run_job(phase, job, partition):
                return

    def _current(self, tables: Sequence[str], shards: Iterable[str]) -> set[str]:
        """The shards of which all files are current."""
        states = self.home.states()
        return {shard for shard in shards if all(states.state(key, shard).kind == "current" for key in tables)}

    def _skips(self, states: States, stages: Sequence[Stage], partition: str | None) -> bool:
        """Whether a run would do nothing: each file is current and whole."""
        began = time.monotonic()
        made = [(stage, name) for stage in stages for name in self.home.made_in_a_run(stage, partition)]
        for stage, name in made:
            if f"{stage.table} {name}" in self.home.remake or not states.is_done(stage, name):
                return False
        for stage, name in made:
            rows, seconds = states.rows(stage, name), time.monotonic() - began
            is_new = stage.run_partitioning == "shard" and partition in self.labelled_elsewhere
            self.home.progress.finish_partition(stage.name, name, rows, seconds, skipped=not is_new)
        return True

    def _execute(self, job: dg.JobDefinition, partition: str | None) -> dg.ExecuteInProcessResult:
        run_id = str(uuid.uuid4())
        hold_run(self.home.settings, run_id)
        return job.execute_in_process(
            instance=self.instance,
            run_id=run_id,
            partition_key=partition,
            tags={**OF_THIS_LOCATION, "dagster/max_retries": "0", PROCESS_TAG: str(os.getpid())},
            run_config=WITHOUT_LOG,
            raise_on_error=False,
        )

    def _run_job(self, phase: str, job: dg.JobDefinition, partition: str | None) -> bool:
        """Run a job of a phase for a partition.

        Returns:
            Whether other partitions would fail too: a signal ended it, or a model, the disk or a setting is wrong.
        """
        result = self._execute(job, partition)
        failures = result.get_step_failure_events()
        evaluated = (each for each in result.get_asset_check_evaluations() if each.check_name not in EVERY_ASSETS)
        failed = [each for each in evaluated if not each.passed]
        stopping = [each for each in failed if each.blocking and each.severity == dg.AssetCheckSeverity.ERROR]
        errors = [event.step_failure_data.error for event in failures]
        where = f" {partition}" if partition else ""
        sentences = [f"{event.step_key}{where}: {reason_of(event)}" for event in failures]
        if stopping and all(getattr(error, "cls_name", "") == CHECK_FAILED for error in errors):
            # Dagster's error does not say what the check saw
            sentences, failed = [*_by_name(stopping).values()], [each for each in failed if each not in stopping]
        self.outcome.failures.extend(each for each in sentences if each not in self.outcome.failures)
        self.outcome.failed_checks.update(_notes_on(failed))
        if not result.success and not sentences:
            # an error or signal between steps, in Dagster
            unfinished = f"{phase}{where}: the run did not finish; run again to continue where it stopped"
            self.outcome.failures.append(unfinished)
            return True
        causes = {getattr(getattr(error, "cause", None), "cls_name", "") for error in errors}
        return bool(causes & FATAL_NAMES) or any(reason_of(event) == INTERRUPTED for event in failures)


def _by_name(evaluations: Collection[dg.AssetCheckEvaluation]) -> dict[str, str]:
    """A sentence by name of failed check: the name, and the description or metadata."""
    sentences = {}
    for each in evaluations:
        name = f"{each.asset_key.to_user_string()}: {each.check_name}"
        values = ", ".join(f"{label} {entry.value}" for label, entry in each.metadata.items())
        sentences[name] = f"{name}: {each.description or values}".removesuffix(": ")
    return sentences


def _notes_on(evaluations: Collection[dg.AssetCheckEvaluation]) -> dict[str, str]:
    """A sentence by name of failed check that stops nothing; a warning with a description goes without its name."""
    notes = {}
    for each in evaluations:
        ((name, said),) = _by_name([each]).items()
        is_note = each.severity == dg.AssetCheckSeverity.WARN
        notes[name] = f"note: {each.description or said}" if is_note else f"check failed: {said}"
    return notes


def label_on_gpus(home: Home, shards: Sequence[str], tables: Sequence[str], current: Current) -> set[str]:
    """Label shards in one child process per GPU, if the profile has several GPUs and several shards are due.

    A child that fails is logged. The caller labels what is missing afterwards, and meets the error itself if it was not
    the child's alone.

    Returns:
        The shards that were given to children.
    """
    settings = home.settings
    if settings.orchestration.gpus == 1 or settings.is_pilot or environment_variable(CHILD):
        return set()
    labelled = current(tables, shards)
    due = [shard for shard in shards if shard not in labelled]
    if len(due) < 2:
        return set()
    parts = [due[start :: settings.orchestration.gpus] for start in range(min(settings.orchestration.gpus, len(due)))]
    home.models.device("labeler")  # warns here of a labeler on the CPU: what children say is shown only if they fail
    home.models.leave_place()  # children need it, and this process's GPU
    remaining, advance = set(due), home.progress.start(f"shards on {len(parts)} GPUs", len(due), LOG.info)

    def show() -> None:
        labelled = current(tables, remaining)
        remaining.difference_update(labelled)
        advance(len(labelled))

    with ExitStack() as files:
        # a full pipe would stop a child
        errors = [files.enter_context(TemporaryFile("w+", encoding="utf-8", errors="replace")) for _ in parts]
        children = [_start(settings, part, tables, file) for part, file in zip(parts, errors, strict=True)]
        try:
            for child in children:
                _wait(child, show)
        finally:
            for child in children:
                child.terminate()
        last_lines = []
        for file in errors:
            file.seek(0)
            last_lines.append(file.read().strip().splitlines()[-LAST_LINES:])
    for child, part, lines in zip(children, parts, last_lines, strict=True):
        if child.returncode:
            reason = "; ".join(lines) or f"exit code {child.returncode}"
            place = f"of shards {', '.join(part)} ended early"
            LOG.warning(f"the process {place} ({reason}); what is missing of them is labelled here")
    return set(due)


def _wait(child: subprocess.Popen[str], show: Callable[[], None]) -> None:
    """Wait until a child ends, and show the progress meanwhile."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout=LOOK_EVERY_SECONDS)
            return
        show()


def _start(settings: Settings, shards: Sequence[str], tables: Sequence[str], errors: IO[str]) -> subprocess.Popen[str]:
    """Start a child. It sees the GPUs that this process sees, and its own dealer assigns it one."""
    options = [*shlex.split(settings.profile_option), "--shards", ",".join(shards), "--quiet"]
    only = [word for table in tables for word in ("--only", table)]
    threads = environment_variable(THREADS) or str(max(1, usable_cores() // settings.orchestration.gpus))
    variables = {CHILD: "1", "CPMI_HOME": str(settings.home.absolute()), THREADS: threads}
    command = [sys.executable, "-m", "cpmi_dagster", "run", *options, *only]
    return subprocess.Popen(command, env={**os.environ, **variables}, stderr=errors, text=True)
