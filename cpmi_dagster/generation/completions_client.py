"""Send completion requests to an OpenAI-compatible server: many at once, and again after temporary failures.

    POST http://127.0.0.1:8000/v1/completions
    {"model": "Qwen/Qwen3-4B-Base", "prompt": "…step by step.\\n", "n": 2, "max_tokens": 512, "seed": 1715, …}
    -> {"choices": [{"index": 0, "text": "12 / 60 = 0.2\\n…", "finish_reason": "stop"}, {…}],
        "usage": {"prompt_tokens": 97, "completion_tokens": 58}}

`openai` sends and retries: after time-outs, lost connections, 408, 409, 429 and 5xx, with waits of 0.5, 1, 2, 4, 8,
8 … s or as the server's Retry-After says, up to two minutes. Added here: a time limit for a whole reply, and a retry
after a reply that is not a completion. Other refusals end the call at once. No message contains the key.

Requests are tasks of an event loop in a separate thread, so that the caller may have a loop or none; the first that
fails finally, or an interrupt of the caller, cancels the rest; no request is left open.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2
import openai
from anyio.from_thread import start_blocking_portal

from cpmi_dagster.errors import ModelError, PassingError, ServerUnreachable
from cpmi_dagster.generation.completion_replies import (
    MalformedReply,
    checked_reply,
    has_no_room,
    refusal_advice,
    server_message,
    without_key,
)

LONGEST_CONNECT = 30.0
MAY_PASS = {408, 409, 429}
NOT_SENT = openai.Omit()


@dataclass(frozen=True)
class Endpoint:
    """A server, and how requests are sent to it.

    Attributes:
        url: base URL, without `/completions`.
        model: what the server calls the model.
        api_key: sent as bearer token; never shown.
        timeout_seconds: longest wait for one reply.
        requests_in_flight: most requests at once.
        max_retries: of one request.
    """

    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    timeout_seconds: float = 600
    requests_in_flight: int = 64
    max_retries: int = 10

    def complete(self, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any] | None]:
        """The replies to some requests, in their order; None where the prompt leaves no room in the model's context.

        Args:
            requests: bodies, with `prompt` and `n`; `model` is added.

        Raises:
            ModelError: a request was refused, or failed too often; names endpoint and prompt, and what to do.
        """
        with start_blocking_portal(name="completions") as portal:
            return portal.call(self._complete, requests)

    async def _complete(self, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any] | None]:
        places = asyncio.Semaphore(self.requests_in_flight)

        async def ask(number: int, request: Mapping[str, Any]) -> dict[str, Any] | None:
            async with places:
                return await self._reply(client, request, f"prompt {number} of {len(requests)}")

        try:
            async with self._client() as client, asyncio.TaskGroup() as tasks:
                asked = [tasks.create_task(ask(number, request)) for number, request in enumerate(requests, 1)]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [task.result() for task in asked]

    def _client(self) -> openai.AsyncOpenAI:
        timeout = openai.Timeout(self.timeout_seconds, connect=min(LONGEST_CONNECT, self.timeout_seconds))
        limits = httpx2.Limits(max_connections=self.requests_in_flight)
        return openai.AsyncOpenAI(
            base_url=self.url,
            api_key="sent with each request",
            max_retries=self.max_retries,
            timeout=timeout,
            http_client=_WholeReplies(timeout=timeout, limits=limits),
        )

    async def _reply(self, client: openai.AsyncOpenAI, request: Mapping[str, Any], place: str) -> dict[str, Any] | None:
        try:
            response = await client.completions.with_raw_response.create(
                model=self.model,
                prompt=request["prompt"],
                extra_body=request,
                # this endpoint's key, and none of the account that OPENAI_* variables may name
                extra_headers={
                    "Authorization": f"Bearer {self.api_key}" if self.api_key else NOT_SENT,
                    "OpenAI-Organization": NOT_SENT,
                    "OpenAI-Project": NOT_SENT,
                },
            )
            return checked_reply(response.text, request["n"])
        except openai.APIStatusError as error:
            message = f"status {error.status_code}: {server_message(error.response.text)}"
            if has_no_room(error.status_code, message):
                return None
            if error.status_code in MAY_PASS or error.status_code >= 500:
                raise self._failure(error, place, message) from None
            raise ModelError(
                f"endpoint {self.url} refused {place} with {without_key(message, self.api_key)}; "
                f"{refusal_advice(error.status_code, message)}"
            ) from None
        except openai.APIConnectionError as error:
            raise self._failure(error, place, f"{type(error.__cause__).__name__}: {error.__cause__}") from None

    def _failure(self, error: openai.APIError, place: str, message: str) -> PassingError:
        tries = int(error.request.headers.get("x-stainless-retry-count", 0)) + 1
        kind = ServerUnreachable if isinstance(error.__cause__, httpx2.ConnectError) else PassingError
        return kind(
            f"endpoint {self.url} failed {tries} times at {place}, at last with: "
            f"{without_key(message, self.api_key)}; see that the server runs, or raise `timeout_seconds` or "
            "`max_retries`, then run again: chunks that were finished are kept"
        )


class _WholeReplies(httpx2.AsyncClient):
    """Fails, as a lost connection does, where a reply is late as a whole or is not a completion."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request. `timeout` bounds each read, and a reply may trickle, so the whole is bounded too."""
        try:
            async with asyncio.timeout(self.timeout.read):
                response = await super().send(request, **options)
            if response.is_success:
                checked_reply(response.text, json.loads(request.content)["n"])
        except TimeoutError:
            raise httpx2.ReadTimeout(f"no reply within {self.timeout.read:g} s") from None
        except MalformedReply as error:
            raise httpx2.DecodingError(str(error)) from None
        return response
