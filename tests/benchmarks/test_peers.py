"""The comparison with other engines: its proofs, its arithmetic, and that the README's table is what it printed. No times."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.bounded import Failed, run_bounded
from benchmarks.peers.compare import bars
from benchmarks.peers.engines import ENGINES, Engine
from benchmarks.peers.measure import Unproved, measure
from benchmarks.peers.scripts import dag
from benchmarks.peers.table import section, table, with_table

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "benchmarks" / "peers"


def row(engine: str, **changed: object) -> dict:
    return {
        "engine": engine,
        "checks": "everything",
        "rests_on": "recipe",
        "num_steps": 200,
        "start_seconds": 0.5,
        "cold_seconds": 1.5,
        "warm_seconds": 0.6,
        "cold_ms": 5.0,
        "warm_ms": 0.5,
        "cold_cpu_ms": 4.0,
        "warm_cpu_ms": 0.25,
        "peak_mb": 50,
        "files": 801,
        **changed,
    }


def test_graph_has_the_shape_that_is_promised_and_its_values_need_every_edge() -> None:
    assert len(dag.steps(20)) == 200 and all(len(dag.parents(*each)) == 3 for each in dag.steps(20) if each[0])
    # By hand: the first layer is 1s, the second 1 + 3, the third 1 + 12, the fourth 1 + 39, the fifth 1 + 120 % 97.
    assert [dag.expected(n)[0] for n in (1, 2, 3, 4, 5)] == [1, 4, 13, 40, 24]


def test_table_shows_ratios_to_this_engine_and_marks_what_knows_no_recipe() -> None:
    rows = [row("marin-exec"), row("luigi", cold_ms=10.0, warm_ms=0.05, rests_on="existence", checks="that it exists")]
    header, rule, ours, theirs = table(rows).splitlines()
    assert header.count("|") == rule.count("|") == ours.count("|") == theirs.count("|")
    assert ours == "| **marin-exec** | 0.50 | 5.00 | 4.00 | 0.50 | 0.25 | 0.60 | 801 | everything |"
    assert theirs == (
        "| luigi | 0.50 | 10.00 (x2) | 4.00 | 0.05 (x0.1) | 0.25 | 0.60 | 801 | that it exists (existence only) |"
    )


def test_bars_compare_with_the_synced_floor_and_with_the_fastest_peer_that_knows_the_recipe() -> None:
    rows = [
        row("no engine", warm_seconds=0.1),
        row("no engine, fsync", cold_ms=1.0, warm_seconds=0.1),
        row("marin-exec", cold_ms=6.5),
        row("luigi", rests_on="existence", warm_seconds=0.1),
        row("make -j2", rests_on="times", warm_seconds=0.1),
        row("redun", warm_seconds=3.0),
        row("joblib", warm_seconds=0.5),
    ]
    found = {line["figure"]: line for line in bars(rows)}
    cold = found["cold step over the same work with fsync, whole command"]
    assert cold["value"] == 5.5 and cold["bar"] is None
    warm = found["warm run over that of joblib, the fastest peer that knows the recipe"]
    assert warm["value"] == 1.2 and warm["bar"] is None
    files = found["small files a step"]
    assert files["value"] == 3.005 and files["holds"]  # 801 files: 4 a step, of which one is data, and the root
    missed = {line["figure"]: line for line in bars([row("marin-exec", warm_ms=1.01)])}
    assert not missed["warm step over start-up, whole command"]["holds"]


def test_readme_shows_the_saved_rows_as_the_program_prints_them() -> None:
    measured = json.loads((PEERS / "results.json").read_text())
    readme = (ROOT / "README.md").read_text()
    assert section(measured) in readme, "python -m benchmarks.peers.compare --save makes both"
    assert with_table(readme, measured) == readme
    names = {each.name for each in ENGINES}
    assert {each["engine"] for each in measured["rows"]} <= names
    with pytest.raises(ValueError, match="bench-engine"):
        with_table("no marks", measured)


@pytest.mark.timeout(120)
def test_comparison_runs_this_engine_and_a_peer_for_real(tmp_path: Path) -> None:
    environment = {**os.environ, "BENCH_LAYERS": "2", "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "benchmarks.peers.compare", "no engine, fsync", "--tries", "1"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode in (0, 1), done.stderr  # 1: a bar missed, on a machine that does other things too
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    rows = {line["engine"]: line for line in lines if "engine" in line}
    assert set(rows) == {"no engine, fsync", "marin-exec"}
    assert all(each["num_steps"] == 20 and each["cold_seconds"] > 0 for each in rows.values())
    assert rows["no engine, fsync"]["files"] == 20
    assert 20 * 2 < rows["marin-exec"]["files"] <= 20 * 5 + 1  # a step's value, at most four small files, and the root
    assert "| **marin-exec** |" in done.stdout


CHEATS = {
    "does nothing": ("", "0 bodies ran"),
    "wrong values": ("for _ in dag.steps(): dag.body_ran()\ndag.report([1] * 10)", "ended in"),
    "runs again when all is done": (
        "for _ in dag.steps(): dag.body_ran()\ndag.report(dag.expected())",
        "200 bodies ran, and 0 should have",
    ),
    "fails": ("raise SystemExit('no disk')", "exit code 1; it printed: ...no disk"),
}


@pytest.mark.parametrize("how", CHEATS)
def test_run_that_does_not_prove_itself_has_no_row(tmp_path: Path, how: str) -> None:
    code, why = CHEATS[how]
    script = tmp_path / "run_cheat.py"
    start = f"import sys\nsys.path.insert(0, {str(PEERS / 'scripts')!r})\nimport dag\n"
    script.write_text(f"{start}if '--start-only' in sys.argv: raise SystemExit\n{code}\n")
    cheat = Engine(name="cheat", script=str(script), checks="nothing")
    with pytest.raises((Unproved, Failed), match=why):
        measure(cheat, tries=1)


def test_run_that_takes_too_long_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = (
        "import pathlib, subprocess, sys, time\nchild = subprocess.Popen(['sleep', '100'])\n"
        "pathlib.Path(sys.argv[1]).write_text(str(child.pid))\ntime.sleep(100)"
    )
    with pytest.raises(Failed, match="took longer than 5 s"):
        run_bounded([sys.executable, "-c", code, str(pid)], most_seconds=5)
    child = Path("/proc", pid.read_text(), "stat")
    deadline = time.monotonic() + 30
    while child.exists() and child.read_text().split()[2] != "Z":  # a zombie is dead; nobody here can reap it
        assert time.monotonic() < deadline, "the child of a killed run lives on"
        time.sleep(0.05)
