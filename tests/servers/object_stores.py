"""Servers that stand for Google Cloud Storage and S3 on loopback, for as long as a `with` lasts."""

import contextlib
import itertools
import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-servers" / "bin" / "python"
BUCKET = "marin-tests"
MISSING = f"{PYTHON.parents[1].name} is not there: run `make servers`"
CREDENTIALS = {
    # What every client asks for and no server here checks. Nothing is to be looked for on the network.
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "GOOGLE_AUTH_TOKEN_FOR_TESTING": "x",  # tensorstore's
    "GOOGLE_CLOUD_PROJECT": "test",
    "NO_GCE_CHECK": "true",
}


@dataclass(frozen=True)
class ObjectStoreServer:
    """A server that answers."""

    scheme: Literal["gs", "s3"]
    url: str
    """Of the server, e.g. http://127.0.0.1:40000."""
    _numbers: Iterator[int] = field(default_factory=itertools.count, repr=False)

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables by which every client of this scheme finds the server."""
        if self.scheme == "gs":
            return {**CREDENTIALS, "STORAGE_EMULATOR_HOST": self.url, "TENSORSTORE_GCS_HTTP_URL": self.url}
        return {**CREDENTIALS, "AWS_ENDPOINT_URL": self.url}

    def new_prefix(self) -> str:
        """Returns a store URL below which there is nothing."""
        return f"{self.scheme}://{BUCKET}/{next(self._numbers)}-{uuid.uuid4().hex[:8]}"


@contextlib.contextmanager
def gcs_server() -> Iterator[ObjectStoreServer]:
    """Runs a Google Cloud Storage server with one bucket."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.storage import Client

    with _running("gcs") as url:
        client = Client("test", AnonymousCredentials(), client_options={"api_endpoint": url})
        client.create_bucket(BUCKET)
        client.close()
        yield ObjectStoreServer("gs", url)


@contextlib.contextmanager
def s3_server() -> Iterator[ObjectStoreServer]:
    """Runs an S3 server with one bucket."""
    import botocore.session

    with _running("s3") as url:
        client = botocore.session.Session().create_client(
            "s3",
            region_name="us-east-1",
            endpoint_url=url,
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )
        client.create_bucket(Bucket=BUCKET)
        client.close()
        yield ObjectStoreServer("s3", url)


@contextlib.contextmanager
def _running(name: str) -> Iterator[str]:
    """Runs one server and yields its URL."""
    if not PYTHON.exists():
        raise FileNotFoundError(MISSING)
    process = subprocess.Popen(
        [PYTHON, Path(__file__).with_name("run_server.py"), name],
        # The machine's own settings (a certificate bundle, a profile) are not the server's.
        env={key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "PYTHON", "STORAGE_"))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        if not url:
            raise RuntimeError(
                f"the {name} server did not start (exit status {process.wait(timeout=60)}); see its output"
            )
        yield url
    finally:
        process.stdin.close()  # it ends when nobody holds the other end
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
