"""A stage whose endpoint dies in the middle keeps the answers it has and asks for the others alone."""

from typing import Any

import polars as pl
import pytest
from completions_server import Answer, completion, serve

from cpmi_dagster.contracts.keys import POLICY_ROLLOUTS
from cpmi_dagster.errors import ModelError
from cpmi_dagster.generation.endpoint_engine import EndpointEngine
from cpmi_dagster.generation.monte_carlo import prefix_rollouts
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag import stage
from cpmi_dagster.resources.dag.declaration import StageOutput
from cpmi_dagster.resources.dag.progress import LoggedProgress
from cpmi_dagster.resources.dag.stage import Stage
from cpmi_dagster.resources.dag.stage_run import Home, StageRun
from cpmi_dagster.resources.lake.kept_engine import ANSWER, KEY, KeptEngine
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.resources.workers.language_models import LanguageModels

pytestmark = pytest.mark.slow

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
    server = EndpointEngine(url, "tiny", "tiny@here", max_retries=1)

    def policy_rollouts(run: StageRun) -> StageOutput:
        """Two trajectories a chunk."""
        engine = KeptEngine(run.calls_of({"model": "tiny"}, KEY, ANSWER), "tiny@here", lambda: server, 2)
        frame, _ = prefix_rollouts(TRAJECTORIES, engine, None, 1, 1, SAMPLING, 0)
        return StageOutput(frame, engine.identity, engine.spent)

    return Stage(policy_rollouts, POLICY_ROLLOUTS)


def test_an_endpoint_that_dies_is_asked_for_what_it_did_not_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "publish", lambda *_: None)
    settings = load_settings("miniature", home=tmp_path)
    lake, models, sources = Lake.of(settings), LanguageModels(settings), DataSources(settings)
    dead = True

    def answer(body: dict[str, Any]) -> Answer:
        number = next(number for number in range(5) if f"What is {number}?" in body["prompt"])
        if dead and number >= 3:
            return Answer({"error": {"message": "the engine died"}}, 500)
        usage = {"prompt_tokens": 10, "completion_tokens": 6}
        return Answer(completion(f"The answer is: {number}\n", usage=usage))

    with serve(answer) as server:
        declared = rollouts_from(server.url)
        home = Home(settings, lake, models, sources, LoggedProgress(), {POLICY_ROLLOUTS: declared})
        run = StageRun(declared, home, "000", "r", lambda _: None)
        with pytest.raises(ModelError, match=r"prompt 2 of 2, at last with: status 500: the engine died"):
            declared.bring_up_to_date(run)
        assert not lake.exists(POLICY_ROLLOUTS)
        dead, asked = False, len(server.requests)
        declared.bring_up_to_date(run)
        again = {body["prompt"].partition("What is ")[2][0] for body in server.requests[asked:]}
    assert again == {"2", "3", "4"}
    made, record = lake.read(POLICY_ROLLOUTS, "000"), lake.record(POLICY_ROLLOUTS, "000")
    assert made["trajectory_id"].to_list() == list("abcde") and made["correct"].all()
    assert record and record.cost["forward_tokens"] == 5 * 16
