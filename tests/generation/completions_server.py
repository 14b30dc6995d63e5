"""A server on this machine that speaks the completions protocol; imported by tests."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """What the server says to one request."""

    body: Any
    status: int = 200


@dataclass
class Server:
    """A running server: and what it was asked."""

    url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[Message] = field(default_factory=list)


@contextmanager
def serve(answer: Callable[[dict[str, Any]], Answer]) -> Iterator[Server]:
    """A server that answers every request by a function of its body."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                server.requests.append({"path": self.path, **body})
                server.headers.append(self.headers)
            said = answer(body)
            payload = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
            try:
                self.send_response(said.status)
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    server = Server(f"http://127.0.0.1:{httpd.server_port}/v1")
    threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()


def completion(text: str, finish: str = "stop", **choice: Any) -> dict[str, Any]:
    """A reply with this text, for 5 tokens read and 4 sampled."""
    usage = {"prompt_tokens": 5, "completion_tokens": 4}
    return {"choices": [{"index": 0, "text": text, "finish_reason": finish, **choice}], "usage": usage}
