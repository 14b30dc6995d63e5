"""How a call to an endpoint ends: at once, with nothing left under way, wherever it was made."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from completions_server import Answer, Server, completion, serve

from cpmi_dagster.errors import ModelError
from cpmi_dagster.generation.endpoint_engine import EndpointEngine
from cpmi_dagster.generation.settings import Sampling

pytestmark = pytest.mark.slow

LONG = 120
SAMPLING = Sampling(temperature=1, top_p=1, max_new_tokens=8)
ASKS_FOR = """
import signal, sys, threading
from cpmi_dagster.errors import ModelError
from cpmi_dagster.generation.endpoint_engine import EndpointEngine
from cpmi_dagster.generation.settings import Sampling
# a process started in the background of a shell would ignore interrupts, and polars keeps them to itself
signal.signal(signal.SIGINT, signal.default_int_handler)
engine = EndpointEngine(sys.argv[1], "tiny", "tiny@here")
try:
    engine.generate(sys.argv[2:], Sampling(temperature=1, top_p=1, max_new_tokens=8), 1, 0)
except (ModelError, KeyboardInterrupt) as error:
    print(type(error).__name__, "threads:", threading.active_count())
"""


class Mixed:
    """Answers `fine`, leaves `hangs` without an answer, and refuses `refused` as soon as another hangs."""

    def __init__(self) -> None:
        self.hanging, self.released = threading.Event(), threading.Event()
        self.was_waited_for = False

    def __call__(self, body: dict[str, Any]) -> Answer:
        if body["prompt"] == "hangs":
            self.hanging.set()
            self.was_waited_for |= not self.released.wait(LONG)
        if body["prompt"] == "refused":
            self.hanging.wait(LONG)
            return Answer({"error": {"message": "Incorrect API key provided"}}, 401)
        return Answer(completion(body["prompt"]))


@pytest.fixture
def mixed() -> Iterator[Mixed]:
    answer = Mixed()
    yield answer
    answer.released.set()


@pytest.fixture
def server(mixed) -> Iterator[Server]:
    with serve(mixed) as running:
        yield running


def complete(server: Server, *prompts: str) -> list[str]:
    """The texts of a call in this process."""
    groups = EndpointEngine(server.url, "tiny", "tiny@here").generate(prompts, SAMPLING, 1, 0)
    return [group[0].text for group in groups]


def start_script(server: Server, *prompts: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", ASKS_FOR, server.url, *prompts], stdout=subprocess.PIPE, text=True)


def test_a_refusal_ends_the_call_while_another_request_hangs(server, mixed):
    with pytest.raises(ModelError, match="refused prompt 2 of 3 with status 401"):
        complete(server, "hangs", "refused", "hangs")
    assert not mixed.was_waited_for
    assert not [thread for thread in threading.enumerate() if "completions" in thread.name]


def test_a_process_ends_after_a_refusal_while_another_request_hangs(server, mixed):
    said, _ = start_script(server, "hangs", "refused").communicate(timeout=2 * LONG)
    assert not mixed.was_waited_for
    assert said == "ModelError threads: 1\n"


def test_a_process_ends_after_an_interrupt_while_a_request_hangs(server, mixed):
    script = start_script(server, "hangs")
    assert mixed.hanging.wait(LONG)
    script.send_signal(signal.SIGINT)
    said, _ = script.communicate(timeout=2 * LONG)
    assert not mixed.was_waited_for
    assert said == "KeyboardInterrupt threads: 1\n"


def test_a_call_works_where_an_event_loop_runs_already(server):
    async def caller() -> list[str]:
        return complete(server, "a", "b")

    assert asyncio.run(caller()) == ["a", "b"]


def test_calls_work_from_several_threads_at_once(server):
    with ThreadPoolExecutor(4) as threads:
        texts = list(threads.map(lambda number: complete(server, f"a{number}", f"b{number}"), range(8)))
    assert texts == [[f"a{number}", f"b{number}"] for number in range(8)]
