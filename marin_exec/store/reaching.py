"""What fsspec's filesystems raise, as errors of the store: each has classes of its own, some of which are no OSError."""

import contextlib
from collections.abc import Generator
from typing import Any

from marin_exec.errors import StoreError
from marin_exec.store import clients
from marin_exec.store.prefix import split_url

_MAY_PASS = frozenset({408, 429, *range(500, 505)})
"""HTTP's codes for what may go well another time."""


@contextlib.contextmanager
def reached(full: str) -> Generator[None]:
    """Turns what a remote filesystem raises into StoreError, whose cause is an OSError if it may pass.

    FileNotFoundError passes as it is, and so does everything on a local disk: callers know what that means.

    Args:
        full: path or URL of what is read, written or listed.
    """
    scheme, _ = split_url(full)
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:
        if scheme in ("file", "memory") or not isinstance(error, _errors_of(scheme)):
            raise
        said = " ".join(str(error).split())[:300] or type(error).__name__
        may_pass = isinstance(error, OSError) or getattr(error, "code", 503) in _MAY_PASS
        cause = OSError(said) if may_pass and not isinstance(error, OSError) else error
        raise StoreError(f"{full}: not reached, after several tries: {said}") from cause


def _errors_of(scheme: str) -> tuple[type[Exception], ...]:
    """Returns what the filesystem of a scheme raises when its server is not reached, or refuses."""
    if scheme == "gs":
        from aiohttp import ClientError
        from gcsfs.retry import HttpError
        from google.auth.exceptions import GoogleAuthError

        return (OSError, HttpError, ClientError, GoogleAuthError)
    if scheme == "s3":
        from aiohttp import ClientError
        from botocore.exceptions import BotoCoreError

        return (OSError, ClientError, BotoCoreError)
    return (OSError,)


def time_limits(scheme: str) -> dict[str, Any]:
    """Returns the options by which a scheme's filesystem gives up a request that is not answered, and only such a one."""
    if scheme == "gs":
        from aiohttp import ClientTimeout

        quiet = ClientTimeout(total=None, sock_connect=clients.CONNECT_SECONDS, sock_read=clients.QUIET_SECONDS)
        return {"requests_timeout": quiet}
    if scheme == "s3":
        limits = {"connect_timeout": clients.CONNECT_SECONDS, "read_timeout": clients.QUIET_SECONDS}
        # s3fs tries broken connections again itself, five times, and answers like 503 and 429 not at all; the client does both.
        return {"config_kwargs": {**limits, "retries": {"mode": "legacy", "total_max_attempts": 3}}}
    return {}
