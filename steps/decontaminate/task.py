"""The step "benchmarks/task": a test set as a suite, read from a file, with the fields that a task of lm-eval-harness names.

Any of the harness's tasks can be a suite: give its task file, and the data that it loads as a file (JSON lines, Parquet, Arrow; a
local path, a URL, or "hf://datasets/openai/gsm8k/main/test-00000-of-00001.parquet"). The harness is not needed, nor its
code run: where a task builds its texts in Python, name the fields. A benchmark of one's own needs `data` and `fields` alone.

Output: `items.parquet` (see steps/decontaminate/items.py).
"""

import gzip
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
import zstandard

from marin_exec import ConfigError, IdentityMismatch, Out, StepFailed, kind
from steps.config_checks import check_number
from steps.decontaminate.harness_yaml import read_task
from steps.decontaminate.item_fields import ItemFields, item_records
from steps.decontaminate.items import write_items
from steps.decontaminate.task_fields import fields_of_task
from steps.files import read_bytes

_FORMATS = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet", ".arrow")


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    name: str
    """Name that hits are attributed to, e.g. "gsm8k"."""
    data: str
    """Path or URL of the test set: .jsonl (.gz, .zst), .parquet or .arrow."""
    checksum: str
    """xxh3-128 of that file, as 32 hex digits: which version of the benchmark is meant."""
    expected_items: int
    task: str = ""
    """Path or URL of a task file of lm-eval-harness, which names the fields; or none, with `fields`."""
    fields: ItemFields | None = None
    """Names of fields, instead of the task's."""
    id_field: str | None = None
    """Field with the item's name; by default items are numbered from 1."""

    def __post_init__(self) -> None:
        check_number(self, "expected_items", low=1)
        if not self.task and self.fields is None:
            raise ConfigError(f"TaskConfig: benchmark {self.name!r} has neither task nor fields; one of them is needed")
        if not self.data.endswith(_FORMATS):
            raise ConfigError(f"TaskConfig.data: {self.data!r}; a file ending in {', '.join(_FORMATS)} is needed")


@dataclass(frozen=True)
class TaskResult:
    items: int
    records: int
    """Texts of items: question, item, answer, passage."""
    fields: ItemFields
    """Which were taken."""


@kind("benchmarks/task", version=1)
def task_items(config: TaskConfig, out: Out) -> TaskResult:
    """Writes the items of the test set.

    Raises:
        ConfigError: the data or the task file is not there, or the task names no field.
        IdentityMismatch: the data has other bytes than those stated.
        StepFailed: the data is damaged, has another number of items, or an item lacks a field.
    """
    fields = config.fields or fields_of_task(read_task(config.task), config.task)
    items = list(_items(config))
    if len(items) != config.expected_items:
        raise StepFailed(
            f"benchmark {config.name}: {len(items)} items in {config.data}, {config.expected_items} expected; the file is cut "
            f"short, or expected_items is out of date"
        )
    records, names = [], set()
    for number, item in enumerate(items, start=1):
        if config.id_field is not None and config.id_field not in item:
            raise StepFailed(
                f"benchmark {config.name}: item {number} has no {config.id_field!r}; it has {sorted(item)}"
            )
        name = str(number if config.id_field is None else item[config.id_field])
        if name in names:
            raise StepFailed(f"benchmark {config.name}: two items are named {name!r}; choose another id_field")
        names.add(name)
        records += item_records(config.name, name, item, fields)
    write_items(out.file("items.parquet"), records)
    return TaskResult(items=len(items), records=len(records), fields=fields)


def _items(config: TaskConfig) -> Iterator[dict[str, Any]]:
    try:
        data = read_bytes(config.data)
    except FileNotFoundError as error:
        raise ConfigError(
            f"benchmark {config.name}: {config.data} is not there; give the path of its test set"
        ) from error
    found = xxhash.xxh3_128_hexdigest(data)
    if found != config.checksum:
        raise IdentityMismatch(
            f"benchmark {config.name}: {config.data} has checksum {found}, not {config.checksum}; it is another version, or "
            f"was changed. If it is the one that is meant, change the checksum"
        )
    try:
        yield from _rows(config.data, data)
    except (pa.ArrowInvalid, zstandard.ZstdError, gzip.BadGzipFile, EOFError, ValueError) as error:
        raise StepFailed(f"benchmark {config.name}: {config.data} cannot be read ({error}); fetch it again") from error


def _rows(name: str, data: bytes) -> Iterator[dict[str, Any]]:
    if name.endswith(".parquet"):
        yield from pq.read_table(io.BytesIO(data)).to_pylist()
    elif name.endswith(".arrow"):
        magic = data.startswith(b"ARROW1")  # a file; else a stream, as Hugging Face's cache has them
        reader = pa.ipc.open_file(data) if magic else pa.ipc.open_stream(data)
        yield from reader.read_all().to_pylist()
    else:
        if name.endswith(".gz"):
            data = gzip.decompress(data)
        elif name.endswith(".zst"):
            data = b"".join(_zstandard_frames(data))
        for line in data.split(b"\n"):
            if line.strip():
                yield json.loads(line)


def _zstandard_frames(data: bytes) -> Iterator[bytes]:
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        yield frame.decompress(data)
        if not frame.eof:
            raise ValueError("a Zstandard frame is cut off")
        data = frame.unused_data
