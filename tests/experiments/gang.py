"""A step that runs in ranks: they meet at the coordinator, write a file each, and end in the way that is asked for."""

import ctypes
import os
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from marin_exec import Out, Resources, Retry, Step, kind, main, runtime

FOLDER = Path(os.environ.get("CHAIN_TRACE", "trace")).parent
WAIT_SECONDS = 60


@dataclass(frozen=True)
class Params:
    how: str = "well"
    ranks: int = 2
    gangs: int = 1
    limit: int = 0
    """Gangs at a time."""


@dataclass(frozen=True)
class Config:
    how: str
    number: int = 0
    folder: Annotated[str, runtime] = str(FOLDER)


@dataclass(frozen=True)
class Met:
    ranks: int


def meet(out: Out) -> list[int]:
    """Returns the ranks that came to the coordinator's address, in rank 0; the others say their number there."""
    host, port = out.coordinator.rsplit(":", 1)
    if out.rank:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                with socket.create_connection((host, int(port)), timeout=5) as line:
                    line.sendall(bytes([out.rank]))
                    return []
            except ConnectionRefusedError:
                assert time.monotonic() < deadline, "rank 0 did not come"
                time.sleep(0.05)
    came = []
    with socket.create_server((host, int(port))) as server:
        server.settimeout(WAIT_SECONDS)
        for _ in range(out.num_ranks - 1):
            line, _ = server.accept()
            came.append(line.recv(1)[0])
            line.close()
    return came


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.02)


@kind("tests/gang", version=1, gang=True)
def gang(config: Config, out: Out) -> Met:
    if config.how == "killed_at_start":
        killed_once(config, out)
    came = meet(out)
    gang = f"-of-{config.number}" if config.number else ""
    Path(config.folder, f"rank-{out.rank}{gang}").write_text(str(os.getpid()))
    out.progress(f"met as {out.rank} of {out.num_ranks}")
    END[config.how](config, out)
    if out.rank:
        time.sleep(1)  # the output is described when all have ended, and not when rank 0 has
    Path(out.file(f"part-{out.rank}")).write_text(str(out.rank))
    if config.how == "killed_at_end":
        killed_once(config, out)
    if config.how == "chief_killed_at_end":
        killed_once(config, out, victim=0)
    return Met(1 + len(came))


def well(config: Config, out: Out) -> None:
    return


def killed_once(config: Config, out: Out, victim: int = 1) -> None:
    """A rank is killed in the first attempt; the other notices by an exception, as collectives do."""
    first = Path(config.folder, "killed")
    if first.exists():
        return
    if out.rank == victim:
        first.write_text("")
        print("rank 1 says goodbye", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    wait_for(first)
    raise ConnectionResetError("the other rank hung up")


def raises(config: Config, out: Out) -> None:
    if out.rank == 1:
        raise ValueError("rank 1 does not like it")
    time.sleep(300)


def hangs(config: Config, out: Out) -> None:
    """Rank 0 hangs in a library, where no handler of Python's runs, while rank 1 fails."""
    if out.rank == 1:
        raise ValueError("rank 1 does not like it")
    library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)


def takes_seconds(config: Config, out: Out) -> None:
    """Says when it began and when it was through, by a clock that all processes of a machine share."""
    began = time.monotonic()
    time.sleep(8)
    Path(config.folder, f"span-{config.number}-{out.rank}").write_text(f"{began} {time.monotonic()}")


def held(config: Config, out: Out) -> None:
    time.sleep(300)


END: dict[str, Any] = {each.__name__: each for each in (well, killed_once, raises, hangs, takes_seconds, held)}
END |= dict.fromkeys(("killed_at_start", "killed_at_end", "chief_killed_at_end"), well)


def pipeline(params: Params) -> list[Step]:
    resources = Resources(cpus=0.5, ranks=params.ranks)
    limits = {"gangs": params.limit} if params.limit else {}
    names = ["gang", *(f"gang/{number}" for number in range(1, params.gangs))]
    return [
        Step(name, gang, Config(params.how, number), resources=resources, retry=Retry(infrastructure=1), limits=limits)
        for number, name in enumerate(names)
    ]


if __name__ == "__main__":
    main(pipeline)
