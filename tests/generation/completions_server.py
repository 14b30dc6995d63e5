"""A server on this machine that speaks the completions protocol, and a small model for it; imported by tests."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch

from cpmi_dagster.generation.decoding import decode
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.token_sampling import uniform_numbers
from cpmi_dagster.models.language_models import LoadedModel


@dataclass
class Answer:
    """What the server says to one request; with `breaks_off`, half of it, after which it calls that and waits."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    breaks_off: Callable[[], object] | None = None

    def payload(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass
class Server:
    """A running server: what it was asked, and by how many at once."""

    url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[Message] = field(default_factory=list)
    most_at_once: int = 0
    at_once: int = 0


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
                server.at_once += 1
                server.most_at_once = max(server.most_at_once, server.at_once)
            said = answer(body)
            with lock:
                server.at_once -= 1
            payload = said.payload()
            try:
                self.send_response(said.status)
                for name, value in said.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                if said.breaks_off is None:
                    self.wfile.write(payload)
                else:
                    self.wfile.write(payload[: len(payload) // 2])
                    said.breaks_off()
                    self.rfile.read()  # until the client closes the connection
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    server = Server(f"http://127.0.0.1:{httpd.server_port}/v1")
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()


def completion(*texts: str, finish: str = "stop", usage: dict[str, int] | None = None, **choice: Any) -> dict[str, Any]:
    """A reply with these texts."""
    choices = [{"index": i, "text": text, "finish_reason": finish, **choice} for i, text in enumerate(texts)]
    return {"choices": choices, **({"usage": usage} if usage else {})}


@dataclass(frozen=True)
class Sample:
    """One text as a server makes it: cut before its stop string, with the reason why it ended."""

    text: str
    tokens: list[int]
    finish_reason: str
    stop_reason: str | None


class _EndOfText:
    """Ends a text at the end-of-text token alone."""

    def ended(self, tokens: torch.Tensor, counts: torch.Tensor, active: torch.Tensor) -> torch.Tensor:
        return (tokens.gather(1, (counts - 1)[:, None])[:, 0] == 0) & active


def samples_of(
    loaded: LoadedModel, prompt: tuple[int, ...], sampling: Sampling, count: int, seed: int, stop: list[str]
) -> list[Sample]:
    """Texts of a model, drawn as a server with a seed would."""
    numbers = [uniform_numbers(str(prompt), seed + number, 1, sampling.max_new_tokens) for number in range(count)]
    texts = decode(loaded.model, [prompt] * count, torch.cat(numbers), sampling, _EndOfText(), count)
    drawn = {one.owner: one for one in texts}
    return [_sample(loaded, drawn[owner].tokens, drawn[owner].ended, stop) for owner in range(count)]


def _sample(loaded: LoadedModel, tokens: list[int], ended: bool, stop: list[str]) -> Sample:
    for length in range(1, len(tokens) + 1):
        text = loaded.tokenizer.decode(tokens[:length], skip_special_tokens=True)
        for string in stop:
            if string in text:
                return Sample(text.partition(string)[0], tokens[:length], "stop", string)
    text = loaded.tokenizer.decode(tokens, skip_special_tokens=True)
    return Sample(text, tokens, "stop" if ended else "length", None)


def model_answers(loaded: LoadedModel) -> Callable[[dict[str, Any]], Answer]:
    """Answers of a server that runs a model, in vLLM's words where a prompt is too long."""
    lock = threading.Lock()

    def answer(body: dict[str, Any]) -> Answer:
        ids = tuple(loaded.tokenizer.encode(body["prompt"]))
        if len(ids) + body["max_tokens"] > loaded.context_length:
            message = f"This model's maximum context length is {loaded.context_length} tokens. However, you requested"
            return Answer({"error": {"message": message, "code": 400}}, 400)
        sampling = Sampling(
            temperature=body["temperature"],
            top_p=body["top_p"],
            top_k=body.get("top_k", 0),
            max_new_tokens=body["max_tokens"],
        )
        with lock:
            samples = samples_of(loaded, ids, sampling, 1, body["seed"], body.get("stop", []))
        choices = [
            {"index": i, "text": one.text, "finish_reason": one.finish_reason, "stop_reason": one.stop_reason}
            for i, one in enumerate(samples)
        ]
        usage = {"prompt_tokens": len(ids), "completion_tokens": sum(len(one.tokens) for one in samples)}
        return Answer({"choices": choices, "usage": usage})

    return answer
