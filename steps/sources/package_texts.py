"""Texts of a package as a source: kind `sources/package`.

The identity holds the package's name, how its files are read, and the checksum that the extracted text is expected to have.
Debian replaces packages at point releases, so other text than expected is not an error: a progress line says so, the
result's `changed_from` holds the expected checksum, and what was found is what the next steps get.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import xxhash

from marin_exec import ConfigError, Out, ShardOut, StepFailed, kind
from steps.sources.decoding import Unusable
from steps.sources.formats.brown import Brown
from steps.sources.formats.dictd import Dictd
from steps.sources.formats.file import Format, SourceFile
from steps.sources.formats.fortunes import Fortunes
from steps.sources.formats.html import Html
from steps.sources.formats.mail import Mail
from steps.sources.formats.mallard import Mallard
from steps.sources.formats.man import Man
from steps.sources.formats.plain import JsonText, PlainText, PythonSource
from steps.sources.formats.pod import Pod
from steps.sources.formats.rst import Rst
from steps.sources.formats.wordnet import WordNet
from steps.sources.packages import Package, fetched
from steps.sources.raw import RawDocument, metadata_json, raw_name, write_raw

AnyFormat = (
    Brown | Dictd | Fortunes | Html | JsonText | Mail | Mallard | Man | PlainText | Pod | PythonSource | Rst | WordNet
)

_SHARD_BYTES = 8_000_000  # of files as they lie in the package; a larger file is a shard of its own


@dataclass(frozen=True, kw_only=True)
class PackageConfig:
    """What to read from a package."""

    package: Package
    format: AnyFormat
    """How its files are read."""
    include: tuple[str, ...]
    """Patterns of paths within the package, e.g. ("*/html/*.html",); "*" stands for any characters, "/" among them."""
    exclude: tuple[str, ...] = ()
    """Patterns of paths that are left out of these."""
    language: str = ""
    """Noted in every document's metadata; "" notes none."""
    expected: str = ""
    """`PackageResult.text_digest` as it was when the experiment was written; "" expects nothing."""

    def __post_init__(self) -> None:
        if isinstance(self.include, str) or not self.include:
            raise ConfigError(
                f'PackageConfig.include: {self.include!r}; a tuple of patterns is needed, e.g. ("*.html",)'
            )


@dataclass(frozen=True)
class PackageResult:
    """Counters of one package as a source."""

    version: str
    """What was found: of a Debian package this is not part of the identity."""
    files: int
    """That gave at least one text."""
    documents: int
    num_bytes: int
    """Of text, as UTF-8."""
    left_out: dict[str, int]
    """Files that gave no text by reason: undecodable, unparsed, damaged, too_large, incomplete, alias, no_text, no_genre..."""
    text_digest: str
    """Checksum of all (source_id, text), whatever their order: the sum of their xxh3-128 modulo 2 ** 128, in hex."""
    changed_from: str
    """The expected checksum if `text_digest` is another one, else ""."""


@kind("sources/package", version=1)
def package_texts(config: PackageConfig, out: Out) -> PackageResult:
    """Writes the texts of a package as `raw-NNNNN.parquet`, in order of path; links in the package are not followed.

    Raises:
        StepFailed: the package cannot be fetched, no file has such a path, or none gives a text.
    """
    package = fetched(config.package)
    names = wanted_files(package.path, config.include, config.exclude)
    if not names:
        raise StepFailed(
            f"{out.step_name}: no file of {config.package} {package.version} matches {config.include} without "
            f"{config.exclude}; look at the paths in {package.path}"
        )
    sizes = [(package.path / name).stat().st_size for name in names]
    # The files are in the shard's name, so that a later attempt never takes up what was read from another version.
    shards = {
        f"{index:05d}-{_list_digest(chosen, package.version)}": (index, chosen)
        for index, chosen in enumerate(_groups(names, sizes))
    }
    results = list(out.map_shards(partial(_read_shard, config, package.version), shards).values())
    documents = sum(each["documents"] for each in results)
    left_out: Counter[str] = Counter()
    for each in results:
        left_out.update(each["left_out"])
    if not documents:
        raise StepFailed(
            f"{out.step_name}: no text in {len(names)} files of {config.package} {package.version}: {dict(left_out)}; "
            f"another format or other paths may be meant"
        )
    digest = f"{sum(int(each['digest'], 16) for each in results) % 2**128:032x}"
    changed_from = config.expected if config.expected not in ("", digest) else ""
    if changed_from:
        out.progress(
            f"the text of {config.package} has changed: checksum {digest} in version {package.version}, {changed_from} is "
            f"expected; going on with what was found"
        )
    return PackageResult(
        version=package.version,
        files=sum(each["files"] for each in results),
        documents=documents,
        num_bytes=sum(each["num_bytes"] for each in results),
        left_out=dict(sorted(left_out.items())),
        text_digest=digest,
        changed_from=changed_from,
    )


def _read_shard(
    config: PackageConfig, version: str, item: tuple[int, Sequence[str]], shard: ShardOut
) -> dict[str, Any]:
    index, names = item
    package = fetched(config.package)
    if package.version != version:
        raise StepFailed(
            f"{config.package} is {package.version} in the cache of this machine and {version} in that of another; remove "
            f"the package from the older cache ({package.path.parent})"
        )
    reading = _Reading(config, package.path)
    documents, num_bytes = write_raw(shard.file(raw_name(index)), reading.documents(names))
    return {
        "documents": documents,
        "num_bytes": num_bytes,
        "files": reading.files,
        "left_out": dict(reading.left_out),
        "digest": f"{reading.digest:x}",
    }


class _Reading:
    """Reads files, and counts what came of them."""

    def __init__(self, config: PackageConfig, root: Path) -> None:
        self._format: Format = config.format
        self._shared = {"language": config.language} if config.language else {}
        self._root = root
        self.files = 0
        self.left_out: Counter[str] = Counter()
        self.digest = 0

    def documents(self, names: Iterable[str]) -> Iterator[RawDocument]:
        for name in names:
            try:
                documents = list(self._texts(name))
            except Unusable as unusable:
                self.left_out[str(unusable)] += 1
                continue
            self.files += bool(documents)
            for document in documents:
                self.digest += xxhash.xxh3_128_intdigest(f"{document.source_id}\0{document.text}".encode())
                yield document

    def _texts(self, name: str) -> Iterator[RawDocument]:
        for piece in self._format.pieces(SourceFile(self._root, name)):
            place = f"{name}:{piece.place}" if piece.place else name
            try:
                piece.text.encode()
            except UnicodeEncodeError as error:  # JSON and numeric references can spell lone surrogates
                raise Unusable("undecodable") from error
            yield RawDocument(place, piece.text, metadata_json({**self._shared, **piece.fields}))


def wanted_files(root: Path, include: Sequence[str], exclude: Sequence[str]) -> list[str]:
    """Returns the paths, below a folder, of its regular files that match a pattern and are not excluded, sorted.

    Links are not followed. Patterns are as in `PackageConfig`.
    """
    names = sorted(_regular_files(str(root), ""))
    return [name for name in names if _matches(name, include) and not _matches(name, exclude)]


def _regular_files(folder: str, prefix: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _regular_files(entry.path, f"{prefix}{entry.name}/")
            elif entry.is_file(follow_symlinks=False):
                yield f"{prefix}{entry.name}"


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _groups(names: list[str], sizes: list[int]) -> list[list[str]]:
    groups: list[list[str]] = [[]]
    total = 0
    for name, size in zip(names, sizes, strict=True):
        if groups[-1] and total + size > _SHARD_BYTES:
            groups.append([])
            total = 0
        groups[-1].append(name)
        total += size
    return groups


def _list_digest(names: Sequence[str], version: str) -> str:
    return xxhash.xxh3_64_hexdigest("\0".join((version, *names)).encode())
