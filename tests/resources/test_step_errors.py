"""What may pass is tried again, what the user must correct fails at once."""

import dagster as dg
import httpx2
import pytest

from cpmi_dagster.errors import ModelError, PassingError, ScoringError, may_pass
from cpmi_dagster.profiles.orchestration import Orchestration
from cpmi_dagster.reading.tree_reader import OutOfMemory
from cpmi_dagster.resources.dag.step_errors import step_errors


class OutOfMemoryError(RuntimeError):
    """As torch names its own."""


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (PassingError("the server does not answer"), True),
        (OutOfMemory("no memory"), True),
        (OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError(), True),
        (ConnectionResetError(), True),
        (httpx2.ConnectError("no route"), True),
        (caused(ModelError("cannot be read from the hub"), ConnectionError()), True),
        (ScoringError("trajectory t7 cannot be scored"), False),
        (ModelError("the endpoint refused the prompt"), False),
        (KeyError("x"), False),
        (FileNotFoundError("x"), False),
    ],
)
def test_memory_servers_and_networks_may_pass(error, passes):
    assert may_pass(error) == passes


def attempts(error: Exception, retries: int) -> tuple[int, str]:
    """How often a step is begun, and what it fails with."""
    begun = 0

    @dg.asset
    def fails(context: dg.AssetExecutionContext) -> None:
        nonlocal begun
        begun += 1
        with step_errors(context, Orchestration(retries=retries, retry_seconds=0)):
            raise error

    result = dg.materialize([fails], raise_on_error=False)
    data = result.get_step_failure_events()[0].step_failure_data
    return begun, (data.user_failure_data and data.user_failure_data.description) or data.error.to_string()


def test_a_step_is_begun_again_as_often_as_the_profile_says_and_then_says_why():
    assert attempts(PassingError("the server does not answer"), 2) == (3, "the server does not answer")


def test_each_wait_is_announced_where_cpmi_shows_it(caplog):
    attempts(PassingError("the server does not answer"), 2)
    said = [record.message for record in caplog.records if record.name == "cpmi_dagster.resources.dag.step_errors"]
    assert said == [f"fails: the server does not answer; trying again in 0 s ({count} of 2)" for count in (1, 2)]


def test_bad_input_is_not_tried_again_and_names_the_trajectories():
    error = ScoringError("a value is not finite")
    error.add_note("among 9 trajectories from t1 on")
    assert attempts(error, 2) == (1, "a value is not finite (among 9 trajectories from t1 on)")


def test_a_fault_of_ours_is_not_tried_again_and_keeps_its_traceback():
    begun, reason = attempts(KeyError("nothing"), 2)
    assert begun == 1
    assert "KeyError: 'nothing'" in reason
