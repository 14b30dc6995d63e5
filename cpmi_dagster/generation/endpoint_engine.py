"""Generation at any OpenAI-compatible server: vLLM, SGLang, llama.cpp, or a hosted model.

    engine = EndpointEngine("http://127.0.0.1:8000/v1", "Qwen/Qwen3-4B-Base", identity)
    engine.generate([render_question("What is 2 + 3?")], Draws(sampling, samples=8, seed=0))

    POST http://127.0.0.1:8000/v1/completions
    {"model": "Qwen/Qwen3-4B-Base", "prompt": "…step by step.\\n", "max_tokens": 512, "seed": 1715, …}
    -> {"choices": [{"text": "12 / 60 = 0.2\\n…", "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 97, "completion_tokens": 58}}

Each sample is one request, with a seed derived from the caller's seed, the prompt and the number of the sample. Texts
are cut by the stop rule of every engine. Token counts are the server's, including tokens after the cut, and 0 if the
server gives none.

`openai` retries after time-outs, lost connections, 408, 409, 429 and 5xx, after 0.5, 1, 2, 4, 8, 8 … s or the server's
Retry-After, up to two minutes. Other refusals end the call at once. Requests run in an event loop in a separate thread,
so the caller may be in a loop itself. The first final failure, or an interrupt, cancels the other requests.
"""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import openai
from anyio.from_thread import start_blocking_portal

from cpmi_dagster.errors import ModelError, TransientError
from cpmi_dagster.files.text import cut, encodable, printable
from cpmi_dagster.generation.engine import NO_ROOM, Draws, Generation, SamplingWork, Stop
from cpmi_dagster.generation.token_sampling import cut_at_stop, prompt_seed

LONGEST_CONNECT = 30.0
MOST_TOKENS = 2**31
LONGEST_MESSAGE = 300
MAY_PASS = {408, 409, 429}
REFUSED_LENGTH = {400, 413, 422}
LENGTH_WORDS = re.compile(
    r"context[ _]?(?:length|size|window)|max_model_len|maximum (?:model|sequence) length|inputs.{0,40}max_new_tokens",
    re.IGNORECASE,
)
# vLLM and SGLang finish an aborted text with `abort` or `error`
UNFINISHED = {None, "abort", "error"}
NOT_SENT = openai.Omit()
NO_ACCOUNT = {"OpenAI-Organization": NOT_SENT, "OpenAI-Project": NOT_SENT}


@dataclass(frozen=True)
class EndpointEngine:
    """A `RolloutEngine` on a server.

    Attributes:
        url: base URL, without `/completions`.
        model: what the server calls the model.
        identity: model, revision and endpoint.
        api_key: sent as a bearer token; never shown.
        timeout_seconds: longest wait for one reply.
        requests_in_flight: most requests at once.
        max_retries: retries of one request.
    """

    url: str
    model: str
    identity: str
    api_key: str | None = field(default=None, repr=False)
    timeout_seconds: float = 600
    requests_in_flight: int = 256
    max_retries: int = 10

    def prepare(self) -> None:
        """Does nothing: the server has loaded its model."""

    def generate(
        self, prompts: Sequence[str], draws: Draws, work: SamplingWork | None = None
    ) -> list[list[Generation]]:
        """Continue every prompt; see `RolloutEngine.generate`.

        Raises:
            ModelError: the endpoint refuses a request, or fails after all retries.
        """
        sampling, samples = draws.sampling, draws.samples
        asked = [
            {
                "prompt": prompt,
                "seed": prompt_seed(prompt, draws.seed) + draws.first + sample,
                "max_tokens": sampling.max_new_tokens,
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                # optional, for servers that do not accept them
                **({"top_k": sampling.top_k} if sampling.top_k else {}),
                **({"stop": ["\n"]} if draws.stop == "line" else {}),
            }
            for prompt in prompts
            for sample in range(samples)
        ]
        with start_blocking_portal(name="completions") as portal:
            texts = portal.call(self._complete, asked, draws, work)
        return [texts[start : start + samples] for start in range(0, len(texts), samples)]

    async def _complete(
        self, asked: Sequence[dict[str, Any]], draws: Draws, work: SamplingWork | None
    ) -> list[Generation]:
        places = asyncio.Semaphore(self.requests_in_flight)

        async def ask(number: int, request: dict[str, Any]) -> Generation:
            async with places:
                place = f"prompt {number // draws.samples + 1} of {len(asked) // draws.samples}"
                drawn = await self._ask(client, request, place, draws.stop) if request["prompt"] else NO_ROOM
            if work:
                work.ended(request["prompt"])
            return drawn

        try:
            async with self._client() as client, asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(ask(number, request)) for number, request in enumerate(asked)]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [task.result() for task in running]

    def _client(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(
            base_url=self.url,
            api_key="sent with each request",
            max_retries=self.max_retries,
            timeout=openai.Timeout(self.timeout_seconds, connect=min(LONGEST_CONNECT, self.timeout_seconds)),
        )

    async def _ask(self, client: openai.AsyncOpenAI, request: dict[str, Any], place: str, stop: Stop) -> Generation:
        """The text of one request; `NO_ROOM` if its prompt leaves no room in the model's context."""
        # only this endpoint's key, nothing from OPENAI_* variables
        headers = {"Authorization": f"Bearer {self.api_key}" if self.api_key else NOT_SENT, **NO_ACCOUNT}
        create = client.completions.with_raw_response.create
        try:
            response = await create(
                model=self.model, prompt=request["prompt"], extra_body=request, extra_headers=headers
            )
        except openai.APIStatusError as error:
            status, message = error.status_code, self._shown(f"status {error.status_code}: {read_error_message(error)}")
            if status in REFUSED_LENGTH and LENGTH_WORDS.search(message):
                return NO_ROOM
            if status not in MAY_PASS and status < 500:
                advice = advise_on_refusal(status, message)
                raise ModelError(f"endpoint {self.url} refused {place} with {message}; {advice}") from None
        except openai.APIConnectionError as error:
            message = self._shown(f"{type(error.__cause__).__name__}: {error.__cause__}")
        else:
            try:
                return generation_of(response.text, stop)
            except (ValueError, LookupError, TypeError, RecursionError):
                message = self._shown(f"a reply that is no finished completion: {response.text}")
        raise TransientError(
            f"endpoint {self.url} failed at {place}, at last with: {message}; see that the server runs, or raise "
            "`timeout_seconds` or `max_retries`, then run again: chunks that were finished are kept"
        )

    def _shown(self, message: str) -> str:
        """A message of the server on one line, without the key."""
        words = " ".join(message.replace(self.api_key, "***").split() if self.api_key else message.split())
        return cut(printable(words), LONGEST_MESSAGE)


def generation_of(reply: str, stop: Stop) -> Generation:
    """Parse a reply; servers cut off the newline that ends a line, which is restored.

    vLLM says in `stop_reason` what ended a text; without it, the newline did.

    Raises:
        ValueError, LookupError, TypeError, RecursionError: the reply is not a finished completion in JSON.
    """
    answer = json.loads(reply)
    choice, usage = answer["choices"][0], answer.get("usage")
    text, finish = choice["text"], choice.get("finish_reason")
    if not isinstance(text, str) or finish in UNFINISHED:
        raise ValueError(f"text {text!r}, finish_reason {finish}")
    text = encodable(text)
    if stop == "line" and finish == "stop" and choice.get("stop_reason", "\n") == "\n" and "\n" not in text:
        text += "\n"
    counted = usage if isinstance(usage, dict) else {}
    counts = (_count(counted.get(name)) for name in ("completion_tokens", "prompt_tokens"))
    return cut_at_stop(text, stop, finish == "length", *counts)


def _count(tokens: Any) -> int:
    """A token count of the server; 0 if it is not a possible count."""
    return tokens if type(tokens) is int and 0 <= tokens < MOST_TOKENS else 0


def read_error_message(error: openai.APIStatusError) -> str:
    """The error message in a reply, else the whole reply."""
    body = error.body.get("message") if isinstance(error.body, dict) else error.body
    return body if isinstance(body, str) else error.response.text


def advise_on_refusal(status: int, message: str) -> str:
    """Advice on a refused request."""
    if status in (401, 403):
        return "give the name of the variable that holds a valid key in `api_key_variable`"
    if status == 404:
        return "check `endpoint`, the URL before /completions, and the model's `served_name`"
    if "top_k" in message:
        return "set `top_k: 0` in the sampling settings for a server that does not know it"
    return "check the model's settings, and what the server writes about it"
