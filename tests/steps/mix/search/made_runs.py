"""Token stores of an index alone, and runs whose losses are a known function of their mixture: no tokens, no training."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from steps.mix.mixture import read_mixture
from steps.mix.search.designs import DesignsConfig, design_file, mixture_designs
from steps.mix.search.features import cell_shares
from steps.mix.search.surrogate import ProxyRun
from steps.mix.weights import Phase, StoredWeights, WeightsConfig, mixture_weights
from steps.tokenize.store import CellEntry, TokenIndex, read_index, write_index
from tests.directory_out import DirectoryOut

LENGTH = 16
TARGET = 400_000
CELLS = {f"c{topic:02d}q{bucket}": 20_000 + 7_000 * topic + 3_000 * bucket for topic in range(4) for bucket in range(3)}


def write_index_only(path: Path, tokens_by_cell: dict[str, int], digest: str = "0" * 32) -> str:
    """Writes a token store's index; what weights are made from."""
    path.mkdir(parents=True, exist_ok=True)
    entries = [
        CellEntry(name=name, tokens=tokens, documents=max(1, tokens // 500), bytes=3 * tokens, digest=digest)
        for name, tokens in sorted(tokens_by_cell.items())
    ]
    index = TokenIndex(
        begin_token=0,
        end_token=None,
        vocabulary_size=1000,
        tokenizer_digest="0" * 32,
        split="train",
        cells=tuple(entries),
    )
    write_index(str(path / "index.json"), index)
    return str(path)


def write_run(path: Path, loss: float, **described) -> str:
    """Writes what of a run of train/language_model a search reads."""
    path.mkdir(parents=True)
    (path / "run.json").write_text(json.dumps({"seed": 0, "num_steps": 10, **described}))
    sets = {"code": {"loss": loss - 0.5}, "prose": {"loss": loss + 0.5}}
    lines = [{"macro_loss": 9.0}, {"macro_loss": loss, "sets": sets}]
    (path / "evals.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def make_mixture(path: Path, tokens: str, weights: str, **changes) -> str:
    """Lays out stored weights in two phases, as a search does."""
    phases = tuple(
        Phase(rule=StoredWeights(weights=weights, phase=phase), start_fraction=start)
        for phase, start in ((0, 0.0), (1, 0.8))
    )
    arguments = {"block_sequences": 256, "min_sequences": 4, "max_epochs": 8.0, "over_cap": "water_fill", **changes}
    config = WeightsConfig(tokens=tokens, sequence_length=LENGTH, budgets_tokens=(TARGET,), phases=phases, **arguments)
    mixture_weights(config, DirectoryOut(path))
    return str(path)


def shares_of(mixture: str, tokens: str) -> np.ndarray:
    return cell_shares(read_mixture(mixture), read_index(tokens))


def make_swarm(
    path: Path, tokens: str, loss_of: Callable[[np.ndarray, int], float], num_designs: int
) -> tuple[ProxyRun, ...]:
    """Returns runs of designs whose losses are `loss_of(shares, number)`."""
    designs = path / "designs"
    mixture_designs(DesignsConfig(tokens=tokens, num_designs=num_designs), DirectoryOut(designs))
    runs = []
    for number in range(num_designs):
        mixture = make_mixture(path / f"mixture-{number}", tokens, str(designs / design_file(number)))
        run = write_run(path / f"run-{number}", loss_of(shares_of(mixture, tokens), number))
        runs.append(ProxyRun(name=f"design-{number:03d}", mixture=mixture, run=run))
    return tuple(runs)
