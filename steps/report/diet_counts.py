"""The data diet in figures: what came in, what stayed, and what training sees of it, all from ledgers, exactly.

Tokens are counted for what is kept. For what was removed they are estimated from its bytes, at the kept documents' bytes a
token, and marked so.
"""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from marin_exec import StepFailed
from steps.documents import NamedInput, read_table
from steps.mix.blocks import phase_lengths
from steps.mix.judgements import KEPT
from steps.mix.mixture import Mixture, blocks_of, read_mixture
from steps.report.gather_data import STAGE_LABELS
from steps.report.outputs import read_json, recorded_result
from steps.tokenize.store import documents_file, read_index

_FILES_AT_ONCE = 16  # a cell's file each; requests to an object store wait for each other otherwise


@dataclass(frozen=True, eq=False)
class Diet:
    """C cells, P phases."""

    ledger: pa.Table
    """Of mix/cells, with `tokens` (int64; 0 where the document is not kept)."""
    mixture: Mixture
    epochs: dict[str, list[float]]
    """By cell, then by phase: how often the largest run sees each of its tokens in that phase."""
    budget_tokens: int


def read_diet(cells: str, tokens: str, mixture: str) -> Diet:
    """Returns the ledger with the tokens of each kept document, and the epochs of each cell.

    Raises:
        StepFailed: the token store was made from other documents.
    """
    ledger = read_table(cells, "ledger.parquet")
    index = read_index(tokens)
    files = [documents_file(cell.name) for cell in index.cells]
    with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        tables = pool.map(lambda file: read_table(tokens, file, ["id", "num_tokens"]), files)
        found = pa.concat_tables(tables).sort_by("id")
    kept = pc.call_function("equal", [ledger["fate"], pa.scalar(KEPT)])
    if not ledger["id"].filter(kept).combine_chunks().equals(found["id"].combine_chunks()):
        raise StepFailed(
            f"{tokens}: its documents are not those that {cells} kept; give the token store of these cells"
        )
    counts = np.zeros(ledger.num_rows, dtype=np.int64)
    counts[kept.to_numpy()] = found["num_tokens"].to_numpy()
    read = read_mixture(mixture)
    return Diet(ledger.append_column("tokens", pa.array(counts)), read, _epochs(read), max(read.budgets_tokens))


def _epochs(mixture: Mixture) -> dict[str, list[float]]:
    """Epochs by cell and phase under the largest budget: the sequences drawn by those an epoch has."""
    num_sequences = max(mixture.budgets_tokens) // mixture.sequence_length
    blocks = blocks_of(mixture, num_sequences)
    starts = np.cumsum([0, *phase_lengths(mixture.phase_starts, num_sequences)])[:-1]
    before = [blocks.of_place(int(start)).drawn_before for start in starts]
    draws = np.diff([*before, blocks.draws], axis=0)  # int64[P, C]
    return {
        cell: [float(drawn) / each.sequences for drawn in draws[:, number]]
        for number, each in enumerate(mixture.components)
        for cell in each.cells
    }


def funnel(diet: Diet, sources: tuple[NamedInput, ...], cells: str) -> list[dict[str, Any]]:
    """Returns what is left after each stage: documents, bytes, tokens, and whether tokens are an estimate.

    The first row, the raw text, is there if the sources' records are those of documents/normalize.
    """
    counts = read_json(f"{cells}/funnel.json")
    kept_tokens = sum(diet.ledger["tokens"].to_pylist())
    a_byte = kept_tokens / counts["bytes_kept"]

    def row(label: str, documents: int, size: int, tokens: float, estimated: bool) -> dict[str, Any]:
        return {
            "stage": label,
            "documents": documents,
            "bytes": size,
            "tokens": round(tokens),
            "tokens_estimated": estimated,
        }

    rows = []
    raw = [recorded_result(source.path) or {} for source in sources]
    if all("blank" in each and "bytes_in" in each for each in raw):
        size = sum(each["bytes_in"] for each in raw)
        rows.append(row("raw text", sum(each["documents_in"] for each in raw), size, size * a_byte, True))
    rows.append(row("normalised", counts["documents_in"], counts["bytes_in"], counts["bytes_in"] * a_byte, True))
    for each in counts["stages"]:
        label = f"without {STAGE_LABELS.get(each['stage'], each['stage'])}"
        rows.append(row(label, each["left_documents"], each["left_bytes"], each["left_bytes"] * a_byte, True))
    rows[-1] |= {"tokens": kept_tokens, "tokens_estimated": False}
    seen, trained = _seen(diet), sum(each["trained_tokens"] for each in trained_by_cell(diet).values())
    rows.append(row("mixed: seen in the largest run at all", seen["documents"], seen["bytes"], seen["tokens"], False))
    rows.append(
        {
            "stage": "trained on, repeats included",
            "documents": None,
            "bytes": None,
            "tokens": round(trained),
            "tokens_estimated": False,
        }
    )
    return rows


def _seen(diet: Diet) -> dict[str, int]:
    names = [cell for cell, epochs in diet.epochs.items() if sum(epochs) > 0]
    part = diet.ledger.filter(pc.field("cell").isin(names))
    return {
        "documents": part.num_rows,
        "bytes": sum(part["bytes"].to_pylist()),
        "tokens": sum(part["tokens"].to_pylist()),
    }


def trained_by_cell(diet: Diet) -> dict[str, dict[str, float]]:
    """Returns available and trained tokens of each cell of the mixture."""
    kept = diet.ledger.filter(pc.field("fate") == KEPT).group_by("cell").aggregate([("tokens", "sum")])
    tokens = dict(zip(kept["cell"].to_pylist(), kept["tokens_sum"].to_pylist(), strict=True))
    return {
        cell: {"tokens": count, "trained_tokens": count * sum(diet.epochs.get(cell, [0.0]))}
        for cell, count in tokens.items()
    }


def cube(diet: Diet) -> list[dict[str, Any]]:
    """Returns a row for each source, topic and quality bucket that is kept: documents, bytes, tokens available, and tokens trained
    on by phase, under the largest budget.
    """
    keys = ["source", "topic", "bucket", "cell"]
    kept = diet.ledger.filter(pc.field("fate") == KEPT).group_by(keys)
    sums = kept.aggregate([("bytes", "count"), ("bytes", "sum"), ("tokens", "sum")])
    num_phases = len(diet.mixture.phase_starts)
    rows = []
    for row in sums.sort_by([(key, "ascending") for key in keys]).to_pylist():
        epochs = diet.epochs.get(row["cell"], [0.0] * num_phases)
        rows.append(
            {
                **{key: row[key] for key in keys},
                "documents": row["bytes_count"],
                "bytes": row["bytes_sum"],
                "tokens": row["tokens_sum"],
                "epochs": epochs,
                "trained_tokens": [row["tokens_sum"] * each for each in epochs],
            }
        )
    return rows


def by_axis(rows: list[dict[str, Any]], axis: str) -> list[dict[str, Any]]:
    """Returns the cube summed over all but one axis: available by quality bucket, trained by phase; most tokens first."""
    found: dict[Any, dict[str, Any]] = {}
    for row in rows:
        each = found.setdefault(
            row[axis],
            {
                "documents": 0,
                "bytes": 0,
                "tokens": 0,
                "buckets": [0] * 5,
                "trained": [0.0] * len(row["trained_tokens"]),
            },
        )
        for key in ("documents", "bytes", "tokens"):
            each[key] += row[key]
        each["buckets"][row["bucket"]] += row["tokens"]
        each["trained"] = [a + b for a, b in zip(each["trained"], row["trained_tokens"], strict=True)]
    return sorted(
        ({axis: key, **each} for key, each in found.items()), key=lambda each: (-each["tokens"], str(each[axis]))
    )


def by_source(diet: Diet, sources: tuple[NamedInput, ...]) -> list[dict[str, Any]]:
    """Returns documents and bytes by source and fate, in the order of the sources."""
    sums = diet.ledger.group_by(["source", "fate"]).aggregate([("bytes", "count"), ("bytes", "sum"), ("tokens", "sum")])
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for row in sums.to_pylist():
        found[row["source"]][row["fate"]] = {
            "documents": row["bytes_count"], "bytes": row["bytes_sum"], "tokens": row["tokens_sum"],
        }  # fmt: skip
    return [{"source": source.name, "fates": found[source.name]} for source in sources]
