"""What fsspec's filesystems raise, as errors of the store: each has classes of its own, some of which are no OSError."""

import contextlib
from collections.abc import Generator
from typing import Any

from marin_exec.errors import StoreError
from marin_exec.store import clients
from marin_exec.store.patience import MAY_PASS, ONE_TRY, be_patient_with_s3
from marin_exec.store.prefix import split_url


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
        may_pass = isinstance(error, OSError) or getattr(error, "code", 503) in MAY_PASS
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


def filesystem(scheme: str, **options: Any) -> Any:
    """Makes fsspec's filesystem of a scheme; those of gs and s3 try a request for as long as `patience` says.

    Args:
        options: for any filesystem of fsspec.
    """
    connect, quiet = clients.CONNECT_SECONDS, clients.QUIET_SECONDS
    if scheme == "gs":
        from aiohttp import ClientTimeout

        from marin_exec.store.gcs_data import PatientGcs

        return PatientGcs(requests_timeout=ClientTimeout(total=None, sock_connect=connect, sock_read=quiet), **options)
    if scheme == "s3":
        from aiobotocore.session import AioSession
        from s3fs import S3FileSystem

        session = AioSession()
        be_patient_with_s3(session.get_component("event_emitter"))
        config = {"connect_timeout": connect, "read_timeout": quiet, "retries": ONE_TRY}
        return S3FileSystem(session=session, config_kwargs=config, **options)
    import fsspec  # 0.15 s, which a plan of finished steps does not need

    return fsspec.filesystem(scheme, **options)
