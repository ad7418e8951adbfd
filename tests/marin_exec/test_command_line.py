"""What a user sees: exit codes, what is on stdout, terminals, and odd places to run from."""

import json
import os
import pty
import pwd
import shutil
import signal
import subprocess
import sys
import time

import pytest
from engine import EXPERIMENTS, PROGRAM, Engine

from marin_exec.provenance import new_run

READING = {
    "plan": (),
    "status": (),
    "why": ("total",),
    "show": ("total",),
    "diff": ("power/squares", "power/cubes"),
    "lineage": ("total",),
    "ls": (),
    "logs": ("total",),
    "roots": (),
    "gc": (),
}


@pytest.fixture
def engine(tmp_path) -> Engine:
    return Engine(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Engine:
    """A store in which the experiment has run; read only."""
    engine = Engine(tmp_path_factory.mktemp("finished"))
    engine.run()
    return engine


def output_of(engine: Engine, name: str) -> str:
    record = json.loads(engine.call("show", name, "--json").stdout)["record"]
    return f"{engine.store}/{record['output_path']}"


def test_run_prints_each_target_with_its_output_also_when_nothing_had_to_run(engine):
    first, second = engine.run(), engine.run()
    assert first.stdout == second.stdout == f"total\t{output_of(engine, 'total')}\n"
    assert "4 REUSE; nothing to run" in second.stderr


def test_run_prints_the_page_of_an_output_that_has_one_and_keeps_what_steps_print_off_stdout(engine, tmp_path):
    engine.experiment = tmp_path / "pages.py"
    engine.experiment.write_text(
        "from dataclasses import dataclass\nfrom pathlib import Path\nfrom marin_exec import Step\n"
        "@dataclass(frozen=True)\nclass Config:\n    pages: tuple[str, ...]\n"
        "def write(config, out):\n"
        "    print('hello from the step')\n"
        "    for page in config.pages:\n        Path(out.file(page)).write_text('x')\n"
        "def pipeline():\n"
        "    return [Step(f'report{n}', write, Config(pages)) for n, pages in enumerate(\n"
        "        [('index.html', 'index.json'), ('a.html', 'b.html'), ('in/deep.html',)])]\n"
    )
    done = engine.run()
    ends = [line.split("\t")[1].rpartition("/")[2] for line in done.stdout.splitlines()]
    assert ends[0] == "index.html" and all(end.startswith("a1-") for end in ends[1:]), done.stdout
    assert "hello from the step" in done.stderr


@pytest.mark.parametrize("verb", READING)
def test_json_of_a_reading_verb_is_one_object_and_nothing_else_and_nothing_is_written(finished, verb):
    before = finished.tree()
    answer = finished.call(verb, *READING[verb], "--json")
    assert answer.returncode == 0 and answer.stderr == ""
    assert isinstance(json.loads(answer.stdout), dict)
    assert finished.tree() == before


@pytest.mark.parametrize(
    ("verb", "arguments", "code", "said"),
    [
        ("show", ("power/square",), 1, "did you mean power/squares"),
        ("show", ("nothing-of-the-kind",), 1, "no digest; there are "),
        ("logs", ("nothing-of-the-kind",), 1, "6 digits or more; there are "),
        ("why", ("power/square",), 2, "power/squares"),
        ("plan", ("--only", "x"), 2, "no step is named 'x'"),
        ("plan", ("--count", "many"), 2, "count"),
        ("plan", ("--no-such-parameter", "1"), 2, "no-such-parameter"),
        ("run", ("--max-runs", "0", "--count", "9"), 5, "--max-runs is 0; nothing was started"),
        ("plan", ("--check", "--count", "9"), 3, ""),
        ("lineage", ("/somewhere/else",), 1, "no folder above it is a store"),
    ],
)
def test_exit_code_and_message_are_as_documented(finished, verb, arguments, code, said):
    answer = finished.call(verb, *arguments)
    assert answer.returncode == code, answer.stderr
    assert said in answer.stderr and "Traceback" not in answer.stderr
    if code not in (3, 5):
        assert answer.stdout == ""


def test_heartbeat_that_is_no_number_is_a_usage_error(engine):
    engine.environment["MARIN_HEARTBEAT_SECONDS"] = "soon"
    refused = engine.run()
    assert refused.returncode == 2 and "MARIN_HEARTBEAT_SECONDS is 'soon'" in refused.stderr


def test_working_directory_that_was_deleted_is_said_not_a_traceback(engine, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"cd {gone} && rmdir {gone} && exec {PROGRAM} ls --prefix store"
    refused = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert refused.returncode == 2 and "the working directory was deleted" in refused.stderr


def test_experiment_beside_modules_named_like_the_standard_librarys_runs(engine, tmp_path):
    folder = tmp_path / "steps of \u00e9mile"
    folder.mkdir()
    for name in ("random", "difflib", "queue", "secrets", "signal"):
        (folder / f"{name}.py").write_text("raise RuntimeError('this is not the standard library')\n")
    engine.experiment = folder / "an experiment.v2.py"
    shutil.copy(EXPERIMENTS / "chain.py", engine.experiment)
    done = engine.run()
    assert done.returncode == 0, done.stderr
    itself = subprocess.run(
        [sys.executable, str(engine.experiment), "plan", "--json"],
        env=engine.env(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert itself.returncode == 0, itself.stderr
    assert {each["action"] for each in json.loads(itself.stdout)["steps"]} == {"REUSE"}


def test_user_without_a_passwd_entry_outside_git_is_recorded_by_number(monkeypatch, tmp_path):
    """As in a container that runs under any number; and without git on the machine."""
    for name in ("USER", "LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    provenance = new_run("x.py", tmp_path).provenance
    assert provenance["user"] == str(os.getuid()) and provenance["git"]["commit"] is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git is not installed" in new_run("x.py", tmp_path).provenance["git"]["why"]


def test_runs_started_in_one_second_are_listed_in_their_order(tmp_path):
    started = [new_run("x.py", tmp_path).run_id for _ in range(20)]
    by_fraction = [run_id[: -len("9da6dc")] for run_id in started]
    assert by_fraction == sorted(by_fraction) and len(set(started)) == len(started)


def test_commit_and_the_digest_of_what_differs_from_it_are_recorded_from_anywhere_in_a_checkout(tmp_path, monkeypatch):
    folder = tmp_path / "checkout" / "experiments"
    folder.mkdir(parents=True)
    file = folder / "x.py"
    file.write_text("a = 1\n")

    def git(*arguments: str) -> str:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        return subprocess.run(
            ["git", *who, "-C", str(folder), *arguments], check=True, capture_output=True, text=True
        ).stdout

    git("init", "-q", str(folder.parent))
    git("add", ".")
    git("commit", "-q", "-m", "x")
    monkeypatch.chdir("/")  # the working directory has nothing to do with it

    def state() -> dict[str, object]:
        return new_run("x.py", folder).provenance["git"]

    assert state() == {"commit": git("rev-parse", "HEAD").strip(), "dirty": False}
    digests = set()
    for text in ("a = 2\n", "a = 3\n"):
        file.write_text(text)
        assert state()["dirty"] is True
        digests.add(state()["diff_digest"])
    assert len(digests) == 2 and digests == digests - {None}
    file.write_text("a = 1\n")
    (folder / "new.py").write_text("")
    assert state()["dirty"] is True and state()["untracked"] == ["new.py"]


def test_store_that_can_only_be_read_serves_what_is_done(finished, monkeypatch, tmp_path):
    """As a shared store of another project: its steps are reused, though the experiment cannot be registered there."""
    from click.testing import CliRunner

    from marin_exec.cli import cli
    from marin_exec.store.local import LocalFiles

    def refuse(*args: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(LocalFiles, "create", refuse)
    shutil.rmtree(finished.store / ".marin/roots")
    answer = CliRunner().invoke(cli, ["run", str(finished.experiment), "--prefix", str(finished.store)])
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.startswith("total\t") and "is not registered" in answer.stderr


class Terminal:
    """A command on a pseudo-terminal, as a person runs it."""

    def __init__(self, command: list[str], environment: dict[str, str]):
        self.process, self.text = None, ""
        pid, self._descriptor = pty.fork()
        if pid == 0:
            os.execve(command[0], command, environment)
        self.pid = pid

    def read_until(self, wanted: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while wanted not in self.text:
            assert time.monotonic() < deadline, f"{wanted!r} did not appear in: {self.text}"
            if not self._read():
                raise AssertionError(f"{wanted!r} did not appear in: {self.text}")

    def _read(self) -> bool:
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:  # how a pseudo-terminal says that the other side is gone
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def send(self, keys: bytes) -> None:
        os.write(self._descriptor, keys)

    def wait(self) -> int:
        while self._read():
            continue
        os.close(self._descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


def test_terminal_control_c_while_planning_or_running_exits_130_and_restores_the_cursor(engine, tmp_path):
    engine.experiment = tmp_path / "slow.py"
    engine.experiment.write_text(
        "import time\nfrom marin_exec import Step\n"
        "def work(config, out):\n    out.progress('three quarters')\n    time.sleep(300)\n"
        "def pipeline():\n    return [Step('slow', work)]\n"
    )
    environment = {**engine.env(), "TERM": "xterm-256color"}
    terminal = Terminal(engine.command("run"), environment)
    terminal.read_until("three quarters", 90)  # the live table shows what the step says of itself
    terminal.send(b"\x03")
    assert terminal.wait() == 130, terminal.text
    assert terminal.text.count(HIDE_CURSOR) == terminal.text.count(SHOW_CURSOR) > 0
    assert terminal.text.rindex(SHOW_CURSOR) > terminal.text.rindex(HIDE_CURSOR)
    assert "interrupted in" in terminal.text and "Traceback" not in terminal.text
    states = json.loads(engine.call("status", "--json").stdout)["steps"]
    assert [(row["name"], row["state"]) for row in states] == [("slow", "stopped")]
    local = Terminal(engine.command("run", "--backend", "local"), environment)
    local.read_until("run     slow")
    local.send(b"\x03")
    assert local.wait() == 130 and HIDE_CURSOR not in local.text, local.text
    planning = tmp_path / "planning.py"
    planning.write_text("import time\nprint('importing', flush=True)\ntime.sleep(300)\n")
    engine.experiment = planning
    terminal = Terminal(engine.command("plan"), environment)
    terminal.read_until("importing")
    terminal.send(b"\x03")
    assert terminal.wait() == 130 and "Traceback" not in terminal.text, terminal.text


def test_terminal_debugger_in_a_step_of_the_local_backend_can_be_talked_to(engine, tmp_path):
    engine.experiment = tmp_path / "debugged.py"
    engine.experiment.write_text(
        "from marin_exec import Step\n"
        "def work(config, out):\n    answer = 41\n    breakpoint()\n    return answer\n"
        "def pipeline():\n    return [Step('debugged', work)]\n"
    )
    terminal = Terminal(engine.command("run", "--backend", "local"), {**engine.env(), "TERM": "xterm-256color"})
    terminal.read_until("(Pdb) ")
    terminal.send(b"!answer += 1\n")
    terminal.read_until("(Pdb) ")
    terminal.send(b"continue\n")
    assert terminal.wait() == 0, terminal.text
    assert json.loads(engine.call("show", "debugged", "--json").stdout)["record"]["result"] == 42


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_terminal_errors_are_red_unless_no_color_is_set(engine, variables, coloured):
    environment = {**engine.env(), "TERM": "xterm-256color", **variables}
    terminal = Terminal(engine.command("plan", "--only", "x"), environment)
    assert terminal.wait() == 2
    assert ("\x1b[31m" in terminal.text) == coloured


def test_signal_hangup_of_a_closed_terminal_gives_the_lease_back(engine, tmp_path):
    engine.experiment = tmp_path / "slow.py"
    engine.experiment.write_text(
        "import time\nfrom marin_exec import Step\n"
        "def work(config, out):\n    open(out.file('started'), 'w').close()\n    time.sleep(300)\n"
        "def pipeline():\n    return [Step('slow', work)]\n"
    )
    driver = engine.start("--backend", "local")
    deadline = time.monotonic() + 60
    while not list(engine.store.glob("slow-*/a1-*/started")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    driver.send_signal(signal.SIGHUP)
    _, stderr = driver.communicate(timeout=60)
    assert driver.returncode == 130, stderr
    (head,) = engine.store.glob(".marin/steps/*/head.json.*")
    assert json.loads(head.read_text())["state"] == "free"


def test_gc_roots_and_invalidate_as_a_user_calls_them(engine):
    engine.run()
    engine.run("--count", "3")
    assert json.loads(engine.call("gc", "--json", "--grace", "0").stdout)["by_reason"].keys() == {
        "pieces of a finished chain"
    }
    refused = engine.call("gc", "--grace", "a while")
    assert refused.returncode == 2 and "e.g. 12h or 7d" in refused.stderr
    newest, oldest = json.loads(engine.call("roots", "--json").stdout)["roots"]
    assert newest["registered"] > oldest["registered"] and newest["targets"] == ["total"] and newest["steps"] == 4
    assert engine.call("roots", "--drop", "ffffff").returncode == 2
    assert engine.call("roots", "--drop", oldest["id"][:8]).returncode == 0
    before = engine.tree()
    said = json.loads(engine.call("gc", "--json", "--grace", "0").stdout)
    assert engine.tree() == before, "a dry run writes nothing"
    done = json.loads(engine.call("gc", "--json", "--grace", "0", "--delete").stdout)
    assert (done["removed"]["bytes"], done["removed"]["files"]) == (said["bytes"], said["files"])
    assert "4 REUSE" in engine.call("plan", "--count", "3").stdout
    assert engine.call("invalidate", "total").returncode == 2
    assert engine.call("invalidate", "total", "--why", " ").returncode == 2
    taken_back = engine.call("invalidate", "total", "--why", "doubt")
    assert taken_back.returncode == 0 and "doubt" in taken_back.stdout
    why = engine.call("why", "total", "--count", "3")
    assert "invalidated by" in why.stdout and "doubt" in why.stdout


def test_roots_names_targets_that_were_never_run_and_those_of_older_roots(engine):
    engine.run("--fail", "3")
    (root,) = json.loads(engine.call("roots", "--json").stdout)["roots"]
    (path,) = engine.store.glob(".marin/roots/*.json")
    kept = json.loads(path.read_text())
    assert root["targets"] == kept["names"] and not any(name in kept["digests"] for name in kept["names"])
    del kept["names"]
    path.write_text(json.dumps(kept))
    (older,) = json.loads(engine.call("roots", "--json").stdout)["roots"]
    assert len(older["targets"]) == len(root["targets"])
