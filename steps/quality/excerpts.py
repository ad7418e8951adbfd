"""Excerpts for label readers: a seeded sample of documents, spread equally over sources.

The sample is a function of the seed and of the set of document ids: not of file order, shard sizes or the order in
which sources are named. Which documents are drawn, and what is shown of each, must not change once labels were made.

    python -m steps.quality.excerpts --documents code=DIR --documents readmes=DIR --count 420 --out excerpts.jsonl
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import click

from marin_exec import open_file
from marin_exec.errors import ConfigError
from steps.contract import read_all_documents
from steps.files import read_bytes
from steps.seeded_ranks import draw_rank

EXCERPT_CHARACTERS = 900
_OPENING_CHARACTERS = 500
_MIDDLE_CHARACTERS = 300


@dataclass(frozen=True)
class Excerpt:
    """What a reader of labels sees of one document."""

    id: str
    source: str
    excerpt: str
    """At most 900 characters, the announcements of windows included."""


def excerpt_of(text: str) -> str:
    """Returns a text of up to 900 characters whole; of a longer one, its opening and a middle window, announced.

    Two windows, because the opening alone is often a licence header, and the middle alone lacks its context.
    """
    if len(text) <= EXCERPT_CHARACTERS:
        return text
    middle = max(_OPENING_CHARACTERS, (len(text) - _MIDDLE_CHARACTERS) // 2)
    windows = [(0, _OPENING_CHARACTERS), (middle, min(len(text), middle + _MIDDLE_CHARACTERS))]
    return "\n".join(f"[characters {start}-{end} of {len(text):,}]\n{text[start:end]}" for start, end in windows)


def equal_shares(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    """Returns how many to take from each source: equal shares, what a small source lacks going to the others.

    Raises:
        ConfigError: the sources hold fewer than `count` documents.
    """
    if count > sum(sizes.values()):
        raise ConfigError(f"count {count}: the sources hold {sum(sizes.values())} documents; ask for at most that many")
    shares: dict[str, int] = {}
    left = count
    # Smallest source first, so that what it can't fill is spread over all that follow; names settle ties.
    for position, name in enumerate(sorted(sizes, key=lambda name: (sizes[name], name))):
        shares[name] = min(sizes[name], left // (len(sizes) - position))
        left -= shares[name]
    return shares


def draw_ids(ids_by_source: Mapping[str, Sequence[str]], count: int, seed: int) -> list[tuple[str, str]]:
    """Returns `count` pairs (source, document id), in an order that mixes the sources.

    A document that several sources hold counts for the first of them by name, so no text is drawn twice.

    Raises:
        ConfigError: there are fewer than `count` distinct documents.
    """
    taken: set[str] = set()
    own: dict[str, list[str]] = {}
    for name in sorted(ids_by_source):
        own[name] = sorted(set(ids_by_source[name]) - taken, key=lambda each: draw_rank(seed, each))
        taken.update(own[name])
    shares = equal_shares({name: len(ids) for name, ids in own.items()}, count)
    pairs = [(name, each) for name, ids in own.items() for each in ids[: shares[name]]]
    return sorted(pairs, key=lambda pair: draw_rank(seed, pair[1]))


def sample_excerpts(paths: Mapping[str, str], count: int, seed: int) -> list[Excerpt]:
    """Draws `count` documents from the document data sets at `paths` (by source name) and cuts an excerpt of each.

    Raises:
        ConfigError: there are fewer than `count` distinct documents.
    """
    ids = {name: read_all_documents(path, columns=["id"])["id"].to_pylist() for name, path in paths.items()}
    pairs = draw_ids(ids, count, seed)
    texts: dict[str, str] = {}
    for name, path in paths.items():
        wanted = {each for source, each in pairs if source == name}
        table = read_all_documents(path, columns=["id", "text"])
        columns = zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True)
        texts.update({each: text for each, text in columns if each in wanted})
    return [Excerpt(each, source, excerpt_of(texts[each])) for source, each in pairs]


def write_excerpts(full_path: str, excerpts: Sequence[Excerpt]) -> None:
    """Writes excerpts as JSONL, one `{"id", "source", "excerpt"}` a line, in order."""
    with open_file(full_path, "wb") as file:
        for each in excerpts:
            file.write((json.dumps(asdict(each), ensure_ascii=False) + "\n").encode())


def read_excerpts(path: str) -> list[Excerpt]:
    """Returns the excerpts of a JSONL file, in its order.

    Raises:
        ConfigError: the file does not exist.
    """
    try:
        lines = read_bytes(path).decode().split("\n")
    except FileNotFoundError as error:
        raise ConfigError(f"excerpts {path}: not there; the output of a quality/next_labels step is needed") from error
    return [Excerpt(**json.loads(line)) for line in lines if line]


@click.command()
@click.option("--documents", multiple=True, required=True, metavar="NAME=DIR", help="A documents data set; repeatable.")
@click.option("--count", default=420, show_default=True, help="Documents to draw in all.")
@click.option("--seed", default=0, show_default=True)
@click.option("--out", required=True, help="JSONL file to write: id, source, excerpt.")
def main(documents: tuple[str, ...], count: int, seed: int, out: str) -> None:
    """Draws a seeded sample of excerpts for readers who make quality labels."""
    paths = {name: path for name, _, path in (pair.partition("=") for pair in documents)}
    if "" in paths.values() or len(paths) != len(documents):
        raise click.BadParameter(f"--documents {' '.join(documents)}: one NAME=DIR each, names distinct, is needed")
    excerpts = sample_excerpts(paths, count, seed)
    write_excerpts(out, excerpts)
    click.echo(f"{len(excerpts)} excerpts of {len(paths)} sources -> {out}")


if __name__ == "__main__":
    main()
