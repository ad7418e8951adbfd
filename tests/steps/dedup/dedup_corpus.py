"""Documents data sets for the tests of this directory, and real near-duplicate text from the packages installed here."""

import ast
import dataclasses
import functools
import importlib.util
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from steps.dedup.exact import ExactConfig, exact_duplicates
from steps.dedup.fuzzy import FuzzyConfig, FuzzyResult, fuzzy_duplicates
from steps.dedup.words import word_hashes
from steps.documents import NamedInput, document_id, read_table, shard_name, shard_names, write_table
from tests.directory_out import DirectoryOut


def word_hashes_of(text: str) -> np.ndarray:
    """Returns the word hashes of one text."""
    return word_hashes(pa.array([text])).of(0)


def write_documents(path: Path, texts: Iterable[str], num_shards: int = 1) -> NamedInput:
    """Writes a contract-true documents data set named after its directory, cut into `num_shards` runs of ids."""
    rows = sorted({document_id(text): text for text in texts}.items())
    path.mkdir(parents=True)
    per_shard = -(-len(rows) // num_shards) or 1
    for shard in range(num_shards):
        chosen = rows[shard * per_shard : (shard + 1) * per_shard]
        table = pa.table(
            {
                "id": pa.array([identifier for identifier, _ in chosen], pa.string()),
                "text": pa.array([text for _, text in chosen], pa.string()),
                "source_id": pa.array(["" for _ in chosen], pa.string()),
                "metadata": pa.array(["{}" for _ in chosen], pa.string()),
            }
        )
        write_table(str(path / shard_name(shard)), table)
    return NamedInput(name=path.name, path=str(path))


@dataclasses.dataclass(frozen=True)
class Deduplicated:
    """What the two steps said of some sources."""

    result: FuzzyResult
    removed: dict[tuple[str, str], dict]
    """Evidence by (source, id)."""
    clusters: list[dict]
    path: Path


def deduplicate(folder: Path, sources: Sequence[NamedInput], out: DirectoryOut | None = None, **config) -> Deduplicated:
    """Runs dedup/exact and dedup/fuzzy on the sources."""
    exact = DirectoryOut(folder / "exact")
    exact_duplicates(ExactConfig(sources=tuple(sources)), exact)
    out = out or DirectoryOut(folder / "fuzzy")
    result = fuzzy_duplicates(FuzzyConfig(sources=tuple(sources), exact=exact.path, **config), out)
    removed = {}
    for source in sources:
        table = f"{out.path}/{source.name}"
        assert shard_names(table) == shard_names(source.path)
        for shard in shard_names(table):
            removed |= {(source.name, row["id"]): row for row in read_table(table, shard).to_pylist()}
    clusters = read_table(out.path, "clusters.parquet").to_pylist()
    return Deduplicated(result, removed, clusters, Path(out.path))


def removed_texts(found: Deduplicated, texts: Iterable[str]) -> set[str]:
    """Returns which of these texts were removed from some source."""
    ids = {identifier for _, identifier in found.removed}
    return {text for text in texts if document_id(text) in ids}


def docstrings(package: str, limit: int, least_characters: int = 200) -> list[str]:
    """Returns distinct docstrings of an installed package, in order of its files."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    found: dict[str, None] = {}
    for file in sorted(Path(spec.origin).parent.rglob("*.py")):
        if "tests" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
                text = ast.get_docstring(node)
                if text and len(text) >= least_characters:
                    found[text] = None
        if len(found) >= limit:
            break
    return list(found)[:limit]


@functools.cache
def edited_docstrings() -> list[str]:
    """Returns real docstrings of three packages, with edited copies of some: a word in every 25 to 105 changed."""
    texts = [*docstrings("numpy", 200), *docstrings("scipy", 200), *docstrings("sklearn", 100)]
    edited = []
    for number, text in enumerate(texts[::3]):
        words = text.split(" ")
        step = 25 + 20 * (number % 5)
        edited.append(" ".join("changed" if i % step == step - 1 else word for i, word in enumerate(words)))
    return list(dict.fromkeys([*texts, *edited]))
