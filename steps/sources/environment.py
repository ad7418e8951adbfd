"""The text that this environment already has: source `sources/environment`.

The pinned distributions on the machine hold tens of megabytes of real text under known licences: module source,
docstrings, READMEs, documentation, licence texts, with real exact and near duplicates among them. Nothing is fetched.
The literals "name==version" pin the content; `manifest.json` in the output lists every file used with its checksum.

A sample takes the documents with the lowest hash of (seed, text): it depends on no order, and copies of one text share
their lot (but for the text at the cut), so duplicates stay duplicates.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import xxhash

from marin_exec import ConfigError, Out, ShardOut, StepFailed, kind
from steps.documents import document_id
from steps.files import read_bytes, write_bytes
from steps.sources.decoding import Unusable
from steps.sources.extract import EXTRACTS, Extracted, installed, licence_of, own_files
from steps.sources.raw import RawDocument, metadata_json, raw_name, read_raw, write_raw

_SHARDS = 8  # at most; distributions are dealt out in turn, so that READMEs of 200 distributions are not 200 tasks


@dataclass(frozen=True, kw_only=True)
class EnvironmentConfig:
    """What to take from which installed distributions."""

    distributions: tuple[str, ...]
    """Literals such as "numpy==2.5.5"; another installed version is an IdentityMismatch."""
    extract: str
    """"code" (module source), "docstrings", "readmes", "docs" (prose files) or "licences"."""
    min_document_bytes: int = 200
    """Shorter texts (UTF-8) are left out and counted."""
    max_document_bytes: int = 40_000
    """Longer texts (UTF-8) are left out and counted; they are never cut."""
    sample_documents: int | None = None
    """At most so many documents; None: all."""
    sample_bytes: int | None = None
    """At most so many bytes of text (UTF-8); None: all."""
    seed: int = 0
    """Of the sample."""

    def __post_init__(self) -> None:
        if self.extract not in EXTRACTS:
            raise ConfigError(f"EnvironmentConfig.extract: {self.extract!r}; one of {sorted(EXTRACTS)} is needed")
        if not self.distributions:
            raise ConfigError(
                'EnvironmentConfig.distributions: (); at least one literal such as "numpy==2.5.5" is needed'
            )
        for literal in self.distributions:
            name, separator, version = literal.partition("==")
            if not (name and separator and version):
                raise ConfigError(f'EnvironmentConfig.distributions: {literal!r}; "name==version" is needed')
        if len(set(self.distributions)) != len(self.distributions):
            raise ConfigError("EnvironmentConfig.distributions: a distribution is listed twice; list each once")


@dataclass(frozen=True)
class EnvironmentResult:
    """Counters of one environment source; "found" is before sampling, sizes are UTF-8 bytes of text."""

    documents: int
    num_bytes: int
    documents_found: int
    bytes_found: int
    files_used: int
    manifest_digest: str
    """xxh3-128 of manifest.json."""
    left_out: dict[str, int]
    """By reason: texts too_short or too_long, files undecodable, unparsed, generated or not_prose."""
    documents_found_by_distribution: dict[str, int]
    bytes_found_by_distribution: dict[str, int]
    documents_by_distribution: dict[str, int]


@kind("sources/environment", version=1)
def environment_texts(config: EnvironmentConfig, out: Out) -> EnvironmentResult:
    """Extracts texts of installed distributions into `raw-NNNNN.parquet`, and their manifest into `manifest.json`.

    Raises:
        IdentityMismatch: a distribution is missing, has another version, or its files are not what its RECORD says.
        StepFailed: the distributions hold no such text.
    """
    for requirement in config.distributions:
        installed(requirement)  # all versions are checked before any work is spread
    groups = {f"{index:02d}": (index, config.distributions[index::_SHARDS]) for index in range(_SHARDS)}
    groups = {name: group for name, group in groups.items() if group[1]}
    pieces = list(out.map_shards(partial(_extract_group, config), groups).values())
    folders = [f"{out.path}/pieces/{name}" for name in groups]
    manifest_json = _write_manifest(out, folders)
    found = (document for folder in folders for document in read_raw(folder))
    sampled = sorted(_sample(found, config), key=lambda document: (_distribution(document), *document))
    if not sampled:
        raise StepFailed(
            f"{out.step_name}: no {config.extract} of {config.min_document_bytes} to {config.max_document_bytes} bytes "
            f"in {', '.join(config.distributions)}; name other distributions or change the bounds"
        )
    num_documents, num_bytes = write_raw(out.file(raw_name(0)), sampled)
    documents_found, bytes_found = _summed(pieces, "documents"), _summed(pieces, "bytes")
    return EnvironmentResult(
        documents=num_documents,
        num_bytes=num_bytes,
        documents_found=sum(documents_found.values()),
        bytes_found=sum(bytes_found.values()),
        files_used=sum(piece["files"] for piece in pieces),
        manifest_digest=xxhash.xxh3_128_hexdigest(manifest_json),
        left_out=_summed(pieces, "left_out"),
        documents_found_by_distribution=documents_found,
        bytes_found_by_distribution=bytes_found,
        documents_by_distribution=dict(sorted(Counter(map(_distribution, sampled)).items())),
    )


def _extract_group(config: EnvironmentConfig, group: tuple[int, tuple[str, ...]], shard: ShardOut) -> dict[str, Any]:
    """Writes the texts of some distributions (of a sample: those that can still be in it) and their manifest."""
    index, requirements = group
    counts: dict[str, Counter[str]] = {"documents": Counter(), "bytes": Counter(), "left_out": Counter()}
    manifest: list[dict[str, Any]] = []
    documents = [
        document for requirement in requirements for document in _extract_one(config, requirement, counts, manifest)
    ]
    # The lowest hashes here, up to the whole budget: whatever the other pieces hold, the sample lies within.
    write_raw(shard.file(f"pieces/{index:02d}/{raw_name(0)}"), _sample(documents, config))
    write_bytes(shard.file(f"pieces/{index:02d}/manifest.json"), json.dumps(manifest).encode())
    return {"files": len(manifest)} | {name: dict(count) for name, count in counts.items()}


def _extract_one(
    config: EnvironmentConfig, requirement: str, counts: dict[str, Counter[str]], manifest: list[dict[str, Any]]
) -> Iterator[RawDocument]:
    distribution = installed(requirement)
    shared = {"distribution": requirement, "license": licence_of(distribution)}
    extract = EXTRACTS[config.extract]
    for path, content in own_files(requirement, distribution, extract.wants):
        texts: list[Extracted] = []
        try:
            for text in extract.texts(path, content):
                if _fits(text.text, config, counts["left_out"]):
                    texts.append(text)
        except Unusable as unusable:
            counts["left_out"][str(unusable)] += 1
            continue
        if texts:
            digest = xxhash.xxh3_128_hexdigest(content)
            manifest.append({"distribution": requirement, "path": path, "bytes": len(content), "xxh3_128": digest})
        for text in texts:
            counts["documents"][requirement] += 1
            counts["bytes"][requirement] += len(text.text.encode())
            fields = {**shared, "path": text.path, "line": text.line}
            yield RawDocument(text.source_id, text.text, metadata_json(fields))


def _fits(text: str, config: EnvironmentConfig, left_out: Counter[str]) -> bool:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:  # a literal such as "\ud800" in a docstring is no text in UTF-8
        left_out["undecodable"] += 1
        return False
    if size < config.min_document_bytes:
        left_out["too_short"] += 1
    elif size > config.max_document_bytes:
        left_out["too_long"] += 1
    return config.min_document_bytes <= size <= config.max_document_bytes


def _sample(documents: Iterable[RawDocument], config: EnvironmentConfig) -> Iterator[RawDocument]:
    """Yields the documents of the sample by rising hash; ends before the first that goes over a budget."""
    if config.sample_documents is None and config.sample_bytes is None:
        yield from documents
        return

    def rank(document: RawDocument) -> tuple[str, RawDocument]:
        return xxhash.xxh3_128_hexdigest(f"{config.seed} {document_id(document.text)}".encode()), document

    num_documents = num_bytes = 0
    for document in sorted(documents, key=rank):
        num_documents += 1
        num_bytes += len(document.text.encode())
        if config.sample_documents is not None and num_documents > config.sample_documents:
            return
        if config.sample_bytes is not None and num_bytes > config.sample_bytes:
            return
        yield document


def _write_manifest(out: Out, folders: list[str]) -> bytes:
    """Writes manifest.json, every file used with its size and checksum, one a line; returns its bytes."""
    entries: list[dict[str, Any]] = []
    for folder in folders:
        entries += json.loads(read_bytes(f"{folder}/manifest.json"))
    entries.sort(key=lambda entry: (entry["distribution"], entry["path"]))
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    content = f'{{"files": [\n{lines}\n]}}\n'.encode()
    write_bytes(out.file("manifest.json"), content)
    return content


def _distribution(document: RawDocument) -> str:
    return json.loads(document.metadata)["distribution"]


def _summed(pieces: list[dict[str, Any]], name: str) -> dict[str, int]:
    total: Counter[str] = Counter()
    for piece in pieces:
        total.update(piece[name])
    return dict(sorted(total.items()))
