"""Errors in a step: a transient one is retried, one that the user must correct fails at once.

TransientError, MemoryError, ConnectionError, torch.OutOfMemoryError, …    retried after 30 s, 60 s, 120 s
any other CpmiError                                                     failed, with its sentence
anything else                                                           failed, with its traceback
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from cpmi_dagster.errors import CpmiError, first_line, is_transient, with_notes
from cpmi_dagster.profiles.orchestration import Orchestration

INTERRUPTED = "interrupted; run again to continue where it stopped"
LOG = logging.getLogger(__name__)


@contextmanager
def step_errors(context: dg.AssetExecutionContext, orchestration: Orchestration) -> Iterator[None]:
    """Turn an error of a step into Dagster's request for a retry, or its failure.

    Raises:
        RetryRequested: the error is transient, and the step has attempts left.
        Failure: the user can correct the error.
    """
    try:
        yield
    except Exception as error:
        attempt = context.op_execution_context.retry_number
        if is_transient(error) and attempt < orchestration.retries:
            wait = orchestration.retry_seconds * 2**attempt
            again = f"trying again in {wait:g} s ({attempt + 1} of {orchestration.retries})"
            said = f"{context.op_execution_context.op.name}: {first_line(error)}; {again}"
            context.log.warning(said)
            # `cpmi run` shows no lines of Dagster's log
            LOG.warning(said)
            raise dg.RetryRequested(max_retries=orchestration.retries, seconds_to_wait=wait) from error
        if isinstance(error, CpmiError):
            raise dg.Failure(description=with_notes(error), allow_retries=False) from error
        raise


def reason_of(event: dg.DagsterEvent) -> str:
    """Why a step failed, in one sentence, from the event of its failure."""
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return data.user_failure_data.description
    cause = (data.error.cause or data.error) if data.error else None
    if cause is None:
        return "unknown"
    interrupted = cause.cls_name in ("DagsterExecutionInterruptedError", "KeyboardInterrupt")
    return INTERRUPTED if interrupted else first_line(Exception(cause.message))
