"""A stage whose endpoint dies in the middle keeps its finished chunks and goes on from there."""

from typing import Any

import polars as pl
import pytest
from completions_server import Answer, completion, serve

from cpmi_dagster.errors import ModelError
from cpmi_dagster.generation.completions_client import Endpoint
from cpmi_dagster.generation.endpoint_engine import EndpointEngine
from cpmi_dagster.generation.monte_carlo import prefix_rollouts
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.progress import LoggedProgress
from cpmi_dagster.resources.dag.stage import Stage, stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.lake.database import Database
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.resources.workers.chunks import Advance, StageOutput
from cpmi_dagster.resources.workers.language_models import LanguageModels

pytestmark = pytest.mark.slow

ROLLOUTS = "labels/policy_rollouts"
SAMPLING = Sampling(temperature=0.6, top_p=0.95, max_new_tokens=16)
TRAJECTORIES = pl.DataFrame(
    {
        "trajectory_id": list("abcde"),
        "question": [f"What is {number}?" for number in range(5)],
        "steps": [["So"]] * 5,
        "gold_answer": [str(number) for number in range(5)],
    }
)


def rollouts_from(url: str) -> Stage:
    engine = EndpointEngine(Endpoint(url, "tiny", max_retries=1), "tiny@here", lambda: None)

    @stage(ROLLOUTS, inputs=[])
    def policy_rollouts(run: StageRun, shard: str) -> StageOutput:
        """Two trajectories a chunk."""

        def make(chunk: pl.DataFrame, advance: Advance) -> StageOutput:
            frame, cost = prefix_rollouts(chunk, engine, None, 1, 1, SAMPLING, 0, progress=advance)
            return StageOutput(frame, engine.identity, cost)

        return run.in_chunks(shard, TRAJECTORIES, 2, make)

    return policy_rollouts


def test_an_endpoint_that_dies_keeps_what_is_done(tmp_path):
    settings = load_settings("miniature", home=tmp_path)
    lake = Lake.of(settings)
    dead = True

    def answer(body: dict[str, Any]) -> Answer:
        number = next(number for number in range(5) if f"What is {number}?" in body["prompt"])
        if dead and number >= 3:
            return Answer({"error": {"message": "the engine died"}}, 500)
        usage = {"prompt_tokens": 10, "completion_tokens": 6}
        return Answer(completion(f"The answer is: {number}\n", usage=usage))

    with serve(answer) as server:
        declared = rollouts_from(server.url)
        run = StageRun(
            declared.name, declared.tables, settings, lake, LanguageModels(settings), DataSources(settings),
            Database(lake), LoggedProgress(), "r", lambda line: None,
        )  # fmt: skip
        with pytest.raises(ModelError, match=r"prompt 2 of 2, at last with: status 500: the engine died"):
            declared.bring_up_to_date(run, "000")
        assert not lake.exists(ROLLOUTS)
        dead = False
        asked = len(server.requests)
        declared.bring_up_to_date(run, "000")
        again = {body["prompt"].partition("What is ")[2][0] for body in server.requests[asked:]}
    assert again == {"2", "3", "4"}
    made = lake.read(ROLLOUTS, "000")
    assert made["trajectory_id"].to_list() == list("abcde") and made["correct"].all()
    record = lake.record(ROLLOUTS, "000")
    assert record and record.cost["forward_tokens"] == 5 * 16
