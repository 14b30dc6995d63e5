"""What the web servers of this package answer: requests of their own pages, made to this machine by its own name.

A page of any site can have the reader's browser send requests to 127.0.0.1. These rules refuse them:

    Host: evil.example                   a name that was made to point to this machine             400
    Origin: https://evil.example         a page of another site, a form or a web socket of it      403
    GET /graphql?query=mutation{…}       what an <img> can send, without an Origin                 405

No page of another site may show ours in a frame either. Behind a proxy the pages have another address, which is given:
its name is a further host, and it is a further origin.
"""

from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOCALHOST = "127.0.0.1"
HOSTS = (LOCALHOST, "localhost")
GRAPHQL = "/graphql"


def guard(app: Starlette, origin: str | None = None) -> Starlette:
    """Have an application refuse requests that are not of its own pages.

    Args:
        origin: under which users reach it behind a proxy, such as `https://dagster.example.org`.

    Raises:
        ValueError: it is not a scheme and a host.
    """
    proxy = urlsplit(origin or "")
    if origin and (proxy.scheme not in ("http", "https") or not proxy.hostname or origin != origin.rstrip("/")):
        raise ValueError(f"`{origin}` is not an origin; write one such as https://dagster.example.org")
    app.add_middleware(OwnPagesOnly, origin=origin)
    hosts = [*HOSTS, *filter(None, [proxy.hostname])]
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)
    return app


class OwnPagesOnly:
    """Middleware that refuses what a page of another site can send."""

    def __init__(self, app: ASGIApp, origin: str | None = None) -> None:
        self._app = app
        self._origin = origin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a refusal, or pass the request on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = _refusal(HTTPConnection(scope), self._origin)
        await (refusal or self._app)(scope, receive, _without_frames(send))


def _refusal(request: HTTPConnection, own: str | None) -> PlainTextResponse | None:
    host = request.headers.get("host", "")
    if any(origin not in (f"http://{host}", own) for origin in request.headers.getlist("origin")):
        return PlainTextResponse("this server answers its own pages only", 403)
    if request.url.path.rstrip("/").endswith(GRAPHQL) and "query" in request.query_params:
        return PlainTextResponse("send the query in the body of a POST, as application/json", 405)
    return None


def _without_frames(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["X-Frame-Options"] = "DENY"
        await send(message)

    return guarded
