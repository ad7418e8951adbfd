"""What a bad network does to the data of a store on GCS and S3: it is tried again, or one clear error, and never waits for ever."""

import random
import time
from collections.abc import Iterator

import pytest
from engine import EXPERIMENTS, Engine
from servers.proxy import Fault, FaultyProxy, Request, faulty_proxy

from marin_exec.errors import StoreError
from marin_exec.runners.failures import may_pass
from marin_exec.store import Store, clients, gcs, patience
from marin_exec.store.scanning import checksum_of, remote_sizes

REFUSED = Fault("status", status=403)
PASSING = (Fault("status", status=503), Fault("status", status=429), Fault("cut before"), Fault("stalled", seconds=0.6))


@pytest.fixture(params=["gcs", "s3"])
def proxy(request: pytest.FixtureRequest) -> Iterator[FaultyProxy]:
    with faulty_proxy(request.getfixturevalue(f"{request.param}_server")) as proxy:
        yield proxy


def is_data(request: Request) -> bool:
    return ".marin" not in request.path and "/upload/" not in request.path


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that try for a second, and wait for little in between."""
    monkeypatch.setattr(patience, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(clients, "RETRY_SECONDS", 1.0)
    monkeypatch.setattr(clients, "QUIET_SECONDS", 0.2)
    monkeypatch.setattr(clients, "READ_SECONDS", 0.2)
    monkeypatch.setattr(gcs, "_TIMEOUT", (1.0, 0.2))


@pytest.fixture
def store(proxy: FaultyProxy, impatient: None, monkeypatch: pytest.MonkeyPatch) -> Store:
    for name, value in proxy.server.environment.items():
        monkeypatch.setenv(name, value)
    store = Store.open(proxy.server.new_prefix())
    store.fs.pipe_file(store.url("out/x"), b"content")
    return store


@pytest.mark.parametrize("fault", [REFUSED, *PASSING], ids=lambda fault: f"{fault.kind} {fault.status}")
def test_data_that_cannot_be_reached_is_an_error_of_the_store(proxy: FaultyProxy, store: Store, fault: Fault) -> None:
    proxy.rule = lambda request: fault
    for look in (lambda: remote_sizes(store.fs, store.url("out")), lambda: checksum_of(store.fs, store.url("out/x"))):
        before, began = len(proxy.requests), time.monotonic()
        with pytest.raises(StoreError, match=rf"{store.prefix}/out.*: not reached") as raised:
            look()
        assert time.monotonic() - began < 8
        if fault is not REFUSED:
            assert may_pass(raised.value) and len(proxy.requests) - before > 2
    proxy.rule = None
    assert remote_sizes(store.fs, store.url("out")) == {"x": 7}


@pytest.mark.parametrize("fault", [*PASSING, Fault("truncated")], ids=lambda fault: f"{fault.kind} {fault.status}")
def test_data_that_cannot_be_reached_once_is_read_all_the_same(proxy: FaultyProxy, store: Store, fault: Fault) -> None:
    for look in (lambda: remote_sizes(store.fs, store.url("out")), lambda: checksum_of(store.fs, store.url("out/x"))):
        well, number = look(), len(proxy.requests) + 1
        proxy.rule = lambda request, number=number: fault if request.number == number else None
        assert look() == well


@pytest.mark.parametrize(
    "fault",
    [PASSING[0], pytest.param(PASSING[2], marks=pytest.mark.slow)],
    ids=lambda fault: f"{fault.kind} {fault.status}",
)
def test_control_files_and_data_are_tried_for_a_time_rather_than_a_number_of_times(
    proxy: FaultyProxy, store: Store, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    monkeypatch.setattr(clients, "RETRY_SECONDS", 60.0)
    store.files.create(".marin/x", b"1")
    for look in (
        lambda: remote_sizes(store.fs, store.url("out")),
        lambda: store.files.read(".marin/x"),
        lambda: store.files.names(".marin"),
        lambda: store.files.create(f".marin/{len(proxy.requests)}", b"2"),
    ):
        bad_until = len(proxy.requests) + 8
        proxy.rule = lambda request, bad_until=bad_until: fault if request.number <= bad_until else None
        assert look()
        assert len(proxy.requests) > bad_until


@pytest.mark.parametrize(
    "fault",
    [pytest.param(PASSING[0], marks=pytest.mark.slow), PASSING[3]],
    ids=lambda fault: f"{fault.kind} {fault.status}",
)
def test_control_files_that_cannot_be_reached_are_given_up_in_time(
    proxy: FaultyProxy, store: Store, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    monkeypatch.setattr(clients, "RETRY_SECONDS", 4.0)
    proxy.rule = lambda request: fault
    for call in (lambda: store.files.read(".marin/x"), lambda: store.files.create(".marin/x", b"")):
        before, began = len(proxy.requests), time.monotonic()
        with pytest.raises(OSError, match=rf"{proxy.server.scheme}://"):
            call()
        assert time.monotonic() - began < 12 and len(proxy.requests) - before > 2


def test_plan_whose_data_is_refused_says_so_in_one_message(proxy: FaultyProxy, tmp_path) -> None:
    engine = engine_over(proxy, tmp_path)
    assert engine.run().returncode == 0
    proxy.rule = lambda request: REFUSED if is_data(request) else None
    for done in (engine.call("plan"), engine.run()):
        assert done.returncode == 1 and "Traceback" not in done.stderr
        assert f"error: {engine.environment['MARIN_PREFIX']}/words/" in done.stderr and "not reached" in done.stderr


def test_store_that_can_only_be_read_serves_all_that_reads_and_says_what_it_cannot_write(
    proxy: FaultyProxy, tmp_path
) -> None:
    engine = engine_over(proxy, tmp_path)
    assert engine.run().returncode == 0
    proxy.rule = lambda request: None if request.method in ("GET", "HEAD") else REFUSED
    prefix = engine.environment["MARIN_PREFIX"]
    for verb, arguments in {
        "plan": (),
        "status": (),
        "ls": (),
        "show": ("words/count",),
        "lineage": ("words/count",),
    }.items():
        read = engine.call(verb, *arguments)
        assert read.returncode == 0 and ("words" in read.stdout or "2 REUSE" in read.stdout), read.stderr
    done = engine.run("--until", "words/parts")  # other targets than any run before
    assert done.returncode == 0 and "words/parts\t" in done.stdout, done.stderr
    assert f"note: remote is not registered in {prefix}, which cannot be written" in done.stderr
    for change in (("run", "--backend", "local", "--parts", "4"), ("invalidate", "words/count", "--why", "a test")):
        refused = engine.call(*change)
        assert refused.returncode == 1 and "Traceback" not in refused.stderr, refused.stderr
        assert f"error: {prefix.split('/m', 1)[0]}" in refused.stderr or f"store {prefix}" in refused.stderr, (
            refused.stderr
        )
        assert "access refused" in refused.stderr


def engine_over(proxy: FaultyProxy, folder) -> Engine:
    environment = {
        **proxy.server.environment,
        "MARIN_PREFIX": proxy.server.new_prefix(),
        "MARIN_HEARTBEAT_SECONDS": "2",
    }
    return Engine(folder, EXPERIMENTS / "remote.py", environment)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_run_through_a_bad_network_ends_right_or_says_why_and_the_next_ends_right(
    proxy: FaultyProxy, tmp_path, seed: int
) -> None:
    chance = random.Random(seed)
    kinds = (*PASSING[:3], Fault("cut after"), Fault("late", seconds=0.3))
    proxy.rule = lambda request: chance.choice(kinds) if chance.random() < 0.1 else None
    engine = engine_over(proxy, tmp_path)
    through = engine.run()
    assert through.returncode in (0, 1) and "Traceback (most recent" not in through.stderr, through.stderr
    if through.returncode:
        assert "FAILED" in through.stderr or "error: " in through.stderr, through.stderr
    proxy.rule = None
    again = engine.run()
    assert again.returncode == 0, again.stderr
    whole = engine.call("verify", "--all")
    assert whole.returncode == 0, whole.stdout + whole.stderr
    assert "\t" in again.stdout and engine.ran().count("count") >= 1
