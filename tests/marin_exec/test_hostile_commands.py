"""What nobody can mean, or what the machine refuses: each command says what was wrong, and no traceback reaches a person."""

import resource
import subprocess

import pytest
from click.testing import CliRunner
from engine import EXPERIMENTS, Engine

from marin_exec.cli import cli
from marin_exec.experiment import load_experiment

CHAIN = str(EXPERIMENTS / "chain.py")
ODD = ["", "*", "[abc", "/", "..", "a\nb\x01", "ü x", "x" * 5000, "nosuch://x"]
COMMANDS = [
    ["plan", CHAIN, "--until", "{}"],
    ["plan", CHAIN, "--only", "{}"],
    ["plan", CHAIN, "--from", "{}"],
    ["plan", CHAIN, "--force", "{}"],
    ["plan", "{}"],
    ["plan", CHAIN, "--prefix", "{}"],
    ["why", CHAIN, "{}"],
    ["bless", CHAIN, "{}", "--why", "x"],
    ["bless", CHAIN, "total", "--why", "x", "--as", "{}"],
    ["invalidate", "{}", "--why", "x"],
    ["show", "{}"],
    ["lineage", "{}"],
    ["logs", "{}"],
    ["diff", "{}", "{}"],
    ["verify", "{}"],
    ["verify", CHAIN, "--rerun", "{}", "--backend", "local"],
    ["roots", "--drop", "{}"],
    ["gc", "--grace", "{}"],
    ["adopt", "/nowhere/{}"],
    ["adopt", "{}://nowhere"],
]


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_odd_argument_ends_with_a_message_and_never_with_a_traceback(odd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MARIN_PREFIX", str(tmp_path / "store"))
    for command in COMMANDS:
        done = CliRunner().invoke(cli, [part.replace("{}", odd) for part in command])
        assert isinstance(done.exception, SystemExit | None), (command, done.exception)
        assert done.exit_code in (0, 1, 2) and (done.exit_code == 0 or len(done.stderr) > 10), (command, done.stderr)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:9/x", "Cannot connect"),
        ("nosuch://x", "nosuch"),
        ("ftp://x/y", "adopt ftp://x/y"),
        ("", "no path"),
    ],
)
def test_data_that_cannot_be_reached_is_not_adopted_and_the_reason_is_said(url, said):
    done = CliRunner().invoke(cli, ["adopt", url])
    assert done.exit_code in (1, 2) and said in done.stderr and isinstance(done.exception, SystemExit), done.stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["why", CHAIN, "*"], "name one step, not a pattern"),
        (["verify", CHAIN, "--rerun", "*", "--backend", "local"], "name one step, not a pattern"),
        (["run", CHAIN, "--backend", "local", "--address", "x"], "--backend local and --address x"),
    ],
)
def test_what_contradicts_itself_is_refused_before_anything_is_written(command, said, tmp_path, monkeypatch):
    monkeypatch.setenv("MARIN_PREFIX", str(tmp_path / "store"))
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 2 and said in done.stderr and not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    "command",
    [
        ("invalidate", "total", "--why", "x"),
        ("bless", CHAIN, "total", "--count", "3", "--why", "x"),
        ("run", CHAIN, "--backend", "local", "--count", "5"),
    ],
    ids=lambda command: command[0],
)
def test_full_disk_ends_a_command_with_the_path_and_the_reason(command, tmp_path):
    engine = Engine(tmp_path)
    assert engine.run().returncode == 0
    before = engine.tree().keys()
    done = subprocess.run(
        [engine.command("ls")[0], *command],
        env=engine.env(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert "File too large" in done.stderr and str(engine.store) in done.stderr
    assert {path for path in engine.tree().keys() - before if not path.startswith(".marin")} == set()
    assert engine.run("--count", "5").returncode == 0


PARAMETERS = """
from dataclasses import dataclass, field
from marin_exec import Step

@dataclass(frozen=True)
class Inner:
    text: str = "inner"

@dataclass(frozen=True)
class Parameters:
    text: str = "a"
    count: int = 1
    inner: Inner = field(default_factory=Inner)

def work(config, out):
    return config.text

def pipeline(parameters: Parameters):
    return [Step("work", work, parameters)]
"""


@pytest.mark.parametrize(
    "text",
    ["0010", "yes", "null", "1e3", "1.50", "0x1F", " x ", "[1, 2]", "{a: 1}", '"q"', "a: b # c", "", "ü\n", "😀"],
)
def test_text_of_a_parameter_is_taken_letter_by_letter(text, tmp_path):
    file = tmp_path / "parameters.py"
    file.write_text(PARAMETERS)
    given = ["--text", text, "--count", "3", f"--inner.text={text}"]
    config = load_experiment(str(file), given).steps[0].config
    assert (config.text, config.count, config.inner.text) == (text, 3, text)
