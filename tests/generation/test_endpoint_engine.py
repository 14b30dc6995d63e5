"""What an endpoint may answer, and what the engine makes of it. Scripted servers on this machine."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import openai
import pytest
from completions_server import Answer, Server, completion, serve

from cpmi_dagster.errors import ModelError, ServerUnreachable
from cpmi_dagster.generation.completion_replies import MalformedReply, checked_reply, has_no_room, reported_count
from cpmi_dagster.generation.completions_client import Endpoint
from cpmi_dagster.generation.endpoint_engine import EndpointEngine
from cpmi_dagster.generation.engine import Generation
from cpmi_dagster.generation.settings import Sampling

pytestmark = pytest.mark.slow

SAMPLING = Sampling(temperature=0.6, top_p=0.95, top_k=20, max_new_tokens=16)
KEY = "sk-very-secret"
USAGE = {"prompt_tokens": 5, "completion_tokens": 4}
GOOD = Answer(completion("fine", usage=USAGE))
LONG = 120
NOW = 1_800_000_000.0
FIRST_WAIT = 0.01


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's first wait before another try, half a second, shortened."""
    monkeypatch.setattr(openai._base_client, "INITIAL_RETRY_DELAY", FIRST_WAIT)


def no_tokenizer() -> Any:
    raise AssertionError("the tokenizer is not needed")


def engine_of(server: Server, load_tokenizer: Callable[[], Any] = no_tokenizer, **changes: Any) -> EndpointEngine:
    settings = {"max_retries": 2, **changes}
    return EndpointEngine(Endpoint(server.url, "tiny", KEY, **settings), "tiny@here", load_tokenizer)


def in_turn(*answers: Answer) -> Callable[[dict[str, Any]], Answer]:
    """One answer after the other, the last for ever."""
    left, lock = list(answers), threading.Lock()

    def answer(_: dict[str, Any]) -> Answer:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return answer


@pytest.mark.parametrize(
    "failure",
    [
        Answer({"error": {"message": "overloaded"}}, 503),
        Answer({"error": {"message": "slow down"}}, 429),
        Answer({"detail": "late"}, 408),
        Answer(b"<html>gateway</html>"),
        Answer(["no", "object"]),
        Answer({"error": "out of memory"}),
        Answer({"choices": []}),
        Answer({"choices": [{"finish_reason": "stop"}]}),
        Answer({"choices": [{"text": None, "finish_reason": "stop"}]}),
        Answer(completion("cut off", finish="abort")),
        Answer({"choices": [{"text": "no end"}]}),
    ],
    ids=lambda failure: failure.payload().decode()[:40],
)
def test_what_may_pass_is_asked_again_with_the_same_seed(failure):
    with serve(in_turn(failure, GOOD)) as server:
        generations = engine_of(server).generate(["a"], SAMPLING, 1, 0)
    assert generations == [[Generation("fine", 4, False, 5)]]
    first, second = server.requests
    assert first == second


def test_texts_that_a_server_leaves_out_are_asked_for_one_by_one_with_seeds_of_their_own():
    usage = [{"prompt_tokens": 6, "completion_tokens": count} for count in (2, 3, 4)]
    replies = [
        Answer(completion(text, usage=count)) for text, count in zip(("one", "two", "three"), usage, strict=True)
    ]
    with serve(in_turn(*replies)) as server:
        (group,) = engine_of(server, requests_in_flight=1).generate(["a"], SAMPLING, 3, 0)
    assert [(one.text, one.tokens, one.prompt_tokens) for one in group] == [
        ("one", 2, 6),
        ("two", 3, 6),
        ("three", 4, 6),
    ]
    assert [request["n"] for request in server.requests] == [3, 1, 1]
    first = server.requests[0]["seed"]
    assert [request["seed"] - first for request in server.requests] == [0, 1, 2]


class FakeTokenizer:
    """A token is a word."""

    bos_token_id = None

    def __call__(self, texts, **_):
        return {"input_ids": [text.split() for text in texts]}

    def encode(self, text, add_special_tokens=True):
        return text.split()


def test_a_reply_that_is_not_whole_in_time_is_asked_for_again(monkeypatch):
    begin_limit, limits = asyncio.timeout, []

    def timeout(seconds: float) -> asyncio.Timeout:
        limits.append((seconds, begin_limit(None), asyncio.get_running_loop()))
        return limits[-1][1]

    def pass_limit() -> None:
        _, limit, loop = limits[-1]
        loop.call_soon_threadsafe(limit.reschedule, 0)

    monkeypatch.setattr(asyncio, "timeout", timeout)
    with serve(in_turn(Answer(GOOD.body, breaks_off=pass_limit), GOOD)) as server:
        (group,) = engine_of(server, timeout_seconds=LONG).generate(["a"], SAMPLING, 1, 0)
    assert group[0].text == "fine" and len(server.requests) == 2
    assert [(seconds, limit.expired()) for seconds, limit, _ in limits] == [(LONG, True), (LONG, False)]


def test_after_the_last_try_the_error_names_endpoint_prompt_reason_and_what_to_do():
    def answer(body: dict[str, Any]) -> Answer:
        return Answer({"error": {"message": f"boom {KEY}"}}, 500) if body["prompt"] == "bad" else GOOD

    with serve(answer) as server, pytest.raises(ModelError) as caught:
        engine_of(server, requests_in_flight=1).generate(["good", "bad"], SAMPLING, 1, 0)
    message = str(caught.value)
    assert f"endpoint {server.url} failed 3 times at prompt 2 of 2, at last with: status 500: boom ***" in message
    assert "run again: chunks that were finished are kept" in message
    assert len(server.requests) == 1 + 3


def test_a_server_that_is_not_there_is_an_error_that_says_so():
    with (
        socket.socket() as silent,
        pytest.raises(ServerUnreachable, match=r"prompt 1 of 1, at last with: ConnectError"),
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
    assert len(server.requests) == 1


def test_the_key_is_sent_as_a_bearer_token_and_shown_nowhere():
    with serve(in_turn(GOOD)) as server:
        engine = engine_of(server)
        engine.generate(["a"], SAMPLING, 1, 0)
        assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
        assert KEY not in repr(engine.endpoint)


def test_nothing_of_an_openai_account_is_sent_to_a_server_that_asks_for_no_key(monkeypatch):
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID"):
        monkeypatch.setenv(f"OPENAI_{name}", KEY)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"Authorization: {KEY}")
    with serve(in_turn(GOOD)) as server:
        EndpointEngine(Endpoint(server.url, "tiny"), "tiny@here", no_tokenizer).generate(["a"], SAMPLING, 1, 0)
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


def test_choices_are_ordered_by_their_index_and_those_too_many_left_out():
    reply = completion("b", "a", "c", token_ids=[7])
    for choice, index in zip(reply["choices"], (1, 0, 2), strict=True):
        choice["index"] = index
    with serve(in_turn(Answer({**reply, "usage": USAGE}))) as server:
        (group,) = engine_of(server).generate(["p"], SAMPLING, 2, 0)
    assert [(one.text, one.tokens) for one in group] == [("a", 1), ("b", 1)]


def seeds_of(prompts: list[str], seed: int) -> list[int]:
    with serve(in_turn(GOOD)) as server:
        engine_of(server, requests_in_flight=1).generate(prompts, SAMPLING, 1, seed)
    return [request["seed"] for request in server.requests]


def test_request_seeds_belong_to_seed_and_prompt():
    seeds = seeds_of(["a", "b"], 0)
    assert seeds == seeds_of(["b", "a"], 0)[::-1]
    assert len({*seeds, *seeds_of(["a"], 1)}) == 3
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_a_request_says_what_the_settings_say_and_nothing_a_plain_server_does_not_know():
    plain = Sampling(temperature=0.7, top_p=0.9, max_new_tokens=8)
    with serve(in_turn(GOOD)) as server:
        engine_of(server).generate(["a"], SAMPLING, 1, 0, stop="line")
        engine_of(server).generate(["a"], plain, 1, 0)
    first, second = ({name: value for name, value in one.items() if name != "seed"} for one in server.requests)
    known = {"path": "/v1/completions", "model": "tiny", "prompt": "a", "n": 1}
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
    ],
)
def test_texts_are_cut_behind_the_answer_and_truncated_where_the_limit_came_first(text, finish, kept, truncated):
    with serve(in_turn(Answer(completion(text, finish=finish, usage=USAGE)))) as server:
        ((one,),) = engine_of(server).generate(["a"], SAMPLING, 1, 0)
    assert (one.text, one.truncated, one.tokens) == (kept, truncated, 4)


@pytest.mark.parametrize(
    ("choice", "kept"),
    [
        ({}, "24\n"),
        ({"stop_reason": "\n"}, "24\n"),
        ({"stop_reason": None}, "24"),
        ({"finish": "length"}, "24"),
    ],
)
def test_a_line_gets_back_the_newline_that_ended_it(choice, kept):
    with serve(in_turn(Answer(completion("24", usage=USAGE, **choice)))) as server:
        ((one,),) = engine_of(server).generate(["a"], SAMPLING, 1, 0, stop="line")
    assert one.text == kept


@pytest.mark.parametrize(
    ("reply", "tokens", "prompt_tokens"),
    [
        (completion("a b", "c", usage={"prompt_tokens": 9, "completion_tokens": 50}), [30, 20], 9),
        (completion("a b", "c", usage={"prompt_tokens": 9}), [3, 2], 9),
        (completion("a b", "c"), [3, 2], 2),
        (completion("a b", "c", usage=USAGE, token_ids=[1, 2, 3]), [3, 3], 5),
        (completion("a b", "c", usage=USAGE, logprobs={"tokens": ["a", " b"]}), [2, 2], 5),
        (completion("a b", "c", usage=USAGE, logprobs={"content": [{}, {}, {}, {}]}), [4, 4], 5),
        (completion("a b", "c", finish="length", usage={"prompt_tokens": 9, "completion_tokens": 32}), [16, 16], 9),
        (completion("a b", "c", finish="length", usage={"prompt_tokens": 9, "completion_tokens": 6}), [3, 3], 9),
    ],
)
def test_tokens_are_those_the_server_counts_as_far_as_it_says(reply, tokens, prompt_tokens):
    with serve(in_turn(Answer(reply))) as server:
        (group,) = engine_of(server, FakeTokenizer).generate(["two words"], SAMPLING, 2, 0)
    assert [one.tokens for one in group] == tokens
    assert {one.prompt_tokens for one in group} == {prompt_tokens}


def test_a_count_of_one_text_only_is_not_shared_out_among_all_of_them():
    reply = completion("4", "0 . 4 5", finish="stop", logprobs=None, usage={"prompt_tokens": 6, "completion_tokens": 2})
    with serve(in_turn(Answer(reply))) as server:
        (group,) = engine_of(server, FakeTokenizer).generate(["2 + 3 = "], SAMPLING, 2, 0, stop="line")
    assert [one.tokens for one in group] == [2, 5]


@pytest.mark.parametrize(
    ("status", "message", "no_room"),
    [
        (400, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens", True),
        (400, "the request exceeds the available context size, try increasing it", True),
        (400, "The input (5000 tokens) is longer than the model's context length (4096 tokens).", True),
        (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096", True),
        (400, "temperature must be positive", False),
        (401, "maximum context length", False),
    ],
)
def test_servers_words_for_a_prompt_without_room(status, message, no_room):
    assert has_no_room(status, message) is no_room


@pytest.mark.parametrize(
    ("asked", "least", "most"),
    [("30", 30, 30), ("-3", 0, FIRST_WAIT), ("soon", 0, FIRST_WAIT), (formatdate(NOW + 60, usegmt=True), 60, 60)],
)
def test_the_wait_is_what_the_server_asks_for_in_seconds_or_by_date(monkeypatch, asked, least, most):
    waits = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(openai._base_client.anyio, "sleep", sleep)
    monkeypatch.setattr(time, "time", lambda: NOW)
    busy = Answer({"error": "busy"}, 429, {"Retry-After": asked})
    with serve(in_turn(busy, GOOD)) as server:
        engine_of(server).generate(["a"], SAMPLING, 1, 0)
    (wait,) = waits
    assert least <= wait <= most


def test_a_server_that_asks_for_an_hour_is_not_waited_for():
    busy = Answer({"error": "quota of the day"}, 429, {"Retry-After": "3600"})
    with serve(in_turn(busy)) as server, pytest.raises(ModelError, match=r"failed 1 times .* status 429: quota of the"):
        engine_of(server).generate(["a"], SAMPLING, 1, 0)


def test_a_text_with_half_of_a_character_is_no_completion():
    reply = '{"choices": [{"text": "a\\ud800", "finish_reason": "stop"}]}'
    with pytest.raises(MalformedReply, match="incomplete character"):
        checked_reply(reply, 1)


@pytest.mark.parametrize("count", [-5, 10**30, "3", None])
def test_a_count_that_cannot_be_is_not_taken_for_one(count):
    assert reported_count({"usage": {"completion_tokens": count}}, "completion_tokens") is None
