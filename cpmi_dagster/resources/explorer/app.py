"""The explorer as a web application on 127.0.0.1, which answers its own pages only and loads nothing from elsewhere.

A page of any site can make the reader's browser send requests to 127.0.0.1. These are refused:

    Host: evil.example              a domain that resolves to this machine                   400
    Origin: https://evil.example    a page or form of another site, or a form without one    403
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from cpmi_dagster.errors import CpmiError
from cpmi_dagster.files.whole_files import check_writable
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.commands.ui import LOCALHOST
from cpmi_dagster.resources.explorer.judging import Judging
from cpmi_dagster.resources.explorer.own_labels import OwnLabels
from cpmi_dagster.resources.explorer.pages import Pages
from cpmi_dagster.resources.lake.home_file import claim_home

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
    """The application; labels are written to `own_labels.jsonl` in the home by default."""
    pages = Pages(settings, OwnLabels(labels or settings.home / FILE_NAME))
    judging = Judging(pages, settings)
    app = Starlette(
        routes=[
            Route("/", pages.trajectories),
            Route("/trajectory/{name:path}", pages.trajectory),
            Route("/disagreement", pages.disagreement),
            Route("/refresh", read_form(pages.refresh), methods=["POST"]),
            Route("/queue", judging.queue),
            Route("/annotator", read_form(judging.name), methods=["POST"]),
            Route("/first-wrong/{name}", read_form(judging.judge_solution), methods=["POST"]),
            Route("/verdict/{name}", read_form(judging.judge), methods=["POST"]),
            Route("/own-figures", judging.figures),
            Route("/own-labels", judging.own_labels),
            Route("/own-labels.{form}", judging.download),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=[LOCALHOST, "localhost"], www_redirect=False),
            Middleware(BaseHTTPMiddleware, dispatch=guard),
        ],
        exception_handlers={HTTPException: pages.refuse, CpmiError: pages.refuse},
    )
    app.state.results = pages.results
    return app


async def guard(request: Request, answer: RequestResponseEndpoint) -> Response:
    """Refuse requests of another origin, and forms without one; forbid browsers to load anything from elsewhere."""
    origins = request.headers.getlist("origin")
    is_ours = all(origin == f"http://{request.headers.get('host')}" for origin in origins)
    if is_ours and (origins or request.method != "POST"):
        response = await answer(request)
    else:
        response = PlainTextResponse("this server answers its own pages only", 403)
    response.headers.update(HEADERS)
    return response


def read_form(answer: Callable[[Request, QueryParams], Response]) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that calls a function with a form."""

    async def read(request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LONGEST_BODY:
                raise HTTPException(400, f"send a form of at most {LONGEST_BODY:,} bytes")
        return await run_in_threadpool(answer, request, QueryParams(body.decode(errors="replace")))

    return read


def serve_explorer(settings: Settings, port: int, labels: Path | None, announce: Callable[[], object]) -> None:
    """Serve the explorer on 127.0.0.1 until it is stopped.

    Args:
        announce: called just before the server starts.

    Raises:
        SourceError: the file of labels is invalid, or cannot be written.
        LakeError: nothing has been made yet.
        SettingsError: the home has the results of another profile file.
    """
    claim_home(settings)
    if labels:
        OwnLabels(labels).all()
        check_writable(labels)
    app = explorer(settings, labels)
    app.state.results.get()
    announce()
    uvicorn.run(app, host=LOCALHOST, port=port, log_level="warning", access_log=False, server_header=False)
