"""Which requests the web servers answer."""

import asyncio
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from cpmi_dagster.resources.web.own_pages_only import guard

OWN = "127.0.0.1:3000"


async def said(_: Request) -> PlainTextResponse:
    return PlainTextResponse("fine")


async def accepted(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.close()


def ask(
    path: str, method: str = "GET", kind: str = "http", proxy: str | None = None, **headers: str
) -> tuple[int, dict[str, str]]:
    """Status and headers of the answer to a request; 101 for a web socket that is accepted."""
    routes = [Route("/{path:path}", said, methods=["GET", "POST"]), WebSocketRoute("/{path:path}", accepted)]
    sent: list[dict[str, Any]] = []
    place, _, query = path.partition("?")
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": kind,
        "method": method,
        "path": place,
        "raw_path": place.encode(),
        "query_string": query.encode(),
        "headers": named,
        "scheme": "ws" if kind == "websocket" else "http",
        "server": ("127.0.0.1", 3000),
        "extensions": {"websocket.http.response": {}},
        "subprotocols": [],
    }

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"} if kind == "websocket" else {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(guard(Starlette(routes=routes), proxy)(scope, receive, send))
    status = 101 if sent[0]["type"] == "websocket.accept" else sent[0]["status"]
    return status, {name.decode(): value.decode() for name, value in sent[0].get("headers", [])}


@pytest.mark.parametrize("host", [OWN, "localhost:3000", "localhost", "127.0.0.1", "LOCALHOST:8080"])
def test_this_machine_is_known_by_its_own_names(host):
    assert ask("/", host=host)[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:3000", "127.0.0.1.evil.example", "", "169.254.0.1"])
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_name_that_points_here_is_refused(host, kind):
    assert ask("/graphql", kind=kind, host=host)[0] == 400


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://localhost:3000", f"https://{OWN}", f"http://{OWN}.evil.example", ""],
)
@pytest.mark.parametrize(("kind", "method"), [("http", "GET"), ("http", "POST"), ("websocket", "GET")])
def test_a_page_of_another_origin_is_refused(origin, kind, method):
    assert ask("/graphql", method, kind, host=OWN, origin=origin)[0] == 403


def test_our_own_pages_are_answered():
    assert ask("/graphql", "POST", host=OWN, origin=f"http://{OWN}")[0] == 200
    assert ask("/graphql", kind="websocket", host=OWN, origin=f"http://{OWN}")[0] == 101
    assert ask("/graphql", host=OWN)[0] == 200
    assert ask("/runs?query=x", host=OWN)[0] == 200


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
@pytest.mark.parametrize("path", ["/graphql?query=mutation{a}", "/graphql?a=b&query=x", "/graphql/?%71uery=x"])
def test_no_query_is_taken_from_an_address(method, path):
    assert ask(path, method, host=OWN)[0] == 405


def test_no_page_of_another_site_shows_ours_in_a_frame():
    assert ask("/", host=OWN)[1]["x-frame-options"] == "DENY"


PROXY = "https://dagster.example.org"


@pytest.mark.parametrize("host", ["dagster.example.org", "127.0.0.1:3000"])
def test_behind_a_proxy_its_address_is_one_of_our_own(host):
    assert ask("/graphql", "POST", proxy=PROXY, host=host, origin=PROXY)[0] == 200


def test_behind_a_proxy_other_addresses_are_still_refused():
    assert ask("/", proxy=PROXY, host="evil.example")[0] == 400
    assert ask("/", "POST", proxy=PROXY, host="dagster.example.org", origin="https://evil.example")[0] == 403
    assert ask("/", "POST", host=OWN, origin=PROXY)[0] == 403


@pytest.mark.parametrize("origin", ["dagster.example.org", "ftp://dagster.example.org", "https://", f"{PROXY}/"])
def test_an_address_that_is_not_an_origin_is_refused(origin):
    with pytest.raises(ValueError, match="is not an origin; write one such as"):
        guard(Starlette(), origin)
