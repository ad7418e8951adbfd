"""Data that exists already, adopted where it lies: its identity is the digest of its manifest, a literal in the experiment.

When the step first runs, everything is read and compared with that digest; afterwards sizes are checked in each plan, like
any output's. Nothing is copied, moved or ever removed.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from marin_exec.errors import ConfigError, MarinExecError, StoreError
from marin_exec.fields import runtime
from marin_exec.kinds import kind
from marin_exec.records import FileEntry
from marin_exec.step import Step


@dataclass(frozen=True, kw_only=True)
class AdoptedConfig:
    """What to adopt."""

    digest: str
    """Of the manifest, as `marin-exec adopt PATH` prints it."""
    path: Annotated[str, runtime]
    """Where the data is: an absolute path or a URL of a directory. Not identity, so it may be moved."""


@dataclass(frozen=True)
class AdoptedFiles:
    """What the engine makes the output of, in place of files in the attempt's directory."""

    path: str
    files: tuple[FileEntry, ...]


def adopt(path: str, digest: str, *, name: str) -> Step:
    """Returns a step whose output is existing data, where it lies.

    Args:
        path: an absolute path or a URL of a directory.
        digest: of the manifest, 64 hex digits; `marin-exec adopt PATH` prints it.
        name: of the step.

    Raises:
        ConfigError: the path is relative, or the digest is not one.
    """
    if not path.startswith("/") and "://" not in path:
        raise ConfigError(f"adopt {path!r}: a relative path; an absolute path or a URL of a directory is needed")
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise ConfigError(
            f"adopt {path!r}: digest {digest!r}; 64 hexadecimal digits are needed, as `marin-exec adopt {path}` prints them"
        )
    return Step(name, adopted, AdoptedConfig(digest=digest, path=path))


@kind("marin/adopted", version=1)
def adopted(config: AdoptedConfig, out: Any) -> AdoptedFiles:
    """Reads what is there; the engine compares it with the digest."""
    out.progress(f"reading {config.path}")
    return files_at(config.path)


def files_at(path: str) -> AdoptedFiles:
    """Returns the files below a directory with sizes and checksums; every byte is read.

    Raises:
        ConfigError: there is no such directory, or nothing in it.
        StoreError: it cannot be read.
    """
    from marin_exec.store.backends import filesystem
    from marin_exec.store.manifest import scan
    from marin_exec.store.prefix import split_url

    plain = path.removeprefix("file://").rstrip("/") or "/"
    try:
        fs = filesystem(split_url(plain)[0])
        if not fs.isdir(plain):
            what = "is a file; adopt the directory that it is in" if fs.exists(plain) else "does not exist"
            raise ConfigError(f"adopt {path}: {what}, or is not to be read. A directory with files is needed")
        files = scan(fs, plain)
    except MarinExecError:
        raise
    except Exception as error:  # each filesystem has errors of its own: no such scheme, no credentials, no answer
        raise StoreError(
            f"adopt {path}: cannot be read: {type(error).__name__}: {error}. See that the path is right and that you may read it"
        ) from error
    if not files:
        raise ConfigError(f"adopt {path}: holds no file; a directory with files is needed")
    return AdoptedFiles(plain, files)
