"""What an endpoint may answer, and what the engine makes of it. Scripted servers on this machine."""

import threading
from collections.abc import Callable
from typing import Any

import openai
import pytest
from completions_server import Answer, Server, completion, serve

from cpmi_dagster.errors import ModelError, TransientError
from cpmi_dagster.generation.endpoint_engine import EndpointEngine
from cpmi_dagster.generation.engine import NO_ROOM, Draws, Generation
from cpmi_dagster.generation.settings import Sampling

pytestmark = pytest.mark.slow

SAMPLING = Sampling(temperature=0.6, top_p=0.95, top_k=20, max_new_tokens=16)
KEY = "sk-very-secret"
GOOD = Answer(completion("fine"))


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's first wait before another try, half a second, shortened."""
    monkeypatch.setattr(openai._base_client, "INITIAL_RETRY_DELAY", 0.01)


def engine_of(server: Server, **changes: Any) -> EndpointEngine:
    return EndpointEngine(server.url, "tiny", "tiny@here", **{"api_key": KEY, "max_retries": 2, **changes})


def in_turn(*answers: Answer) -> Callable[[dict[str, Any]], Answer]:
    """One answer after the other, the last for ever."""
    left, lock = list(answers), threading.Lock()

    def answer(_: dict[str, Any]) -> Answer:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return answer


def test_what_may_pass_is_asked_again_with_the_same_seed():
    passing = [Answer({"error": {"message": "overloaded"}}, status) for status in (503, 429, 408)]
    with serve(in_turn(*passing, GOOD)) as server:
        assert engine_of(server, max_retries=3).generate(["a"], Draws(SAMPLING, 1, 0)) == [
            [Generation("fine", 4, False, 5)]
        ]
    assert all(request == server.requests[0] for request in server.requests)


@pytest.mark.parametrize("reply", [b"<html>gateway</html>", completion("cut off", finish="abort")], ids=str)
def test_a_reply_that_is_no_finished_completion_is_an_error_that_may_pass(reply):
    with serve(in_turn(Answer(reply))) as server, pytest.raises(TransientError, match=r"1 of 1, .* no finished"):
        engine_of(server).generate(["a"], Draws(SAMPLING, 1, 0))


def test_after_the_last_try_the_error_names_endpoint_prompt_reason_and_what_to_do():
    def answer(body: dict[str, Any]) -> Answer:
        return Answer({"error": {"message": f"boom {KEY}"}}, 500) if body["prompt"] == "bad" else GOOD

    with serve(answer) as server, pytest.raises(TransientError) as caught:
        engine_of(server, requests_in_flight=1).generate(["good", "bad"], Draws(SAMPLING, 1, 0))
    message = str(caught.value)
    assert f"endpoint {server.url} failed at prompt 2 of 2, at last with: status 500: boom ***" in message
    assert "run again: chunks that were finished are kept" in message
    assert len(server.requests) == 1 + 3


@pytest.mark.parametrize(
    ("status", "said", "advice"),
    [
        (401, f"Incorrect API key provided: {KEY}", "`api_key_variable`"),
        (404, "The model `tiny` does not exist", "`served_name`"),
        (400, "Unrecognized request argument supplied: top_k", "set `top_k: 0`"),
    ],
)
def test_a_refusal_ends_the_call_at_once_with_the_servers_words(status, said, advice):
    with serve(in_turn(Answer({"error": {"message": said}}, status))) as server, pytest.raises(ModelError) as caught:
        engine_of(server).generate(["refused"], Draws(SAMPLING, 1, 0))
    message = str(caught.value)
    assert f"refused prompt 1 of 1 with status {status}: {said.replace(KEY, '***')}" in message
    assert advice in message and KEY not in message and len(server.requests) == 1


@pytest.mark.parametrize("said", [f"{'x' * 285}{KEY}", f"bad\n{KEY}", f"\x1b]52;c;{KEY}\x07"])
def test_the_key_is_in_no_message(said):
    for answer in (Answer(said.encode(), 401), Answer({"error": said}, 500), Answer({"choices": [], "detail": said})):
        with serve(in_turn(answer)) as server, pytest.raises(ModelError) as caught:
            engine_of(server, max_retries=0).generate(["a"], Draws(SAMPLING, 1, 0))
        assert KEY[:10] not in str(caught.value) and "\x1b" not in str(caught.value)


def test_the_key_is_sent_as_a_bearer_token_and_nothing_of_an_openai_account_without_one(monkeypatch):
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID"):
        monkeypatch.setenv(f"OPENAI_{name}", KEY)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"Authorization: {KEY}")
    with serve(in_turn(GOOD)) as server:
        for key in (KEY, None):
            engine_of(server, api_key=key).generate(["a"], Draws(SAMPLING, 1, 0))
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert KEY not in str(server.headers[1]) + repr(engine_of(server))


def test_a_request_says_what_the_settings_say_and_its_seed_is_of_seed_prompt_and_number():
    plain = Sampling(temperature=0.7, top_p=0.9, max_new_tokens=8)
    with serve(in_turn(GOOD)) as server:
        engine = engine_of(server, requests_in_flight=1)
        engine.generate(["a"], Draws(SAMPLING, 2, 0, stop="line"))
        engine.generate(["b", "a"], Draws(plain, 1, 0, first=1))
    seeds = [request.pop("seed") for request in server.requests]
    assert seeds[1] == seeds[3] == seeds[0] + 1 and len(set(seeds)) == 3
    assert all(0 <= seed < 2**31 for seed in seeds)
    known = {"path": "/v1/completions", "model": "tiny", "prompt": "a"}
    sampling = {"max_tokens": 16, "temperature": 0.6, "top_p": 0.95, "top_k": 20}
    assert server.requests[0] == {**known, **sampling, "stop": ["\n"]}
    assert server.requests[3] == {**known, "max_tokens": 8, "temperature": 0.7, "top_p": 0.9}


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
        "the request exceeds the available context size, try increasing it",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096",
    ],
)
def test_a_prompt_without_room_is_known_by_the_servers_words(message):
    with serve(in_turn(Answer({"error": {"message": message}}, 400))) as server:
        assert engine_of(server).generate(["a"], Draws(SAMPLING, 2, 0)) == [[NO_ROOM] * 2]
