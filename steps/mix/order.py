"""The order in which training sees its sequences: a pure function of (token store, mixture, sizes, seed).

Each phase of a run is cut into mixture blocks of N sequences, the last one shorter (steps/mix/blocks.py). Each block
holds a fixed number of sequences of each component (a cell, or the tail of small cells), given by its phase, in an order
shuffled for that block. The k-th sequence that a component gives is number k mod n under a permutation drawn for epoch k
div n, so every epoch shows each of the n sequences once, in another order. Nothing is carried from step to step: any
batch can be had at any time, resuming is asking for the next step, and `documents(step)` says what a step saw years
later. Keys are derived from names, so that one more cell changes no other's order.

A component's documents lie one after the other; sequence s is tokens[s * S : s * S + S + 1], so that each token but
the first is a target once an epoch. What is left at the end, fewer than S + 1 tokens, is not used.
"""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from marin_exec import ConfigError, StepFailed
from steps.mix.blocks import phase_lengths
from steps.mix.mixture import Mixture, blocks_of, read_mixture
from steps.mix.permutation import key_of, mix, permute
from steps.mix.simulated_epochs import check_simulated_epochs, simulated_sizes
from steps.tokenize.store import TokenIndex, read_cell, read_documents, read_index

_BLOCKS_KEPT = 4
_BUDGET_SLACK = 1.01  # whole steps round a budget up a little


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """One training batch of B sequences: inputs are tokens[:, :-1], targets tokens[:, 1:]."""

    tokens: np.ndarray
    """int32[B, S + 1]."""
    segment_ids: np.ndarray
    """int32[B, S + 1]: 0 for the first document in the row, 1 for the second, ...; attention stays within a segment."""
    cells: list[str]
    """B names of components, as in the mixture."""


@dataclass(frozen=True, eq=False)
class _Component:
    """The documents of one component, its cells one after the other; tokens are read when first needed."""

    name: str
    key: int
    offsets: np.ndarray
    document_ids: list[str]
    num_sequences: int


class TrainingOrder:
    """Random access to the batches of a run.

    Args:
        tokens: token store (output of tokenize/cache).
        mixture: output of mix/weights for that store.
        sequence_length: S, in tokens; the one that the mixture was made for.
        batch_sequences: B.
        num_steps: length of the run; phases change at fractions of it.
        seed: any integer.
        simulated_budget_tokens: simulated epoching, for a small run that stands for a larger one: of each component only
            floor(sequences * run / budget), at least 1, are used, so that it repeats data as often as the larger run would.
        subset_seed: which sequences those are; None goes by `seed`. Runs of one subset seed see the same ones.

    Raises:
        ConfigError: sizes do not fit the mixture, the run is longer than the budgets that its caps were checked for, or
            a simulated budget is not larger than the run itself, or larger than those budgets, or a subset seed has no
            simulated budget.
        StepFailed: the mixture was made for another token store.
    """

    def __init__(
        self,
        *,
        tokens: str,
        mixture: str,
        sequence_length: int,
        batch_sequences: int,
        num_steps: int,
        seed: int,
        simulated_budget_tokens: int | None = None,
        subset_seed: int | None = None,
    ):
        self.mixture: Mixture = read_mixture(mixture)
        self.index: TokenIndex = read_index(tokens)
        self.sequence_length, self.batch_sequences, self.num_steps = sequence_length, batch_sequences, num_steps
        self._path, self._seed = tokens, seed
        self._check(mixture)
        self._check_simulation(mixture, simulated_budget_tokens, subset_seed)
        self._components = [self._component(each.name, each.cells) for each in self.mixture.components]
        self._all_sizes = np.array([each.num_sequences for each in self._components], dtype=np.int64)
        self._sizes, self._subset_keys = self._all_sizes, None
        if simulated_budget_tokens is not None:
            self._sizes = simulated_sizes(self._all_sizes, self.run_tokens, simulated_budget_tokens)
            chosen = seed if subset_seed is None else subset_seed
            keys = [key_of(chosen, "subset", each.name) for each in self._components]
            self._subset_keys = np.array(keys, dtype=np.uint64)
        self._keys = np.array([each.key for each in self._components], dtype=np.uint64)
        self._run = blocks_of(self.mixture, num_steps * batch_sequences)
        unusable = (self._sizes == 0) & np.array([any(each.counts) for each in self.mixture.components])
        if unusable.any():
            raise StepFailed(
                f"{tokens}: {[self._components[i].name for i in np.flatnonzero(unusable)]} have weight, but not one "
                f"sequence of {sequence_length + 1} tokens; raise min_sequences in mix/weights"
            )
        self._loaded: dict[int, np.ndarray] = {}
        self._blocks: OrderedDict[int, tuple[np.ndarray, np.ndarray]] = OrderedDict()

    @property
    def run_tokens(self) -> int:
        """Tokens that the run trains on: steps x sequences x length."""
        return self.num_steps * self.batch_sequences * self.sequence_length

    def batch(self, step: int, rows: slice = slice(None)) -> TokenBatch:
        """Returns the batch of a step (0 .. num_steps - 1), or some of its rows. Raises IndexError outside."""
        components, sequences = (each[rows] for each in self._rows(step))
        length = self.sequence_length + 1
        tokens = np.empty((len(components), length), dtype=np.int32)
        segments = np.empty((len(components), length), dtype=np.int32)
        for row, (component, sequence) in enumerate(zip(components.tolist(), sequences.tolist(), strict=True)):
            start = sequence * self.sequence_length
            tokens[row] = self._tokens(component)[start : start + length]
            segments[row] = _segments(self._components[component].offsets, start, length)
        return TokenBatch(tokens, segments, [self._components[i].name for i in components])

    def documents(self, step: int) -> list[list[str]]:
        """Returns, for each sequence of a step's batch, the ids of its documents in order. Reads no tokens."""
        components, sequences = self._rows(step)
        rows = []
        for component, sequence in zip(components.tolist(), sequences.tolist(), strict=True):
            offsets, start = self._components[component].offsets, sequence * self.sequence_length
            first, last = np.searchsorted(offsets, [start, start + self.sequence_length], side="right") - 1
            rows.append(self._components[component].document_ids[first : last + 1])
        return rows

    def phase(self, step: int) -> int:
        """Returns the number of the mixture's phase, from 0, that the first sequence of a step's batch belongs to."""
        lengths = phase_lengths(self.mixture.phase_starts, self.num_steps * self.batch_sequences)
        return int(np.searchsorted(np.cumsum(lengths), step * self.batch_sequences, side="right"))

    def draws(self) -> dict[str, int]:
        """Returns how many sequences the whole run takes of each component, by name."""
        return {each.name: int(count) for each, count in zip(self._components, self._run.draws, strict=True)}

    def _check(self, mixture: str) -> None:
        found = self.mixture
        if found.token_store != self.index.fingerprint:
            raise StepFailed(
                f"{mixture}: made for the token store {found.token_store[:16]}, but {self._path} is "
                f"{self.index.fingerprint[:16]}; its weights say nothing about its cells. Run mix/weights on it"
            )
        if found.sequence_length != self.sequence_length:
            raise ConfigError(
                f"sequence_length is {self.sequence_length}; the mixture {mixture} was made for {found.sequence_length}"
            )
        if self.batch_sequences < 1 or self.num_steps < 1:
            raise ConfigError(
                f"batch_sequences {self.batch_sequences}, num_steps {self.num_steps}: at least 1 is needed"
            )
        if self.run_tokens > max(found.budgets_tokens) * _BUDGET_SLACK:
            raise ConfigError(
                f"the run takes {self.run_tokens} tokens; the mixture's epochs were capped for at most "
                f"{max(found.budgets_tokens)}. Add the run's budget to budgets_tokens in mix/weights"
            )

    def _check_simulation(self, mixture: str, budget: int | None, subset_seed: int | None) -> None:
        check_simulated_epochs(self.run_tokens, budget, subset_seed)
        if budget is not None and budget > max(self.mixture.budgets_tokens) * _BUDGET_SLACK:
            raise ConfigError(
                f"simulated_budget_tokens is {budget}; the epochs of the mixture {mixture} were capped for at most "
                f"{max(self.mixture.budgets_tokens)}. Add the budget of the run that is simulated to budgets_tokens in "
                f"mix/weights"
            )

    def _component(self, name: str, cells: tuple[str, ...]) -> _Component:
        lengths, ids = [], []
        for cell in cells:
            table = read_documents(self._path, cell)
            lengths.append(table["num_tokens"].to_numpy())
            ids.extend(table["id"].to_pylist())
        offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
        num_sequences = max(0, int(offsets[-1]) - 1) // self.sequence_length
        return _Component(name, key_of(self._seed, "component", name), offsets, ids, num_sequences)

    def _tokens(self, component: int) -> np.ndarray:
        if component not in self._loaded:
            cells = [read_cell(self._path, cell, self.index) for cell in self.mixture.components[component].cells]
            self._loaded[component] = np.concatenate([cell.tokens for cell in cells])
        return self._loaded[component]

    def _rows(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Component and sequence number, int64[B] each, of a step's rows."""
        if not 0 <= step < self.num_steps:
            raise IndexError(f"step {step} of a run of {self.num_steps} steps; 0 .. {self.num_steps - 1} are allowed")
        place, end = step * self.batch_sequences, (step + 1) * self.batch_sequences
        parts = []
        while place < end:
            stretch = self._run.of_place(place)
            block, first = divmod(place - stretch.start, stretch.size)
            taken = min(end - place, stretch.size - first)
            parts.append([each[first : first + taken] for each in self._block(stretch.first_block + block)])
            place += taken
        components, sequences = zip(*parts, strict=True)
        return np.concatenate(components), np.concatenate(sequences)

    def _block(self, block: int) -> tuple[np.ndarray, np.ndarray]:
        """Component and sequence number, int64[size] each, of a block's places in order."""
        if block in self._blocks:
            self._blocks.move_to_end(block)
            return self._blocks[block]
        stretch = self._run.of_block(block)
        size, counts = stretch.size, stretch.counts
        key = np.full(size, key_of(self._seed, "block", block), dtype=np.uint64)
        slots = permute(np.arange(size), np.full(size, size), key)
        ends = np.cumsum(counts)
        components = np.searchsorted(ends, slots, side="right")
        by_component = np.argsort(components, kind="stable")
        earlier = np.empty(size, dtype=np.int64)  # of the same component in this block, in order of place
        earlier[by_component] = np.arange(size) - (ends - counts)[components[by_component]]
        before = stretch.drawn_before + (block - stretch.first_block) * counts
        drawn = before[components] + earlier
        sizes = self._sizes[components]
        epochs, places = np.divmod(drawn, sizes)
        keys = self._keys[components]
        shuffled = permute(places, sizes, mix(keys ^ mix(epochs.astype(np.uint64))))
        if self._subset_keys is not None:  # a random subset, the same in every epoch
            shuffled = permute(shuffled, self._all_sizes[components], self._subset_keys[components])
        self._blocks[block] = (components, shuffled)
        if len(self._blocks) > _BLOCKS_KEPT:
            self._blocks.popitem(last=False)
        return self._blocks[block]


def _segments(offsets: np.ndarray, start: int, length: int) -> np.ndarray:
    """int32[length]: number of the document, counted from the row's first, of each token from `start` on."""
    first, last = np.searchsorted(offsets, [start, start + length - 1], side="right") - 1
    bounds = np.concatenate([[start], offsets[first + 1 : last + 1], [start + length]])
    return np.repeat(np.arange(last - first + 1, dtype=np.int32), np.diff(bounds))
