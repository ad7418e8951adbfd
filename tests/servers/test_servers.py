"""The servers that stand for object stores keep what the store rests on, and end with whoever started them."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from servers.object_stores import ROOT, ObjectStoreServer


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=10).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


@pytest.mark.parametrize("kind", ["gcs", "s3"])
def test_server_ends_with_a_killed_owner(kind: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(f"{kind}_server")  # skips where the servers are not installed
    code = f"from servers.object_stores import *\nwith {kind}_server() as s: print(s.url, flush=True); input()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    owner = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    url = owner.stdout.readline().strip()
    assert answers(url)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    deadline = time.monotonic() + 30
    while answers(url):
        assert time.monotonic() < deadline, f"{url} still answers after its owner was killed"
        time.sleep(0.05)


@pytest.mark.parametrize("kind", ["gcs", "s3"])
def test_server_is_found_by_its_environment(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fsspec

    server: ObjectStoreServer = request.getfixturevalue(f"{kind}_server")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    prefix = server.new_prefix()
    fs = fsspec.filesystem(server.scheme, skip_instance_cache=True)
    fs.pipe_file(f"{prefix}/x", b"content")
    assert fs.cat_file(f"{prefix}/x") == b"content" and prefix != server.new_prefix()
