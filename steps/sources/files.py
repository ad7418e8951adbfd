"""Files as a source: kind `sources/files`, and `sources/adopt` for files that are pinned by their manifest.

JSON lines (plain, .gz, .zst), Parquet, and trees of text or Markdown, on any fsspec filesystem, `hf://` among them. One
file is one shard of the output, in order of path. Damage, a missing text and invalid UTF-8 are errors that name the file
and line; a source without a document is one too.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from marin_exec import ConfigError, InputPath, Out, ShardOut, StepFailed, kind, runtime
from steps.sources.manifest import FileEntry, check_manifest, entries_digest, found_files, manifest_entries
from steps.sources.raw import raw_name, write_raw
from steps.sources.readers import COMPRESSIONS, SUFFIXES, Reader


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """How files are read."""

    format: str
    """"jsonl", "parquet", "text" or "markdown" (the last two: one document a file)."""
    text_field: str = "text"
    """JSON field or Parquet column that holds the text."""
    id_field: str | None = None
    """Field or column for source_id; None: file and line (JSON lines) or row (Parquet)."""
    invalid_utf8: str = "error"
    """"error" stops and says where; "replace" puts U+FFFD there and counts the documents."""

    def __post_init__(self) -> None:
        if self.format not in SUFFIXES:
            raise ConfigError(f"FileFormat.format: {self.format!r}; one of {sorted(SUFFIXES)} is needed")
        if self.invalid_utf8 not in ("error", "replace"):
            raise ConfigError(f'FileFormat.invalid_utf8: {self.invalid_utf8!r}; "error" or "replace" is needed')

    def suffixes(self) -> list[str]:
        """Returns the endings of file names that count as this format."""
        plain = SUFFIXES[self.format]
        compressed = () if self.format == "parquet" else COMPRESSIONS
        return [suffix + ending for suffix in plain for ending in ("", *compressed)]


@dataclass(frozen=True, kw_only=True)
class FilesConfig:
    """Files at literal paths (or another step's output), read as they are when the step runs."""

    paths: tuple[InputPath, ...]
    """Files, folders (recursively) or glob patterns; local paths or fsspec URLs."""
    reading: FileFormat
    revision: str = ""
    """What pins the content where the path does not: a tag, a date. Raising it reads the files again."""

    def __post_init__(self) -> None:
        if isinstance(self.paths, str) or not self.paths:
            raise ConfigError(
                f'FilesConfig.paths: {self.paths!r}; a tuple of paths is needed, e.g. ("data/*.jsonl.gz",)'
            )


@dataclass(frozen=True, kw_only=True)
class AdoptConfig:
    """Files known by their manifest: where they lie is not identity, what they are is."""

    path: Annotated[str, runtime]
    """File, folder or glob pattern; a local path or fsspec URL."""
    manifest: str
    """`steps.sources.manifest.manifest_digest` of the files of that format, as a literal."""
    reading: FileFormat


@dataclass(frozen=True)
class FilesResult:
    """Counters of a files source."""

    files: int
    files_without_documents: int
    documents: int
    num_bytes: int
    """Of text, as UTF-8."""
    replaced: int
    """Documents in which invalid UTF-8 was replaced."""
    manifest: str
    """Digest of the files read: paths, sizes, checksums."""


@kind("sources/files", version=2)
def read_files(config: FilesConfig, out: Out) -> FilesResult:
    """Writes the documents of files as `raw-NNNNN.parquet`, one a file.

    Raises:
        ConfigError: a path matches no file of the format.
        StepFailed: a file is damaged or holds something else, or there is no document in any.
    """
    found: dict[str, str] = {}
    for path in config.paths:
        for name, url in found_files(path, config.reading.suffixes()).items():
            if found.setdefault(name, url) != url:
                found[url] = url  # two roots with a file of the same name
    return _read(found, manifest_entries(found), config.reading, out)


@kind("sources/adopt", version=2)
def adopt_files(config: AdoptConfig, out: Out) -> FilesResult:
    """Writes the documents of files as `raw-NNNNN.parquet`, after checking the files against their stated manifest.

    Raises:
        ConfigError: the path matches no file of the format.
        IdentityMismatch: the files' manifest has another digest.
        StepFailed: as for `sources/files`.
    """
    found = found_files(config.path, config.reading.suffixes())
    entries = manifest_entries(found)
    check_manifest(config.path, entries, config.manifest)
    return _read(found, entries, config.reading, out)


def _read(found: dict[str, str], entries: list[FileEntry], reading: FileFormat, out: Out) -> FilesResult:
    # The checksum is in the shard's name, so that a later attempt never takes up what was read from another content.
    items = {f"{index:05d}-{entry.checksum[:16]}": (index, entry.name) for index, entry in enumerate(entries)}
    counts = list(out.map_shards(partial(_read_one, reading, found), items).values())
    documents = sum(count["documents"] for count in counts)
    if documents == 0:
        raise StepFailed(
            f"{out.step_name}: no document in {len(found)} files ({', '.join(sorted(found)[:3])}); an empty source is "
            f"never meant: check the paths, or leave the source out of the experiment"
        )
    return FilesResult(
        files=len(found),
        files_without_documents=sum(count["documents"] == 0 for count in counts),
        documents=documents,
        num_bytes=sum(count["num_bytes"] for count in counts),
        replaced=sum(count["replaced"] for count in counts),
        manifest=entries_digest(entries),
    )


def _read_one(reading: FileFormat, urls: dict[str, str], item: tuple[int, str], shard: ShardOut) -> dict[str, int]:
    index, name = item
    reader = Reader(
        url=urls[name],
        name=name,
        format=reading.format,
        text_field=reading.text_field,
        id_field=reading.id_field,
        invalid_utf8=reading.invalid_utf8,
    )
    documents, num_bytes = write_raw(shard.file(raw_name(index)), reader.documents())
    return {"documents": documents, "num_bytes": num_bytes, "replaced": reader.replaced}
