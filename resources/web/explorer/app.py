"""The explorer as a web application on 127.0.0.1, which answers its own pages only and loads nothing from elsewhere.

A page of any site can have the reader's browser send requests to 127.0.0.1. Those are refused:

    Host: evil.example              a name that was made to point to this machine    400
    Origin: https://evil.example    a page or form of another site                   403
"""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cpmi_dagster.errors import CpmiError
from cpmi_dagster.files.whole_files import check_writable
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.home_file import claim_home
from cpmi_dagster.resources.web.dagster_server import LOCALHOST
from cpmi_dagster.resources.web.explorer.judging import Judging
from cpmi_dagster.resources.web.explorer.own_labels import OwnLabels
from cpmi_dagster.resources.web.explorer.pages import Pages

LOG = logging.getLogger(__name__)
STATIC = Path(__file__).parent / "static"
FILE_NAME = "own_labels.jsonl"
LONGEST_BODY = 2_000
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def explorer(settings: Settings, labels: Path | None = None) -> Starlette:
    """The application.

    Args:
        settings: the profile whose home is shown.
        labels: the file of the reader's own labels; by default `own_labels.jsonl` in the home.
    """
    pages = Pages(settings, OwnLabels(labels or settings.home / FILE_NAME))
    judging = Judging(pages, settings)

    def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return pages.message(request, error.detail, error.status_code)

    def fail(request: Request, error: Exception) -> Response:
        return pages.message(request, str(error), 503)

    app = Starlette(
        routes=[
            Route("/", pages.trajectories),
            Route("/trajectory/{name:path}", pages.trajectory),
            Route("/queue", judging.queue),
            Route("/annotator", sent_to(judging.name), methods=["POST"]),
            Route("/verdict/{name}", sent_to(judging.judge), methods=["POST"]),
            Route("/disagreement", pages.disagreement),
            Route("/disagreement/figures", pages.disagreement_figures),
            Route("/distributions", pages.distributions),
            Route("/distributions/figures", pages.distribution_figures),
            Route("/own-figures", judging.figures),
            Route("/own-labels", judging.own_labels),
            Route("/own-labels.jsonl", judging.whole_labels),
            Route("/own-labels/{form}.json", judging.exported),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=[LOCALHOST, "localhost"], www_redirect=False),
            Middleware(OwnPagesOnly),
        ],
        exception_handlers={HTTPException: refuse, CpmiError: fail},
    )
    app.state.pages = pages
    return app


def sent_to(answer: Callable[[Request, QueryParams], Response]) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that has a function answer a form, which only the explorer's own pages can send."""

    async def read(request: Request) -> Response:
        if not request.headers.get("origin"):
            raise HTTPException(403, "labels can be changed only from the explorer's own pages")
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LONGEST_BODY:
                raise HTTPException(400, f"send a form of at most {LONGEST_BODY:,} bytes")
        return await run_in_threadpool(answer, request, QueryParams(body.decode(errors="replace")))

    return read


class OwnPagesOnly:
    """Middleware: refuses requests of another origin; a browser runs and loads nothing but what the explorer serves."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a refusal, or pass the request on; with the headers."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        answer = self._app
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            if any(origin != f"http://{headers.get('host')}" for origin in headers.getlist("origin")):
                answer = PlainTextResponse("this server answers its own pages only", 403)
        await answer(scope, receive, with_headers)


def serve_explorer(settings: Settings, port: int, labels: Path | None, announce: Callable[[], object]) -> None:
    """Serve the explorer on 127.0.0.1 until it is stopped.

    Args:
        port: a free one.
        labels: see `explorer`.
        announce: called when the results are in memory, just before the first request can be answered.

    Raises:
        SourceError: the file of labels is not one, or cannot be written.
        SettingsError: the home has the results of another profile file.
    """
    claim_home(settings)
    if labels:
        OwnLabels(labels).all()
        check_writable(labels)
    app = explorer(settings, labels)
    try:
        app.state.pages.snapshots.current()
    except CpmiError as error:
        # the pages say so too, and find a home that is finished later
        LOG.warning("%s; the pages show the labels once they are there", error)
    announce()
    uvicorn.run(app, host=LOCALHOST, port=port, log_level="warning", access_log=False, server_header=False)
