"""Weights of cells in a file, with the fingerprint of the token store that they were made for.

A weight search writes them, mix/weights reads them (the rule `StoredWeights`). Names of cells alone do not say what is in
them: when topics or quality buckets are made anew, cells of the same names hold other documents. So the fingerprint goes
with the weights, and with any other store they are refused.
"""

import json
from dataclasses import asdict, dataclass

import numpy as np

from marin_exec import StepFailed
from steps.files import read_bytes, write_json
from steps.tokenize.store import TokenIndex

FORMAT = "cell-weights/1"


@dataclass(frozen=True, kw_only=True)
class CellWeights:
    """Weights of all cells of one token store, by phase."""

    token_store: str
    """Fingerprint of the store."""
    phase_starts: tuple[float, ...]
    """Fraction of the run at which each phase starts."""
    cells: tuple[str, ...]
    """Names, in order."""
    weights: tuple[tuple[float, ...], ...]
    """[phase][cell], not negative; each phase sums to 1."""


def cell_weights(index: TokenIndex, phase_starts: tuple[float, ...], weights: np.ndarray) -> CellWeights:
    """Returns weights (float64[P, C], rows sum to 1) of a store's cells with what they were made for."""
    return CellWeights(
        token_store=index.fingerprint,
        phase_starts=phase_starts,
        cells=tuple(each.name for each in index.cells),
        weights=tuple(map(tuple, weights.tolist())),
    )


def write_weights(full_path: str, weights: CellWeights) -> None:
    """Writes weights as JSON."""
    write_json(full_path, {"format": FORMAT, **asdict(weights)})


def read_weights(path: str, index: TokenIndex) -> np.ndarray:
    """Returns the weights in a file, float64[P, C], for the cells of a store.

    Raises:
        StepFailed: there is no such file, it is of another format, or its weights were made for another store.
    """
    try:
        body = json.loads(read_bytes(path))
    except FileNotFoundError as error:
        raise StepFailed(
            f"{path}: not there; weights as mix/designs and mix/candidate write them are needed"
        ) from error
    if (found := body.get("format")) != FORMAT:
        raise StepFailed(f"{path}: format {found!r}; this code reads {FORMAT!r}")
    if body["token_store"] != index.fingerprint:
        raise StepFailed(
            f"{path}: weights for the token store {body['token_store'][:16]}, not for {index.fingerprint[:16]}; they say "
            f"nothing about its cells, even where names are the same. Make them for this store"
        )
    return np.array(body["weights"], dtype=np.float64)
