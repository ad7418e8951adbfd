"""gcsfs's filesystem, with requests that are tried as `patience` says. Imports gcsfs."""

import asyncio
import functools
import inspect
import time
from collections.abc import Callable
from typing import Any

import aiohttp
import google.auth.exceptions
import requests
from gcsfs.checkers import ChecksumError
from gcsfs.core import GCSFileSystem
from gcsfs.retry import HttpError, is_retriable

from marin_exec.store.patience import GivenUp, pause_before

_FAILURES = (
    HttpError,
    requests.exceptions.RequestException,
    google.auth.exceptions.GoogleAuthError,
    ChecksumError,
    aiohttp.ClientError,
)
"""What gcsfs itself looks at."""


def _patient(retried: Callable[..., Any]) -> Callable[..., Any]:
    once = inspect.unwrap(retried)  # without gcsfs's own tries

    @functools.wraps(once)
    async def request(*args: Any, **kwargs: Any) -> Any:
        began, number = time.monotonic(), 0
        while True:
            number += 1
            try:
                return await once(*args, **kwargs)
            except _FAILURES as error:
                if not is_retriable(error):
                    raise
                failure = error
            try:
                pause = pause_before(number, began)
            except GivenUp as late:
                raise GivenUp(f"{late}: {failure or type(failure).__name__}") from failure
            await asyncio.sleep(pause)

    return request


class PatientGcs(GCSFileSystem):
    """Objects of Google Cloud Storage."""

    _request = _patient(GCSFileSystem._request)
    _get_file_request = _patient(GCSFileSystem._get_file_request)
