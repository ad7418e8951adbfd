"""Where a run's time goes: measured, and so kept apart from what equal runs share."""

import os
import resource
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax

PARTS = ("data", "update", "evaluation", "checkpoint", "hooks")
"""What an iteration is divided into; `hooks` is logging, tracking and progress. What is left over is the loop itself."""
_GIB = 2**30


@dataclass
class Timing:
    """Seconds of the iteration under way, and of all before it in this attempt, by part."""

    sequence_length: int
    batch_sequences: int
    flops_per_token: int
    """Of training, with the output head: what is computed, whatever convention a forecast counts in."""
    peak_flops: float | None = None
    totals: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    updates: list[float] = field(default_factory=list)
    """Seconds of each update of this attempt; the first holds compiling."""
    _current: dict[str, float] = field(default_factory=dict)
    _started: float = 0.0
    _cpu_started: float = 0.0

    def start(self) -> None:
        """Begins an iteration."""
        self._current = dict.fromkeys(PARTS, 0.0)
        self._started, self._cpu_started = time.perf_counter(), time.process_time()

    @contextmanager
    def of(self, part: str) -> Generator[None]:
        """Counts the time inside towards a part."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self._current[part] += time.perf_counter() - started

    def end(self) -> dict[str, float]:
        """Ends the iteration; returns its seconds by part, all as `seconds`, processor time as `cpu`, to microseconds."""
        for part, seconds in self._current.items():
            self.totals[part] += seconds
        self.updates.append(self._current["update"])
        whole = time.perf_counter() - self._started
        cpu = time.process_time() - self._cpu_started
        return {
            "seconds": round(whole, 6),
            "cpu": round(cpu, 6),
            **{part: round(each, 6) for part, each in self._current.items()},
        }

    def public(self) -> dict[str, float]:
        """Returns the iteration's throughput and the memory in use under public names; the update must have been timed."""
        seconds, tokens = self._current["update"], self.batch_sequences * self.sequence_length
        found = {
            "throughput/duration": seconds,
            "throughput/loading_time": self._current["data"],
            "throughput/hook_time": self._current["hooks"],
            "throughput/checkpoint_time": self._current["checkpoint"],
            "throughput/iteration_time": time.perf_counter() - self._started,
            "throughput/tokens_per_second": tokens / seconds,
            "throughput/examples_per_second": self.batch_sequences / seconds,
            "throughput/gflops_per_second": tokens * self.flops_per_token / seconds / 1e9,
            "throughput/flops_per_token_analytic": self.flops_per_token,
            "throughput/flops_per_example_analytic": self.flops_per_token * self.sequence_length,
        }
        if self.peak_flops:
            found["throughput/mfu"] = 100 * tokens * self.flops_per_token / seconds / self.peak_flops
        return found | _memory()

    def tokens_per_second(self) -> float:
        """Returns tokens a second of this attempt's median update, the first left out where there are others; 0 for none."""
        later = sorted(self.updates[1:] or self.updates)
        return self.batch_sequences * self.sequence_length / later[len(later) // 2] if later else 0.0


def _memory() -> dict[str, Any]:
    """Of the first device where it tells; else of this process."""
    stats = jax.local_devices()[0].memory_stats()
    if stats:
        names = {"in_use": "bytes_in_use", "limit": "bytes_limit", "peak": "peak_bytes_in_use"}
        return {f"memory/{name}_gib": stats[key] / _GIB for name, key in names.items() if key in stats}
    found = {"memory/peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _GIB}
    statm = Path("/proc/self/statm")
    if statm.exists():
        found["memory/in_use_gib"] = int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / _GIB
    return found
