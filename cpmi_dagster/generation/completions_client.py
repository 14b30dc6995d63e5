"""Send completion requests to an OpenAI-compatible server: many at once, again where a failure may pass.

    POST http://127.0.0.1:8000/v1/completions
    {"model": "Qwen/Qwen3-4B-Base", "prompt": "…step by step.\\n", "n": 2, "max_tokens": 512, "seed": 1715, …}
    -> {"choices": [{"index": 0, "text": "12 / 60 = 0.2\\n…", "finish_reason": "stop"}, {…}],
        "usage": {"prompt_tokens": 97, "completion_tokens": 58}}

Requests are tasks of an event loop in a thread of its own, so that the caller may have a loop or none; the first that
fails for good, or an interrupt of the caller, cancels the rest, and nothing is left under way.

What may pass: time-outs, lost connections, 408, 429, 5xx, and replies that are no completion. Other refusals end the
call at once. The waits between tries double, with a jitter that depends on the request alone, and are never shorter
than the server's Retry-After asks for. No message holds the key.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import anyio
from anyio.from_thread import start_blocking_portal

from cpmi_dagster.errors import ModelError
from cpmi_dagster.generation.completion_replies import (
    MalformedReply,
    checked_reply,
    has_no_room,
    refusal_advice,
    server_message,
)

if TYPE_CHECKING:
    import httpx2

LONGEST_CONNECT = 30.0
LONGEST_WAIT = 60.0
LONGEST_ASKED_WAIT = 600.0
MAY_PASS = {408, 429}


@dataclass(frozen=True)
class Endpoint:
    """A server and how it is spoken to.

    Attributes:
        url: base URL, without `/completions`.
        model: what the server calls the model.
        api_key: sent as bearer token; never shown.
        timeout_seconds: longest wait for one reply.
        requests_in_flight: most requests at once.
        max_retries: of one request.
        first_wait_seconds: before the first retry; doubles with each.
    """

    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    timeout_seconds: float = 600
    requests_in_flight: int = 64
    max_retries: int = 6
    first_wait_seconds: float = 1.0


class _MayPass(Exception):
    """A request failed in a way that another try may mend; `asked_wait` is what the server's Retry-After says."""

    def __init__(self, reason: str, asked_wait: float = 0) -> None:
        super().__init__(reason)
        self.asked_wait = asked_wait


class CompletionsClient:
    """Sends the requests of one call to an endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

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
        replies: list[dict[str, Any] | None] = [None] * len(requests)
        failures: list[ModelError] = []
        places = anyio.CapacityLimiter(self._endpoint.requests_in_flight)

        async def ask(number: int) -> None:
            async with places:
                try:
                    replies[number] = await self._persist(
                        http, requests[number], f"prompt {number + 1} of {len(requests)}"
                    )
                except ModelError as failure:
                    failures.append(failure)
                    tasks.cancel_scope.cancel()

        async with self._http() as http, anyio.create_task_group() as tasks:
            for number in range(len(requests)):
                tasks.start_soon(ask, number)
        if failures:
            raise failures[0]
        return replies

    def _http(self) -> "httpx2.AsyncClient":
        import httpx2

        endpoint = self._endpoint
        headers = {"Authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
        timeout = httpx2.Timeout(endpoint.timeout_seconds, connect=min(LONGEST_CONNECT, endpoint.timeout_seconds))
        limits = httpx2.Limits(max_connections=endpoint.requests_in_flight)
        return httpx2.AsyncClient(headers=headers, timeout=timeout, limits=limits)

    async def _persist(
        self, http: "httpx2.AsyncClient", request: Mapping[str, Any], place: str
    ) -> dict[str, Any] | None:
        """The reply to one request, tried again and again."""
        jitter = random.Random(str(request.get("seed")))
        tries = 0
        while True:
            tries += 1
            try:
                return await self._once(http, request, place)
            except _MayPass as failure:
                backoff = min(LONGEST_WAIT, self._endpoint.first_wait_seconds * 2 ** (tries - 1))
                seconds = max(backoff * jitter.uniform(0.5, 1), min(failure.asked_wait, LONGEST_ASKED_WAIT))
                if tries > self._endpoint.max_retries:
                    raise ModelError(
                        f"endpoint {self._endpoint.url} failed {tries} times at {place}, at last with: "
                        f"{self._without_key(str(failure))}; see that the server runs, or raise `timeout_seconds` or "
                        "`max_retries`, then run again: chunks that were finished are kept"
                    ) from None
            await anyio.sleep(seconds)

    async def _once(self, http: "httpx2.AsyncClient", request: Mapping[str, Any], place: str) -> dict[str, Any] | None:
        import httpx2

        try:
            body = {"model": self._endpoint.model, **request}
            # the client's own limit is one read's, and a reply may trickle
            with anyio.fail_after(self._endpoint.timeout_seconds):
                response = await http.post(f"{self._endpoint.url}/completions", json=body)
        except (TimeoutError, httpx2.TimeoutException):
            raise _MayPass(f"no reply within {self._endpoint.timeout_seconds:g} s") from None
        except httpx2.RequestError as error:
            raise _MayPass(f"{type(error).__name__}: {error}") from None
        message = f"status {response.status_code}: {server_message(response.text)}"
        if response.status_code in MAY_PASS or response.is_server_error:
            raise _MayPass(message, asked_wait(response.headers.get("Retry-After"), datetime.now(UTC)))
        if response.is_success:
            try:
                return checked_reply(response.text, request["n"])
            except MalformedReply as error:
                raise _MayPass(str(error)) from None
        if has_no_room(response.status_code, message):
            return None
        raise ModelError(
            f"endpoint {self._endpoint.url} refused {place} with {self._without_key(message)}; "
            f"{refusal_advice(response.status_code, message)}"
        )

    def _without_key(self, message: str) -> str:
        key = self._endpoint.api_key
        return message.replace(key, "***") if key else message


def asked_wait(retry_after: str | None, now: datetime) -> float:
    """Seconds that a Retry-After header asks for, given in seconds or as a date; 0 where it says nothing.

    Args:
        retry_after: value of the header.
        now: the present, with its time zone.
    """
    if retry_after is None:
        return 0.0
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(retry_after) - now).total_seconds())
    except (ValueError, TypeError):
        return 0.0
