"""Conditional files on Google Cloud Storage: every write is conditional on the object's generation.

Generation 0 stands for "there is none"; no generation is ever given twice, not even after a delete. All calls may be
repeated (reads change nothing, a write that took effect makes its repetition conflict), so all are, for as long as
`clients.RETRY_SECONDS`. `STORAGE_EMULATOR_HOST` names another server.
"""

import contextlib
from collections.abc import Generator
from typing import Any

from marin_exec.errors import StoreError
from marin_exec.store import clients, patience
from marin_exec.store.conditional import AlreadyExists, Conflict, LogFile, Versioned
from marin_exec.store.object_log import ObjectLog

ENVIRONMENT = ("STORAGE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS", "API_ENDPOINT_OVERRIDE")
_TIMEOUT = (clients.CONNECT_SECONDS, clients.READ_SECONDS)


class GcsFiles:
    """`ConditionalFiles` in a bucket.

    Args:
        bucket: its name.
        base: what to put before a path; "" or ending in "/".
    """

    def __init__(self, bucket: str, base: str):
        self._bucket = bucket
        self._base = base

    def read(self, path: str) -> Versioned[bytes] | None:
        from google.api_core.exceptions import NotFound

        blob = self._blob(path)
        with self._reached():
            try:
                data = blob.download_as_bytes(timeout=_TIMEOUT, retry=_retry())
            except NotFound:
                return None
        # From the headers of the same answer; tries that go on in the middle ask for that generation.
        return Versioned(data, blob.generation)

    def read_end(self, path: str, num_bytes: int) -> bytes:
        found = self.read(path)  # logs here are small
        return found.data[-num_bytes:] if found else b""

    def create(self, path: str, data: bytes) -> int:
        written = self._write(path, data, 0)
        if written is None:
            raise AlreadyExists(path)
        return written

    def replace(self, path: str, data: bytes, version: int | str) -> int:
        written = self._write(path, data, version)
        if written is None:
            raise Conflict(path)
        return written

    def _write(self, path: str, data: bytes, generation: int | str) -> int | None:
        """Returns the new generation, or None if the object is not of the one given."""
        from google.api_core.exceptions import PreconditionFailed

        blob = self._blob(path)
        with self._reached():
            try:
                blob.upload_from_string(
                    data,
                    content_type="application/octet-stream",
                    if_generation_match=generation,
                    timeout=_TIMEOUT,
                    retry=_retry(),
                )
            except PreconditionFailed:
                return None
        return blob.generation

    def names(self, directory: str) -> list[str]:
        start = f"{self._base}{directory}/"
        fields = "items(name),prefixes,nextPageToken"
        with self._reached():
            pages = self._list(start, delimiter="/", fields=fields)
            found = {blob.name[len(start) :] for blob in pages}  # `prefixes` is filled by going through the pages
            found.update(each[len(start) :].rstrip("/") for each in pages.prefixes)
        return sorted(found - {""})

    def open_log(self, path: str) -> LogFile:
        return ObjectLog(self, path)

    def delete_tree(self, directory: str) -> None:
        from concurrent.futures import ThreadPoolExecutor

        with self._reached():
            blobs = list(self._list(f"{self._base}{directory}/", fields="items(name),nextPageToken"))
            with ThreadPoolExecutor(16) as threads:
                list(threads.map(_delete, blobs))

    def _blob(self, path: str) -> Any:
        return _client().bucket(self._bucket).blob(self._base + path)

    def _list(self, prefix: str, **options: Any) -> Any:
        return _client().list_blobs(self._bucket, prefix=prefix, timeout=_TIMEOUT, retry=_retry(), **options)

    @contextlib.contextmanager
    def _reached(self) -> Generator[None]:
        """Turns the client's errors into StoreError where a person has to do something, else into OSError."""
        from google.api_core import exceptions as api
        from google.auth import exceptions as auth

        where = f"gs://{self._bucket}"
        try:
            yield
        except (auth.TransportError, api.RetryError) as error:
            raise OSError(f"{where}: not reached: {error.__cause__ or error}") from error
        except (auth.GoogleAuthError, api.Unauthorized, api.Forbidden) as error:
            raise StoreError(
                f"{where}: access refused ({_first_line(error)}). Log in with `gcloud auth application-default login`, or name a "
                "service account's key file in GOOGLE_APPLICATION_CREDENTIALS; it needs to read, write and list objects there"
            ) from error
        except api.NotFound as error:
            raise StoreError(
                f"{where}: there is no such bucket; create it (`gcloud storage buckets create {where}`), or correct the prefix"
            ) from error
        except api.GoogleAPICallError as error:
            raise OSError(f"{where}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0][:300]


def _delete(blob: Any) -> None:
    from google.api_core.exceptions import NotFound

    with contextlib.suppress(NotFound):  # somebody else was faster
        blob.delete(timeout=_TIMEOUT, retry=_retry())


def _client() -> Any:
    return clients.shared("gcs", _make_client, ENVIRONMENT)


def _make_client() -> Any:
    from google.cloud.storage import Client
    from requests.adapters import HTTPAdapter

    # Objects belong to no project; naming one spares the look-up of a default.
    client = Client(project="none")
    for scheme in ("https://", "http://"):
        client._http.mount(scheme, HTTPAdapter(pool_maxsize=clients.POOL_SIZE))
    return client


def _retry() -> Any:
    from google.cloud.storage.retry import DEFAULT_RETRY

    pauses = {"initial": patience.FIRST_PAUSE, "maximum": patience.LONGEST_PAUSE, "multiplier": 2.0}
    return DEFAULT_RETRY.with_timeout(clients.RETRY_SECONDS).with_delay(**pauses)
