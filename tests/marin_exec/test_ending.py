"""A command that is asked to end does so in a stated time, whatever the store, the cluster or a library does not answer."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine import Engine
from servers.proxy import Fault, FaultyProxy, faulty_proxy

STALLED = Fault("stalled", seconds=120)
HANGS = """
import ctypes, signal, sys
from marin_exec import ending

ending.END_SECONDS = float(sys.argv[1])
libc = ctypes.CDLL(None)
mutex = ctypes.create_string_buffer(64)

def first():
    raise KeyboardInterrupt

with ending.EndingSignals([signal.SIGINT, signal.SIGTERM], first, lambda: ["the moon"]):
    print("ready", flush=True)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)  # for ever, and no handler of Python's is run meanwhile
"""
SHORT = "from marin_exec import ending; ending.END_SECONDS = 3.0; from marin_exec.cli import main; main()"
EXPERIMENT = """
import time
from dataclasses import dataclass
from marin_exec import Step, open_file

@dataclass(frozen=True)
class Config:
    number: int

def work(config, out):
    if config.number:
        with open_file(out.file("started"), "w") as file:
            file.write("x")
        with open(TRACE, "a") as file:
            file.write(f"{config.number}\\n")
        while not RELEASED.exists():
            time.sleep(0.05)
    return config.number

def pipeline():
    return [Step(f"work/{number}", work, Config(number)) for number in (0, 1)]
"""


@pytest.fixture(params=["gcs", "s3"])
def proxy(request: pytest.FixtureRequest) -> Iterator[FaultyProxy]:
    with faulty_proxy(request.getfixturevalue(f"{request.param}_server")) as proxy:
        yield proxy


class _Short(Engine):
    """The same command line, with an end that comes after 3 s."""

    def command(self, verb: str, *arguments: str) -> list[str]:
        _, *rest = super().command(verb, *arguments)
        return [sys.executable, "-c", SHORT, *rest]


def engine_over(proxy: FaultyProxy, folder: Path, kind: type[Engine] = _Short) -> Engine:
    experiment = folder / "endless.py"
    names = (
        f"from pathlib import Path\nTRACE = {str(folder / 'trace.txt')!r}\nRELEASED = Path({str(folder / 'go')!r})\n"
    )
    experiment.write_text(names + EXPERIMENT)
    environment = {"MARIN_PREFIX": proxy.server.new_prefix(), "MARIN_HEARTBEAT_SECONDS": "0.5"}
    return kind(folder, experiment, {**proxy.server.environment, **environment})


def started(engine: Engine, *arguments: str) -> subprocess.Popen[str]:
    """Starts a run and waits until its step runs."""
    driver = engine.start(*arguments)
    deadline = time.monotonic() + 90
    while not engine.trace.exists():
        assert time.monotonic() < deadline and driver.poll() is None, driver.communicate()
        time.sleep(0.05)
    return driver


def ended(driver: subprocess.Popen[str], at_most: float) -> str:
    """Waits for the end, and returns what was said."""
    began = time.monotonic()
    _, stderr = driver.communicate(timeout=60)
    assert driver.returncode == 130 and "Traceback" not in stderr, stderr
    assert time.monotonic() - began < at_most, stderr
    return stderr


def hanging(seconds: float) -> subprocess.Popen[str]:
    driver = subprocess.Popen(
        [sys.executable, "-c", HANGS, str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert driver.stdout is not None and driver.stdout.readline() == "ready\n"
    time.sleep(0.3)  # it says so right before
    return driver


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_process_whose_main_thread_hangs_in_a_library_ends_in_time(signum: signal.Signals) -> None:
    driver = hanging(2.0)
    driver.send_signal(signum)
    said = ended(driver, 5)
    assert "stopping; this ends within 2 s" in said and "not written: the moon" in said


def test_second_signal_ends_a_process_whose_main_thread_hangs_at_once() -> None:
    for _ in range(3):  # a busy machine may hand the second of two signals over so late that they are two
        driver = hanging(600.0)
        for pause in (0.05, 0.6):  # a signal to the process and one to its group are one
            driver.send_signal(signal.SIGINT)
            time.sleep(pause)
        if driver.poll() is None:
            break
    assert driver.poll() is None
    driver.send_signal(signal.SIGINT)
    assert "by a second signal" in ended(driver, 3)


@pytest.mark.parametrize("signum", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_run_ends_in_time_while_no_request_is_answered_and_says_what_it_could_not_write(
    proxy: FaultyProxy, tmp_path: Path, signum: signal.Signals
) -> None:
    engine = engine_over(proxy, tmp_path)
    driver = started(engine, "--backend", "local")
    proxy.rule = lambda request: STALLED
    driver.send_signal(signum)
    said = ended(driver, 6)
    assert "not written: the end of work/1 (other runs wait 2.5 s for their leases" in said, said
    proxy.rule = None
    (tmp_path / "go").touch()
    assert engine.run().returncode == 0 and engine.ran() == ["1", "1"]
    assert engine.call("verify", "--all").returncode == 0


def test_second_signal_ends_a_run_at_once(proxy: FaultyProxy, tmp_path: Path) -> None:
    engine = engine_over(proxy, tmp_path, Engine)
    driver = started(engine, "--backend", "local")
    proxy.rule = lambda request: STALLED
    driver.send_signal(signal.SIGINT)
    time.sleep(0.7)
    driver.send_signal(signal.SIGINT)
    assert "by a second signal; not written: the end of work/1" in ended(driver, 3)


@pytest.mark.parametrize("verb", ["plan", *(pytest.param(each, marks=pytest.mark.slow) for each in ("status", "ls"))])
def test_reading_verbs_end_in_time_while_no_request_is_answered(proxy: FaultyProxy, tmp_path: Path, verb: str) -> None:
    engine = engine_over(proxy, tmp_path)
    (tmp_path / "go").touch()
    assert engine.run().returncode == 0
    proxy.rule = lambda request: STALLED
    before = len(proxy.requests)
    reading = subprocess.Popen(engine.command(verb), env=engine.env(), stderr=subprocess.PIPE, text=True)
    while len(proxy.requests) == before:
        time.sleep(0.02)
    reading.send_signal(signal.SIGINT)
    ended(reading, 6)


@pytest.mark.slow
def test_run_on_ray_ends_in_time_while_no_request_is_answered(proxy: FaultyProxy, tmp_path: Path) -> None:
    engine = engine_over(proxy, tmp_path, Engine)
    driver = started(engine, "--backend", "ray")
    proxy.rule = lambda request: STALLED
    driver.send_signal(signal.SIGTERM)
    assert "not written: the end of work/" in ended(driver, 17)
    proxy.rule = None
    (tmp_path / "go").touch()
    again = engine.run(backend="ray")
    assert again.returncode == 0, again.stderr
