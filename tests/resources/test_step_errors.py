"""What may pass is tried again, what the user must correct fails at once."""

import dagster as dg
import httpx2
import pytest

from cpmi_dagster.errors import ScoringError, TransientError
from cpmi_dagster.profiles.orchestration import Orchestration
from cpmi_dagster.reading.tree_reader import OutOfMemory
from cpmi_dagster.resources.dag.step_errors import step_errors

UNSCORED = ScoringError("a value is not finite")
UNSCORED.add_note("among 9 trajectories from t1 on")


@pytest.mark.parametrize(
    ("error", "attempts", "reason"),
    [
        (TransientError("the server does not answer"), 3, "the server does not answer"),
        (httpx2.ConnectError("no route"), 3, "no route"),
        (OutOfMemory("no memory"), 3, "no memory"),
        (UNSCORED, 1, "a value is not finite (among 9 trajectories from t1 on)"),
        (KeyError("nothing"), 1, "KeyError: 'nothing'"),
    ],
)
def test_a_step_is_begun_again_only_after_an_error_that_may_pass_and_then_says_why(error, attempts, reason):
    begun = []

    @dg.asset
    def fails(context: dg.AssetExecutionContext) -> None:
        begun.append(error)
        with step_errors(context, Orchestration(retries=2, retry_seconds=0)):
            raise error

    data = dg.materialize([fails], raise_on_error=False).get_step_failure_events()[0].step_failure_data
    said = (data.user_failure_data and data.user_failure_data.description) or data.error.to_string()
    assert len(begun) == attempts and reason in said
