"""A head that does not answer: for how long it is waited for, on a clock of the test's."""

import socket

import pytest

from marin_exec import StepFailed
from marin_exec.runners import ray_head
from marin_exec.runners.ray_head import HeadWatch


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(ray_head, "time", clock)
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "60")
    return clock


def test_head_that_stays_away_for_half_of_rays_patience_ends_the_run(clock, monkeypatch):
    monkeypatch.setattr(ray_head, "head_answers", lambda: False)
    watch = HeadWatch()
    for _ in range(30):
        watch.look()
        assert not watch.is_well
        clock.now += 1
    clock.now += 1
    with pytest.raises(StepFailed, match=r"has not answered for 31 s: .* leases given back"):
        watch.look()


def test_head_that_comes_back_in_time_is_forgiven(clock, monkeypatch):
    watch = HeadWatch()
    for answers in (False, True, False, True):
        monkeypatch.setattr(ray_head, "head_answers", lambda answers=answers: answers)
        clock.now += 25
        watch.look()
        assert watch.is_well is answers


def test_driver_that_slept_for_long_gives_the_head_its_time(clock, monkeypatch):
    monkeypatch.setattr(ray_head, "head_answers", lambda: True)
    watch = HeadWatch()
    watch.look()
    clock.now += 3600
    monkeypatch.setattr(ray_head, "head_answers", lambda: False)
    watch.look()  # the first time that it does not answer
    assert not watch.is_well


def test_head_is_asked_by_a_connection(monkeypatch):
    import ray

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        context = type("Context", (), {"gcs_address": f"127.0.0.1:{port}"})()
        monkeypatch.setattr(ray, "get_runtime_context", lambda: context)
        assert ray_head.head_answers()
    assert not ray_head.head_answers()
