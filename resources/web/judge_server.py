"""`cpmi serve-judge`: a reward model behind HTTP on 127.0.0.1, for samplers and searches in other processes.

    POST /judge      {"question": "1 + 1?", "steps": ["1 + 1 = 3."]}  ->  {"probabilities": [0.31], "first_error": 0}
    POST /pooling    what a client sends to vLLM's /pooling for a process reward model: a user's message, and an
                     assistant's with `<extra_0>` after each step; answered as vLLM does, [[wrong, right], …] a step
    GET  /v1/models, /health

Requests that come while others are judged are judged together, in one batch. A reward model that was exported for vLLM
is served by vLLM itself; this is for those on this machine, in any form that `cpmi judge` reads.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import uuid4

import uvicorn
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cpmi_dagster.errors import RepeatedField, first_complaint
from cpmi_dagster.files.bounded_reading import BoundedList
from cpmi_dagster.files.json_lines import DECODER
from cpmi_dagster.files.text import Text, encodable
from cpmi_dagster.prm.judging import Solution, judged_rows
from cpmi_dagster.resources.web.own_pages_only import LOCALHOST, guard

if TYPE_CHECKING:
    from cpmi_dagster.prm.model import LoadedRewardModel

STEP_TAG = "<extra_0>"
TURN_START = re.compile(r"<\|im_start\|>(\w+)\n")
TURN_END = "<|im_end|>"
LONGEST_BODY = 32 * 2**20
MOST_SOLUTIONS = 1024
AT_ONCE = 256

Read = TypeVar("Read")


class Message(BaseModel):
    """A turn of a conversation, as chat clients send it."""

    role: str
    content: Text


def _listed(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


class PoolingRequest(BaseModel):
    """What clients send to vLLM's `/pooling`; fields that decide nothing here are ignored."""

    model_config = ConfigDict(extra="ignore")

    messages: BoundedList[Message] | None = None
    # a text is a list of one, and no union of both: each member of a union has its own complaint
    input: Annotated[BoundedList[Text] | None, BeforeValidator(_listed)] = Field(
        default=None, description="texts of Qwen's chat form"
    )


@dataclass(frozen=True)
class JudgeServerRequest:
    """What to serve, and where; see `JudgeRequest`."""

    prm: str
    port: int
    threshold: float = 0.5
    device: str = "auto"
    dtype: str = "auto"
    form: str | None = None
    revision: str | None = None


class Judge:
    """A reward model that judges what has come, in batches, one after another.

    Args:
        model: in evaluation mode.
    """

    def __init__(self, model: "LoadedRewardModel", threshold: float) -> None:
        self._model = model
        self._threshold = threshold
        self._waiting: asyncio.Queue[tuple[Solution, asyncio.Future[dict[str, Any]]]] = asyncio.Queue()

    async def rows(self, solutions: Sequence[Solution]) -> list[dict[str, Any]]:
        """A judged row for each solution, as `cpmi judge` writes it."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[dict[str, Any]]] = [loop.create_future() for _ in solutions]
        for entry in zip(solutions, futures, strict=True):
            self._waiting.put_nowait(entry)
        return list(await asyncio.gather(*futures))

    async def work(self) -> None:
        """Judge until this is cancelled."""
        while True:
            batch = [await self._waiting.get()]
            while len(batch) < AT_ONCE and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            answers = await self._answers([solution for solution, _ in batch])
            for (_, future), answer in zip(batch, answers, strict=True):
                _settle(future, answer)

    async def _answers(self, solutions: Sequence[Solution]) -> list[dict[str, Any] | Exception]:
        """Of each solution its row, or what the model raised for it alone: all that wait are answered."""
        try:
            rows = await run_in_threadpool(judged_rows, self._model, solutions, self._threshold, lambda _: None)
            return list(rows)
        except Exception as error:  # whatever a model raises, those that wait are answered
            if len(solutions) == 1:
                return [error]
        return [answer for solution in solutions for answer in await self._answers([solution])]


def judge_application(model: "LoadedRewardModel", name: str, threshold: float) -> Starlette:
    """The application.

    Args:
        name: of the model, for clients that ask.
    """
    judge = Judge(model, threshold)
    one_at_a_time = asyncio.Lock()

    async def read(request: Request, reader: Callable[[bytes], Read]) -> Read:
        """What a reader makes of the body, beside the event loop, so that others are answered meanwhile."""
        body = await _body(request)
        async with one_at_a_time:
            return await run_in_threadpool(reader, body)

    async def judged(request: Request) -> Response:
        solutions, is_list = await read(request, _solutions)
        rows = await judge.rows(solutions)
        text = json.dumps(rows if is_list else rows[0], ensure_ascii=False, allow_nan=False)
        return Response(encodable(text), media_type="application/json")

    async def pooling(request: Request) -> JSONResponse:
        rows = await judge.rows(await read(request, _conversations))
        for number, row in enumerate(rows):
            if row["probabilities"] is None:
                raise HTTPException(400, f"text {number}: {row['reason']}")
        return JSONResponse(_pooled(rows, name))

    async def models(request: Request) -> JSONResponse:
        return JSONResponse({"object": "list", "data": [{"id": name, "object": "model", "owned_by": "cpmi"}]})

    async def health(request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    def refuse(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return JSONResponse({"error": {"message": error.detail, "code": error.status_code}}, error.status_code)

    def fail(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": {"message": str(error), "code": 500}}, 500)

    @asynccontextmanager
    async def working(app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(judge.work())
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    routes = [
        Route("/judge", judged, methods=["POST"]),
        Route("/pooling", pooling, methods=["POST"]),
        Route("/v1/models", models),
        Route("/health", health),
    ]
    handlers = {HTTPException: refuse, Exception: fail}
    return guard(Starlette(routes=routes, lifespan=working, exception_handlers=handlers))


def serve_judge(request: JudgeServerRequest, announce: Callable[[], object]) -> None:
    """Serve a reward model on 127.0.0.1 until it is stopped.

    Args:
        announce: called when the model is loaded, just before the first request can be answered.

    Raises:
        ModelError: there is no reward model, its form is not known, or the device is not there.
    """
    from cpmi_dagster.prm.judge_models import load_judge

    model = load_judge(request.prm, request.device, request.dtype, request.form, request.revision)
    app = judge_application(model, Path(request.prm).name, request.threshold)
    announce()
    uvicorn.run(app, host=LOCALHOST, port=request.port, log_level="warning", access_log=False, server_header=False)


def _settle(future: "asyncio.Future[dict[str, Any]]", answer: "dict[str, Any] | Exception") -> None:
    """Answer one who waits, unless it has gone away."""
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_BODY:
            raise HTTPException(413, f"the body is longer than {LONGEST_BODY // 2**20} MiB; send less at once")
    return bytes(body)


def _parsed(body: bytes) -> Any:
    try:
        return DECODER.decode(body.decode("utf-8-sig"))
    except RepeatedField as error:
        raise HTTPException(400, f"the body: {error}") from error
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "the body is not JSON") from error


def _check_count(several: Sequence[object]) -> None:
    """Refuse too many solutions before any of them is looked at."""
    if len(several) > MOST_SOLUTIONS:
        raise HTTPException(413, f"{len(several):,} solutions; send at most {MOST_SOLUTIONS:,} at once")


def _solutions(body: bytes) -> tuple[list[Solution], bool]:
    """The solutions of a request to `/judge`, and whether it is a list."""
    given = _parsed(body)
    several = given if isinstance(given, list) else [given]
    _check_count(several)
    return [_solution(row, number) for number, row in enumerate(several)], isinstance(given, list)


def _solution(row: Any, number: int) -> Solution:
    given = {"id": number, **row} if isinstance(row, dict) else row
    try:
        solution = Solution.model_validate(given)
        # as in the answer, which carries them over
        json.dumps(solution.model_extra, allow_nan=False)
    except ValidationError as error:
        raise HTTPException(400, f"solution {number}: {first_complaint(error)}") from error
    except RecursionError as error:
        raise HTTPException(400, f"solution {number}: a field is nested too deeply") from error
    except ValueError as error:
        reason = "a field has NaN or an infinite number, which JSON does not have; send null"
        raise HTTPException(400, f"solution {number}: {reason}") from error
    return solution


def _conversations(body: bytes) -> list[Solution]:
    """The solutions of a request to `/pooling`."""
    try:
        asked = PoolingRequest.model_validate(_parsed(body))
        if asked.messages is not None:
            return [_conversation((message.role, message.content) for message in asked.messages)]
        if not asked.input:
            raise HTTPException(400, "give `messages`, or `input` with texts")
        _check_count(asked.input)
        return [_conversation(_turns(text)) for text in asked.input]
    except ValidationError as error:
        raise HTTPException(400, str(first_complaint(error))) from error


def _turns(text: str) -> Iterable[tuple[str, str]]:
    """Role and content of each complete turn of a text."""
    for part in text.split(TURN_END)[:-1]:
        if start := TURN_START.search(part):
            yield start[1], part[start.end() :]


def _conversation(turns: Iterable[tuple[str, str]]) -> Solution:
    """The question of a conversation, and the steps of its last turn."""
    said = dict(turns)
    if not {"user", "assistant"} <= said.keys() or STEP_TAG not in said["assistant"]:
        raise HTTPException(
            400, f"a conversation needs a user turn and an assistant turn whose steps end with {STEP_TAG}; see /judge"
        )
    *steps, rest = said["assistant"].split(STEP_TAG)
    if rest.strip():
        raise HTTPException(400, f"the text after the last {STEP_TAG} is not a step; end it with {STEP_TAG} too")
    return Solution.model_validate({"id": "0", "question": said["user"], "steps": steps})


def _pooled(rows: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Probabilities in the form of vLLM's answer."""
    data = [
        {"index": number, "object": "pooling", "data": [[1 - value, value] for value in row["probabilities"]]}
        for number, row in enumerate(rows)
    ]
    usage = {"prompt_tokens": 0, "total_tokens": 0, "completion_tokens": 0}
    facts = {"id": f"pool-{uuid4().hex}", "object": "list", "created": int(time.time()), "model": name}
    return {**facts, "data": data, "usage": usage}
