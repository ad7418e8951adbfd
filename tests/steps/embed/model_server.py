"""A local HTTP server that answers as a test tells it to: a list of canned answers, or a function of the request."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    value: Any
    """JSON value, or bytes sent as they are."""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class ModelServer:
    url: str
    requests: list[tuple[str, Any, dict[str, str]]] = field(default_factory=list)
    """Path, JSON body and headers of each request so far."""


@contextlib.contextmanager
def model_server(answer: Callable[[str, Any, int], Answer]) -> Iterator[ModelServer]:
    """Serves `answer(path, body, number of the request from 0)` on a free port of this machine."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Any) -> None:
            with lock:
                number = len(served.requests)
                served.requests.append((self.path, body, dict(self.headers)))
            reply = answer(self.path, body, number)
            content = reply.value if isinstance(reply.value, bytes) else json.dumps(reply.value).encode()
            self.send_response(reply.status)
            for name, value in {**reply.headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = ModelServer(url=f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
