"""A bad network: an HTTP proxy on loopback before one server, that does to each request what a rule says."""

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

from servers.object_stores import ObjectStoreServer


@dataclass(frozen=True)
class Fault:
    """What happens to one request.

    "cut before": the connection ends, and the server saw nothing. "cut after": the server did it, and the answer is lost.
    "truncated": half of the answer's body arrives. "late": the answer comes `seconds` later. "stalled": after so long the
    connection ends, without the server. "status": the server is not asked; the answer is `status`.
    """

    kind: Literal["cut before", "cut after", "truncated", "late", "stalled", "status"]
    status: int = 503
    seconds: float = 0.0


@dataclass(frozen=True)
class Request:
    number: int
    """From 1, over all connections."""
    method: str
    path: str
    """With the query."""


type Rule = Callable[[Request], Fault | None]


class FaultyProxy:
    """Set `rule` at any time; None lets everything pass. `requests` are those that came so far."""

    def __init__(self, server: ObjectStoreServer):
        self.rule: Rule | None = None
        self.requests: list[Request] = []
        self._behind = urlsplit(server.url).netloc
        self._lock = threading.Lock()
        proxy = self

        class Handler(_Handler):
            def handle_one(self) -> None:
                proxy._serve(self)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._http.handle_error = lambda request, client_address: None  # clients leave when they have waited enough
        self.server = replace(server, url=f"http://127.0.0.1:{self._http.server_port}")

    def __enter__(self) -> "FaultyProxy":
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def _serve(self, handler: "_Handler") -> None:
        body = handler.read_body()
        with self._lock:
            request = Request(len(self.requests) + 1, handler.command, handler.path)
            self.requests.append(request)
            fault = self.rule(request) if self.rule is not None else None
        kind = fault.kind if fault is not None else ""
        if fault is not None and kind in ("late", "stalled"):
            time.sleep(fault.seconds)
        if kind in ("cut before", "stalled"):
            return handler.cut()
        if fault is not None and kind == "status":
            return handler.answer(fault.status, [("Content-Type", "text/plain")], b"the network is bad")
        status, headers, answer = self._ask(handler, body)
        if kind == "cut after":
            return handler.cut()
        handler.answer(status, headers, answer, len(answer) // 2 if kind == "truncated" else None)

    def _ask(self, handler: "_Handler", body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self._behind, timeout=60)
        with contextlib.closing(connection):
            connection.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
            for name, value in handler.headers.items():
                if name.lower() not in ("transfer-encoding", "content-length", "connection", "expect"):
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            found = connection.getresponse()
            headers = [each for each in found.getheaders() if each[0].lower() not in _OF_A_CONNECTION]
            length = found.getheader("Content-Length")
            content = found.read()
            if handler.command == "HEAD" and length is not None:
                headers.append(("Content-Length", length))
            return found.status, headers, content


_OF_A_CONNECTION = ("transfer-encoding", "content-length", "connection", "keep-alive")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def handle_one(self) -> None:
        raise NotImplementedError

    def read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    def cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def answer(self, status: int, headers: list[tuple[str, str]], body: bytes, sent: int | None = None) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers) and status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:sent])
        if sent is not None:
            self.cut()

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):
            return self.handle_one
        raise AttributeError(name)


@contextlib.contextmanager
def faulty_proxy(server: ObjectStoreServer) -> Iterator[FaultyProxy]:
    """Runs a proxy before a server; its `server` is what clients are to be given."""
    with FaultyProxy(server) as proxy:
        yield proxy
