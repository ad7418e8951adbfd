"""Conditional files on S3 and servers like it: writes with `If-None-Match: *` and `If-Match`.

A version here is the object's ETag, which is made of the content: content that comes back brings its version back. So
what is written to one path must never repeat, and it does not: a head names its holder by a random token and counts its
renewals, and a log only grows. Conditional writes are part of S3 since November 2024. `AWS_ENDPOINT_URL` names another
server.
"""

import contextlib
import itertools
from collections.abc import Generator, Iterator
from typing import Any

from marin_exec.errors import StoreError
from marin_exec.store import clients
from marin_exec.store.conditional import AlreadyExists, Conflict, LogFile, Versioned
from marin_exec.store.object_log import ObjectLog
from marin_exec.store.patience import ONE_TRY, GivenUp, be_patient_with_s3

ENVIRONMENT = (
    *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
)
_TRIES = 3
"""Of what `patience` does not see: an answer that broke off, and a write that met another one."""
_NO_SUCH_KEY = frozenset({"NoSuchKey", "404"})
_CONDITION_FAILED = frozenset({"PreconditionFailed", "412"}) | _NO_SUCH_KEY
_REFUSED = frozenset(
    {
        *("AccessDenied", "AllAccessDisabled", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken"),
        *("SignatureDoesNotMatch", "TokenRefreshRequired", "401", "403"),
    }
)
_LOG_IN = (
    "Give credentials as for any AWS tool (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or a role); they need to "
    "read, write and list objects there"
)
_DELETED_AT_ONCE = 1000  # the most that DeleteObjects takes


class S3Files:
    """`ConditionalFiles` in a bucket.

    Args:
        bucket: its name.
        base: what to put before a path; "" or ending in "/".
    """

    def __init__(self, bucket: str, base: str):
        self._bucket = bucket
        self._base = base

    def read(self, path: str) -> Versioned[bytes] | None:
        from botocore.exceptions import ClientError, HTTPClientError

        with self._reached():
            for left in reversed(range(_TRIES)):
                try:
                    answer = _client().get_object(Bucket=self._bucket, Key=self._base + path)
                    return Versioned(answer["Body"].read(), answer["ETag"])
                except ClientError as error:
                    if _code(error) not in _NO_SUCH_KEY:
                        raise
                    return None
                except HTTPClientError:
                    if not left:  # the client repeats requests, but not an answer that broke off
                        raise
        raise AssertionError("the last try returned or raised")

    def read_end(self, path: str, num_bytes: int) -> bytes:
        found = self.read(path)  # logs here are small
        return found.data[-num_bytes:] if found else b""

    def create(self, path: str, data: bytes) -> str:
        written = self._write(path, data, IfNoneMatch="*")
        if written is None:
            raise AlreadyExists(path)
        return written

    def replace(self, path: str, data: bytes, version: int | str) -> str:
        written = self._write(path, data, IfMatch=str(version))
        if written is None:
            raise Conflict(path)
        return written

    def _write(self, path: str, data: bytes, **condition: str) -> str | None:
        """Returns the new ETag, or None if the condition did not hold."""
        from botocore.exceptions import ClientError

        with self._reached():
            for left in reversed(range(_TRIES)):
                try:
                    return _client().put_object(Bucket=self._bucket, Key=self._base + path, Body=data, **condition)[
                        "ETag"
                    ]
                except ClientError as error:
                    if _code(error) in _CONDITION_FAILED:
                        return None
                    if _code(error) != "ConditionalRequestConflict" or not left:  # that: another write is under way
                        raise
        raise AssertionError("the last try returned or raised")

    def names(self, directory: str) -> list[str]:
        start = f"{self._base}{directory}/"
        found = set()
        with self._reached():
            for page in self._pages(start, Delimiter="/"):
                found.update(each["Key"][len(start) :] for each in page.get("Contents", ()))
                found.update(each["Prefix"][len(start) :].rstrip("/") for each in page.get("CommonPrefixes", ()))
        return sorted(found - {""})

    def open_log(self, path: str) -> LogFile:
        return ObjectLog(self, path)

    def delete_tree(self, directory: str) -> None:
        with self._reached():
            pages = self._pages(f"{self._base}{directory}/")
            keys = [{"Key": each["Key"]} for page in pages for each in page.get("Contents", ())]
            for batch in itertools.batched(keys, _DELETED_AT_ONCE):
                answer = _client().delete_objects(Bucket=self._bucket, Delete={"Objects": batch, "Quiet": True})
                for error in answer.get("Errors", ()):
                    raise OSError(f"s3://{self._bucket}/{error['Key']}: not deleted: {error.get('Message')}")

    def _pages(self, prefix: str, **options: str) -> Iterator[Any]:
        return iter(_client().get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix, **options))

    @contextlib.contextmanager
    def _reached(self) -> Generator[None]:
        """Turns the client's errors into StoreError where a person has to do something, else into OSError."""
        from botocore import exceptions as aws

        where = f"s3://{self._bucket}"
        try:
            yield
        except aws.ClientError as error:
            code = _code(error)
            if code in _REFUSED:
                raise StoreError(f"{where}: access refused ({error}). {_LOG_IN}") from error
            if code == "NoSuchBucket":
                raise StoreError(
                    f"{where}: there is no such bucket; create it (`aws s3 mb {where}`), or correct the prefix"
                ) from error
            if code == "NotImplemented":
                raise StoreError(
                    f"{where}: the server does not know conditional writes ({error}); a store needs them. Take another server"
                ) from error
            raise OSError(f"{where}: {error}") from error
        except (GivenUp, aws.HTTPClientError, aws.ConnectionError) as error:
            raise OSError(f"{where}: not reached: {error}") from error
        except aws.BotoCoreError as error:  # no credentials, a profile that is not there, a login that ran out
            raise StoreError(f"{where}: {error}. {_LOG_IN}") from error


def _code(error: Any) -> str:
    return error.response.get("Error", {}).get("Code", "")


def _client() -> Any:
    return clients.shared("s3", _make_client, ENVIRONMENT)


def _make_client() -> Any:
    from botocore.config import Config
    from botocore.session import Session

    config = Config(
        connect_timeout=clients.CONNECT_SECONDS,
        read_timeout=clients.READ_SECONDS,
        retries=ONE_TRY,
        max_pool_connections=clients.POOL_SIZE,
    )
    client = Session().create_client("s3", config=config)
    be_patient_with_s3(client.meta.events)
    return client
