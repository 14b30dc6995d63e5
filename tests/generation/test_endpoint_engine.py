"""What an endpoint may answer, and what the engine makes of it. Scripted servers on this machine."""

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import openai
import pytest
from completions_server import Answer, Server, completion, serve

from cpmi_dagster.errors import ModelError, PassingError
from cpmi_dagster.generation.endpoint_engine import EndpointEngine, generation_of
from cpmi_dagster.generation.engine import NO_ROOM, Generation
from cpmi_dagster.generation.settings import Sampling

pytestmark = pytest.mark.slow

SAMPLING = Sampling(temperature=0.6, top_p=0.95, top_k=20, max_new_tokens=16)
KEY = "sk-very-secret"
USAGE = {"prompt_tokens": 5, "completion_tokens": 4}
GOOD = Answer(completion("fine", usage=USAGE))
LONG = 120


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


@pytest.mark.parametrize("status", [503, 429, 408])
def test_what_may_pass_is_asked_again_with_the_same_seed(status):
    with serve(in_turn(Answer({"error": {"message": "overloaded"}}, status), GOOD)) as server:
        generations = engine_of(server).generate(["a"], SAMPLING, 1, 0)
    assert generations == [[Generation("fine", 4, False, 5)]]
    first, second = server.requests
    assert first == second


@pytest.mark.parametrize(
    "reply",
    [
        b"<html>gateway</html>",
        ["no", "object"],
        {"choices": []},
        {"choices": [{"finish_reason": "stop"}]},
        {"choices": [{"text": None, "finish_reason": "stop"}]},
        {"choices": [{"text": "no end"}]},
        completion("cut off", finish="abort"),
    ],
    ids=str,
)
def test_a_reply_that_is_no_finished_completion_is_an_error_that_may_pass(reply):
    with serve(in_turn(Answer(reply))) as server, pytest.raises(PassingError, match=r"prompt 1 of 1, .* no finished"):
        engine_of(server).generate(["a"], SAMPLING, 1, 0)


def test_after_the_last_try_the_error_names_endpoint_prompt_reason_and_what_to_do():
    def answer(body: dict[str, Any]) -> Answer:
        return Answer({"error": {"message": f"boom {KEY}"}}, 500) if body["prompt"] == "bad" else GOOD

    with serve(answer) as server, pytest.raises(PassingError) as caught:
        engine_of(server, requests_in_flight=1).generate(["good", "bad"], SAMPLING, 1, 0)
    message = str(caught.value)
    assert f"endpoint {server.url} failed at prompt 2 of 2, at last with: status 500: boom ***" in message
    assert "run again: chunks that were finished are kept" in message
    assert len(server.requests) == 1 + 3


def test_a_server_that_is_not_there_is_an_error_that_says_so():
    with (
        socket.socket() as silent,
        pytest.raises(PassingError, match=r"prompt 1 of 1, at last with: ConnectError"),
    ):
        silent.bind(("127.0.0.1", 0))  # nobody else can listen there
        server = Server(f"http://127.0.0.1:{silent.getsockname()[1]}/v1")
        engine_of(server, max_retries=1).generate(["a"], SAMPLING, 1, 0)


@pytest.mark.parametrize(
    ("status", "said", "advice"),
    [
        (401, f"Incorrect API key provided: {KEY}", "`api_key_variable`"),
        (404, "The model `tiny` does not exist", "`served_name`"),
        (400, "Unrecognized request argument supplied: top_k", "set `top_k: 0`"),
        (422, "n must be at most 1", "check the model's settings"),
        (307, "elsewhere", "check the model's settings"),
    ],
)
def test_a_refusal_ends_at_once_with_the_servers_words_and_without_the_key(status, said, advice):
    with serve(in_turn(Answer({"error": {"message": said}}, status))) as server, pytest.raises(ModelError) as caught:
        engine_of(server).generate(["a"], SAMPLING, 1, 0)
    message = str(caught.value)
    assert f"refused prompt 1 of 1 with status {status}: {said.replace(KEY, '***')}" in message
    assert advice in message and KEY not in message
    assert caught.value.__suppress_context__
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "said", [f"{'x' * 285}{KEY}", f"bad\n{KEY}", f"\x1b]52;c;{KEY}\x07", f'{{"received": "{KEY}"}}']
)
def test_the_key_is_in_no_message(said):
    for answer in (Answer(said.encode(), 401), Answer({"error": said}, 500), Answer({"choices": [], "detail": said})):
        with serve(in_turn(answer)) as server, pytest.raises(ModelError) as caught:
            engine_of(server, max_retries=0).generate(["a"], SAMPLING, 1, 0)
        assert KEY[:10] not in str(caught.value) and "\x1b" not in str(caught.value)


def test_the_key_is_sent_as_a_bearer_token_and_shown_nowhere():
    with serve(in_turn(GOOD)) as server:
        engine = engine_of(server)
        engine.generate(["a"], SAMPLING, 1, 0)
        assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
        assert KEY not in repr(engine)


def test_nothing_of_an_openai_account_is_sent_to_a_server_that_asks_for_no_key(monkeypatch):
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID"):
        monkeypatch.setenv(f"OPENAI_{name}", KEY)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"Authorization: {KEY}")
    with serve(in_turn(GOOD)) as server:
        engine_of(server, api_key=None).generate(["a"], SAMPLING, 1, 0)
    assert "Authorization" not in server.headers[0]
    assert KEY not in str(server.headers[0])


def test_results_keep_the_order_of_the_prompts_and_few_requests_are_in_flight():
    prompts = [f"p{number}" for number in range(6)]
    three, answered = threading.Barrier(3, timeout=LONG), {prompt: threading.Event() for prompt in prompts}

    def answer(body: dict[str, Any]) -> Answer:
        prompt = body["prompt"]
        three.wait()
        # of three requests in flight, the last is answered first
        assert prompt in ("p2", "p5") or answered[prompts[prompts.index(prompt) + 1]].wait(LONG)
        answered[prompt].set()
        return Answer(completion(prompt.upper(), usage=USAGE))

    with serve(answer) as server:
        generations = engine_of(server, requests_in_flight=3).generate(prompts, SAMPLING, 1, 0)
    assert [group[0].text for group in generations] == [prompt.upper() for prompt in prompts]
    assert server.most_at_once == 3


def seeds_of(prompts: list[str], seed: int, samples: int = 1, first: int = 0) -> list[int]:
    with serve(in_turn(GOOD)) as server:
        engine_of(server, requests_in_flight=1).generate(prompts, SAMPLING, samples, seed, first=first)
    return [request["seed"] for request in server.requests]


def test_request_seeds_belong_to_seed_prompt_and_number():
    seeds = seeds_of(["a", "b"], 0)
    assert seeds == seeds_of(["b", "a"], 0)[::-1]
    assert len({*seeds, *seeds_of(["a"], 1)}) == 3
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert seeds_of(["a"], 0, samples=3)[2:] == seeds_of(["a"], 0, first=2)


def test_a_request_says_what_the_settings_say_and_nothing_a_plain_server_does_not_know():
    plain = Sampling(temperature=0.7, top_p=0.9, max_new_tokens=8)
    with serve(in_turn(GOOD)) as server:
        engine_of(server).generate(["a"], SAMPLING, 1, 0, stop="line")
        engine_of(server).generate(["a"], plain, 1, 0)
    first, second = ({name: value for name, value in one.items() if name != "seed"} for one in server.requests)
    known = {"path": "/v1/completions", "model": "tiny", "prompt": "a"}
    sampling = {"max_tokens": 16, "temperature": 0.6, "top_p": 0.95, "top_k": 20}
    assert first == {**known, **sampling, "stop": ["\n"]}
    assert second == {**known, "max_tokens": 8, "temperature": 0.7, "top_p": 0.9}


@pytest.mark.parametrize(
    ("text", "finish", "kept", "truncated"),
    [
        ("2 + 3 = 5\nThe answer is: 5\nProblem: next", "length", "2 + 3 = 5\nThe answer is: 5\n", False),
        ("2 + 3 = 5\nThe answer is: 5", "length", "2 + 3 = 5\nThe answer is: 5", True),
        ("2 + 3 = 5\nThe answer is: 5", "stop", "2 + 3 = 5\nThe answer is: 5", False),
        ("no answer\n", "length", "no answer\n", True),
        ("half \ud800", "stop", "half �", False),
    ],
)
def test_texts_are_cut_behind_the_answer_and_truncated_where_the_limit_came_first(text, finish, kept, truncated):
    with serve(in_turn(Answer(completion(text, finish=finish, usage=USAGE)))) as server:
        ((one,),) = engine_of(server).generate(["a"], SAMPLING, 1, 0)
    assert (one.text, one.truncated, one.tokens) == (kept, truncated, 4)


@pytest.mark.parametrize(
    ("choice", "kept"),
    [({}, "24\n"), ({"stop_reason": "\n"}, "24\n"), ({"stop_reason": None}, "24"), ({"finish": "length"}, "24")],
)
def test_a_line_gets_back_the_newline_that_ended_it(choice, kept):
    with serve(in_turn(Answer(completion("24", usage=USAGE, **choice)))) as server:
        ((one,),) = engine_of(server).generate(["a"], SAMPLING, 1, 0, stop="line")
    assert one.text == kept


def test_tokens_are_those_the_server_counts():
    with serve(in_turn(GOOD, Answer(completion("fine")))) as server:
        engine = engine_of(server)
        counted, uncounted = (engine.generate(["a"], SAMPLING, 1, 0)[0][0] for _ in range(2))
    assert (counted.tokens, counted.prompt_tokens) == (4, 5)
    assert (uncounted.tokens, uncounted.prompt_tokens) == (0, 0)


@pytest.mark.parametrize("usage", [[1], *({"completion_tokens": count} for count in (-5, 1e999, 10**30))])
def test_a_count_that_no_reply_can_have_is_none(usage):
    reply = json.dumps({"choices": [{"text": "fine", "finish_reason": "stop"}], "usage": usage})
    assert generation_of(reply, "answer").tokens == 0


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"),
        (400, "the request exceeds the available context size, try increasing it"),
        (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096"),
    ],
)
def test_a_prompt_without_room_is_known_by_the_servers_words(status, message):
    with serve(in_turn(Answer({"error": {"message": message}}, status))) as server:
        assert engine_of(server).generate(["a"], SAMPLING, 2, 0) == [[NO_ROOM] * 2]
