"""The command line: `marin-exec VERB ...`.

stdout holds the result, stderr the narration; every reading verb has `--json`. The result of `run` is one line a target:
its name, a tab, and the path of its output, or of the page in it. Nothing heavy is imported here: each
verb imports what it needs when it is called.

Exit codes: 0 fine; 1 a step failed, or the store did; 2 usage or config error; 3 `plan --check` found work to do;
4 content differs from what the experiment states; 5 `run --max-runs` would be exceeded; 130 interrupted.
"""

import importlib
import os
import signal
import sys
from typing import Any

import click

from marin_exec.ending import EXIT_INTERRUPTED, EndingSignals
from marin_exec.errors import ConfigError, IdentityMismatch, MarinExecError
from marin_exec.secrets import redact

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_WORK_TO_DO = 3
EXIT_MISMATCH = 4
EXIT_MAX_RUNS = 5

EXPERIMENT_VERBS = ("plan", "run", "status", "why", "bless")

VERBS = {
    "experiment_verbs": ("plan", "run", "why"),
    "log_verbs": ("status", "logs"),
    "store_verbs": ("show", "lineage", "ls"),
    "diff_verb": ("diff",),
    "bless_verb": ("bless",),
    "adopt_verb": ("adopt",),
    "verify_verb": ("verify",),
    "house_verbs": ("invalidate", "gc", "roots"),
}
"""The modules of this package, and the verbs that each has."""

DEFAULT_PREFIX = "store"


class _Group(click.Group):
    """Turns this package's errors into one message on stderr and the documented exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **kwargs)
        except MarinExecError as error:
            say_error(str(error))
            sys.exit(_exit_code(error))
        except (
            OSError
        ) as error:  # a full disk, a file that may not be read: the path and the reason are all there is to say
            where = f" ({error.filename})" if error.filename else ""
            say_error(
                f"{type(error).__name__}: {error.strerror or error}{where}. See that there is room and that you may read and "
                "write there, and try again"
            )
            sys.exit(EXIT_FAILED)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            os.getcwd()
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            sys.exit(EXIT_INTERRUPTED)
        except FileNotFoundError as error:
            if _has_working_directory():
                raise
            raise ConfigError("the working directory was deleted; change to one that exists, and try again") from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [verb for verbs in VERBS.values() for verb in verbs]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for module, verbs in VERBS.items():
            if cmd_name in verbs:
                return getattr(importlib.import_module(f"marin_exec.cli.{module}"), cmd_name)
        return None


def _has_working_directory() -> bool:
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def say_error(message: str) -> None:
    """Prints an error, without secrets, to stderr; red on a terminal, unless NO_COLOR is set."""
    click.secho(redact(f"error: {message}"), fg="red", err=True, color=False if os.environ.get("NO_COLOR") else None)


def _exit_code(error: MarinExecError) -> int:
    if isinstance(error, IdentityMismatch):
        return EXIT_MISMATCH
    return EXIT_USAGE if isinstance(error, ConfigError) else EXIT_FAILED


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="marin-exec")
def cli() -> None:
    """Plan, run and inspect declarative experiments: content-hashed steps on Ray, with their lineage."""


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the `marin-exec` script. Once interrupted, nothing that hangs in another thread is waited for.

    Args:
        arguments: of the command line; None takes this process's.
    """
    with EndingSignals([signal.SIGINT], _interrupt):
        try:
            cli(arguments, prog_name="marin-exec")
        except SystemExit as end:
            if end.code != EXIT_INTERRUPTED:
                raise
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(EXIT_INTERRUPTED)


def _interrupt() -> None:
    raise KeyboardInterrupt
