import json
import math
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_exec import ConfigError, StepFailed
from steps.mix.mixture import read_mixture
from steps.mix.order import TrainingOrder
from steps.mix.permutation import key_of, mix, permute
from steps.mix.weights import Phase, Proportional, WeightTable
from steps.tokenize.store import read_cell
from tests.steps.mix.token_stores import BEGIN, make_mixture, random_cell, write_store

S = 16
CELLS = {"c00q0": 120, "c00q1": 60, "c01q0": 40, "c01q4": 90, "c02q2": 4, "c03q3": 1}


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> str:
    cells = {name: random_cell(name, count) for name, count in CELLS.items()}
    return write_store(tmp_path_factory.mktemp("tokens"), cells)


@pytest.fixture(scope="module")
def two_phases(store, tmp_path_factory) -> str:
    phases = (Phase(rule=Proportional()), Phase(rule=Proportional(quality_exponent=1.0), start_fraction=0.75))
    return make_mixture(tmp_path_factory.mktemp("two"), store, phases=phases)[0]


def make_order(store: str, mixture: str, **changes) -> TrainingOrder:
    arguments = {"sequence_length": S, "batch_sequences": 8, "num_steps": 100, "seed": 1, **changes}
    return TrainingOrder(tokens=store, mixture=mixture, **arguments)


def run_rows(order: TrainingOrder) -> list[tuple[str, bytes]]:
    """Every row of the run, in order: component and the bytes of its tokens."""
    batches = [order.batch(step) for step in range(order.num_steps)]
    return [(cell, row.tobytes()) for batch in batches for cell, row in zip(batch.cells, batch.tokens, strict=True)]


def sequences_of(store: str, cells: tuple[str, ...]) -> list[bytes]:
    """All sequences of a component by plain slicing: the oracle."""
    tokens = np.concatenate([read_cell(store, cell).tokens for cell in cells])
    return [tokens[i : i + S + 1].tobytes() for i in range(0, len(tokens) - S, S)]


def test_order_any_step_alone_equals_the_straight_run(store, two_phases):
    straight = make_order(store, two_phases)
    batches = [straight.batch(step) for step in range(straight.num_steps)]
    for step in [99, 0, 57, 56, 57]:  # backwards, forwards and twice, each from a fresh order
        alone = make_order(store, two_phases).batch(step)
        assert np.array_equal(alone.tokens, batches[step].tokens)
        assert np.array_equal(alone.segment_ids, batches[step].segment_ids) and alone.cells == batches[step].cells


def test_order_phase_changes_with_the_first_sequence_of_a_step(store, two_phases):
    order = make_order(store, two_phases)
    assert [order.phase(step) for step in range(100)] == [0] * 75 + [1] * 25
    cut_within = make_order(
        store, two_phases, num_steps=10, batch_sequences=7
    )  # 70 sequences: the 52nd begins the second
    assert [cut_within.phase(step) for step in range(10)] == [0] * 8 + [1] * 2


def test_order_in_another_process_with_other_hash_seed_is_the_same(store, two_phases):
    code = (
        "import sys, hashlib; from steps.mix.order import TrainingOrder\n"
        "o = TrainingOrder(tokens=sys.argv[1], mixture=sys.argv[2], sequence_length=16, batch_sequences=8, num_steps=100,"
        " seed=1)\nprint(hashlib.sha256(b''.join(o.batch(s).tokens.tobytes() for s in range(100))).hexdigest())\n"
    )
    root = Path(__file__).parents[3]
    digests = {
        subprocess.run(
            [sys.executable, "-c", code, store, two_phases],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(root), "PATH": ""},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "77")
    }
    assert len(digests) == 1


def test_order_counts_in_each_block_are_those_of_its_phase(store, two_phases):
    mixture = read_mixture(two_phases)
    rows = run_rows(make_order(store, two_phases, num_steps=104))  # 832 sequences: phases of 624 and 208
    blocks = [(start, min(start + 64, 624), 0) for start in range(0, 624, 64)]
    blocks += [(start, min(start + 64, 832), 1) for start in range(624, 832, 64)]
    for start, end, phase in blocks:
        seen = Counter(cell for cell, _ in rows[start:end])
        expected = {each.name: each.counts[phase] * (end - start) / 64 for each in mixture.components}
        assert all(abs(seen[name] - count) < 1 for name, count in expected.items()), (start, seen, expected)
        if end - start == 64:
            assert seen == {name: count for name, count in expected.items() if count}


@given(num_steps=st.integers(4, 120), block=st.sampled_from([32, 64, 100]), fraction=st.floats(0.2, 0.9))
@settings(max_examples=15)
def test_order_draws_exactly_the_exposures_that_the_mixture_states(store, tmp_path_factory, num_steps, block, fraction):
    """Shown epochs were those of an ideal run once: phases began at whole blocks, and draws depended on the seed."""
    phases = (Phase(rule=Proportional()), Phase(rule=Proportional(quality_exponent=2.0), start_fraction=fraction))
    budgets = (num_steps * 8 * S, 120 * 8 * S)
    path, result = make_mixture(
        tmp_path_factory.mktemp("exposures"), store, block_sequences=block, phases=phases, budgets_tokens=budgets
    )
    order = make_order(store, path, num_steps=num_steps, seed=num_steps)
    for each in order.mixture.components:
        assert order.draws()[each.name] == pytest.approx(each.exposures[0] * each.sequences)
    longest = make_order(store, path, num_steps=120)
    shown = {each.name: longest.draws()[each.name] / each.sequences for each in order.mixture.components}
    assert result.exposure_by_component == pytest.approx(shown)


def test_order_phase_begins_at_its_fraction_to_the_sequence(store, tmp_path):
    """With phases that only change at block ends, a ladder's small rungs had another share of the last phase."""
    tables = [WeightTable(weights={**dict.fromkeys(CELLS, 0.0), name: 1.0}) for name in ("c00q0", "c01q4")]
    phases = (Phase(rule=tables[0]), Phase(rule=tables[1], start_fraction=0.8))
    mixture, _ = make_mixture(tmp_path, store, phases=phases)
    for num_steps in (11, 25, 100):
        cells = [cell for cell, _ in run_rows(make_order(store, mixture, num_steps=num_steps))]
        first = round(0.8 * num_steps * 8)
        assert cells == ["c00q0"] * first + ["c01q4"] * (num_steps * 8 - first)


def test_order_rows_are_the_component_s_own_sequences(store, two_phases):
    mixture = read_mixture(two_phases)
    allowed = {each.name: set(sequences_of(store, each.cells)) for each in mixture.components}
    rows = run_rows(make_order(store, two_phases))
    assert all(row in allowed[cell] for cell, row in rows)
    assert {cell for cell, _ in rows} == {each.name for each in mixture.components if any(each.counts)}


def test_order_each_epoch_shows_every_sequence_once_in_another_order(store, tmp_path):
    """Bug of its kind: a loader whose workers kept a stale copy gave the same samples in the same order every epoch."""
    mixture, _ = make_mixture(tmp_path, store, budgets_tokens=(40_000,))
    rows = run_rows(make_order(store, mixture, num_steps=300))
    for component in read_mixture(mixture).components:
        drawn = [row for cell, row in rows if cell == component.name]
        size = component.sequences
        expected = Counter(sequences_of(store, component.cells))
        epochs = [drawn[i : i + size] for i in range(0, len(drawn) - size + 1, size)]
        assert len(epochs) >= 2
        assert all(Counter(epoch) == expected for epoch in epochs)
        if size > 20:
            assert all(a != b for i, a in enumerate(epochs) for b in epochs[:i])


@given(seed=st.integers(-(2**40), 2**40), batch=st.integers(1, 70), block=st.sampled_from([32, 64, 100]))
@settings(max_examples=10)
def test_order_draws_equal_what_the_batches_hold(store, tmp_path_factory, seed, batch, block):
    mixture, _ = make_mixture(tmp_path_factory.mktemp("draws"), store, block_sequences=block)
    order = make_order(store, mixture, seed=seed, batch_sequences=batch, num_steps=15)
    counted = Counter(cell for step in range(15) for cell in order.batch(step).cells)
    assert {name: count for name, count in order.draws().items() if count} == counted


def test_order_seed_changes_the_order_and_nothing_else(store, tmp_path):
    mixture, _ = make_mixture(tmp_path, store)
    one, two = make_order(store, mixture), make_order(store, mixture, seed=2)
    assert run_rows(one) != run_rows(two)
    assert make_order(store, mixture, num_steps=96).draws() == make_order(store, mixture, num_steps=96, seed=2).draws()


def test_order_one_more_cell_leaves_the_others_order_alone(store, tmp_path):
    """Keys by position in a list would reshuffle every cell after a new one."""
    cells = {name: random_cell(name, count) for name, count in CELLS.items()}
    larger = write_store(tmp_path / "larger", {"a-new-one": random_cell("a-new-one", 50), **cells})
    first, second = (
        [row for cell, row in run_rows(make_order(path, make_mixture(tmp_path / name, path)[0])) if cell == "c00q0"]
        for name, path in (("m1", store), ("m2", larger))
    )
    shortest = min(len(first), len(second))
    assert shortest > 200 and first[:shortest] == second[:shortest]


def test_documents_name_exactly_what_each_row_holds(store, two_phases):
    order = make_order(store, two_phases)
    mixture = {each.name: each.cells for each in order.mixture.components}
    for step in (0, 50, 99):
        batch, documents = order.batch(step), order.documents(step)
        for row, cell, ids, segments in zip(batch.tokens, batch.cells, documents, batch.segment_ids, strict=True):
            parts = {}
            for name in mixture[cell]:
                found = read_cell(store, name)
                parts.update(
                    {
                        identifier: found.tokens[found.offsets[i] : found.offsets[i + 1]].tolist()
                        for i, identifier in enumerate(found.document_ids)
                    }
                )
            assert len(ids) == segments[-1] + 1 and segments[0] == 0
            for number, identifier in enumerate(ids):
                piece = row[segments == number].tolist()
                whole = parts[identifier]
                if 0 < number < len(ids) - 1:
                    assert piece == whole
                elif number == 0:
                    assert piece == whole[-len(piece) :] or str(piece)[1:-1] in str(whole)
                else:
                    assert piece == whole[: len(piece)]
                assert all(token != BEGIN for token in piece[1:])


def test_order_another_token_store_is_refused(store, two_phases, tmp_path):
    """Weights of one store say nothing about the cells of another, even where the names are the same."""
    other = write_store(tmp_path, {name: random_cell(name, count, seed=9) for name, count in CELLS.items()})
    with pytest.raises(StepFailed, match="made for the token store"):
        make_order(other, two_phases)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sequence_length": 32}, "was made for 16"),
        ({"num_steps": 1000}, "capped for at most 20000"),
        ({"batch_sequences": 0}, "at least 1"),
        ({"simulated_budget_tokens": 12_800}, "Leave it None for the real run"),  # exactly the run's own size
        ({"simulated_budget_tokens": 5_000}, "Leave it None for the real run"),
        ({"simulated_budget_tokens": 30_000}, "capped for at most 20000"),
        ({"subset_seed": 3}, "nothing is cut"),
        ({"num_steps": 1, "batch_sequences": 1}, "a phase would have none"),
    ],
)
def test_order_sizes_that_do_not_fit_are_refused(store, two_phases, changes, message):
    with pytest.raises(ConfigError, match=message):
        make_order(store, two_phases, **changes)


def test_order_step_outside_the_run_is_refused(store, two_phases):
    for step in (-1, 100):
        with pytest.raises(IndexError):
            make_order(store, two_phases).batch(step)


def test_order_simulated_budget_repeats_as_the_larger_run_would(store, tmp_path):
    mixture, _ = make_mixture(tmp_path, store)
    order = make_order(store, mixture, num_steps=25, simulated_budget_tokens=12_800)  # four times the run
    rows = run_rows(order)
    for component in read_mixture(mixture).components:
        drawn = Counter(row for cell, row in rows if cell == component.name)
        usable = max(1, int(component.sequences * 0.25))
        assert len(drawn) == min(usable, drawn.total())
        assert max(drawn.values()) - min(drawn.values()) <= 1
        assert set(drawn) <= set(sequences_of(store, component.cells))
    first = [row for cell, row in rows if cell == "c00q0"]
    everything = sequences_of(store, ("c00q0",))
    places = sorted(everything.index(row) for row in set(first))
    assert places[-1] > 0.7 * len(everything)  # a random slice, not the head of the cell


def test_order_simulated_budget_shows_as_many_epochs_as_the_run_it_stands_for(store, tmp_path):
    mixture, _ = make_mixture(tmp_path, store)
    small = make_order(store, mixture, num_steps=25, simulated_budget_tokens=12_800)
    large = make_order(store, mixture)
    for component in read_mixture(mixture).components:
        seen = {row for cell, row in run_rows(small) if cell == component.name}
        whole = {row for cell, row in run_rows(large) if cell == component.name}
        small_epochs = small.draws()[component.name] / (component.sequences // 4)
        large_epochs = large.draws()[component.name] / component.sequences
        assert small_epochs == pytest.approx(large_epochs, rel=0.2)
        assert len(seen) <= component.sequences // 4 < len(whole)


def test_order_subset_seed_alone_chooses_what_is_left(store, tmp_path):
    """Runs that are compared see the same data if they have one subset seed, whatever their own seeds."""
    mixture, _ = make_mixture(tmp_path, store)

    def rows(**changes):
        order = make_order(store, mixture, num_steps=50, simulated_budget_tokens=20_000, **changes)
        return [row for cell, row in run_rows(order) if cell == "c00q0"]

    one, other_seed, other_subset = rows(subset_seed=3), rows(subset_seed=3, seed=2), rows(subset_seed=4)
    assert one != other_seed and set(one) == set(other_seed)
    assert len(set(one) & set(other_subset)) < 0.9 * len(set(one))
    assert set(rows()) == set(rows(subset_seed=1))  # its own seed is 1


def sequential_reference(store: str, path: str, num_steps: int, batch: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """The order as a loop that keeps counters: blocks one after the other, a shuffled list for every epoch."""
    mixture, total = read_mixture(path), num_steps * batch
    bounds = [*(round(start * total) for start in mixture.phase_starts), total]
    sequences = {each.name: sequences_of(store, each.cells) for each in mixture.components}
    drawn, shuffled, block = Counter(), {}, 0
    for phase, (place, end) in enumerate(pairwise(bounds)):
        while place < end:
            size = min(end - place, mixture.block_sequences)
            shares = {
                each.name: Fraction(each.counts[phase] * size, mixture.block_sequences) for each in mixture.components
            }
            counts = {name: math.floor(share) for name, share in shares.items()}
            allowed = [name for name in shares if shares[name] and name not in mixture.rounded_down]
            by_remainder = sorted(allowed, key=lambda name: counts[name] - shares[name])
            for turn in range(size - sum(counts.values())):
                counts[by_remainder[turn % len(by_remainder)]] += 1
            labels = [name for name, count in counts.items() for _ in range(count)]
            for slot in shuffle(size, key_of(seed, "block", block)):
                name = labels[slot]
                epoch, position = divmod(drawn[name], len(sequences[name]))
                if position == 0:
                    key = np.array([key_of(seed, "component", name)], np.uint64) ^ mix(np.array([epoch], np.uint64))
                    shuffled[name] = shuffle(len(sequences[name]), int(mix(key)[0]))
                yield name, sequences[name][shuffled[name][position]]
                drawn[name] += 1
            place, block = place + size, block + 1


def shuffle(size: int, key: int) -> list[int]:
    return permute(np.arange(size), np.full(size, size), np.full(size, key, np.uint64)).tolist()


@given(
    seed=st.integers(0, 2**40),
    batch=st.integers(1, 40),
    num_steps=st.integers(8, 30),
    block=st.sampled_from([7, 32, 64]),
    fraction=st.floats(0.2, 0.9),
)
@settings(max_examples=12)
def test_order_equals_a_plain_loop_that_keeps_counters(
    store, tmp_path_factory, seed, batch, num_steps, block, fraction
):
    phases = (Phase(rule=Proportional()), Phase(rule=Proportional(quality_exponent=2.0), start_fraction=fraction))
    path, _ = make_mixture(
        tmp_path_factory.mktemp("reference"), store, block_sequences=block, phases=phases, min_sequences=1
    )
    order = make_order(store, path, seed=seed, batch_sequences=batch, num_steps=num_steps)
    assert run_rows(order) == list(sequential_reference(store, path, num_steps, batch, seed))


def test_order_weight_table_decides_what_is_seen(store, tmp_path):
    table = WeightTable(weights={**dict.fromkeys(CELLS, 0.0), "c01q4": 3.0, "c00q1": 1.0})
    mixture, _ = make_mixture(tmp_path, store, phases=(Phase(rule=table),))
    assert make_order(store, mixture, num_steps=8).draws() == {
        **dict.fromkeys(CELLS, 0),
        "c01q4": 48,
        "c00q1": 16,
    }


def test_order_batch_of_32_by_129_is_fast(tmp_path):
    cells = {f"c{i:02d}q{i % 5}": random_cell(f"c{i:02d}q{i % 5}", 200, longest=900) for i in range(40)}
    tokens = write_store(tmp_path / "t", cells)
    mixture, _ = make_mixture(
        tmp_path / "m", tokens, sequence_length=128, budgets_tokens=(2_000_000,), block_sequences=1024
    )
    order = TrainingOrder(
        tokens=tokens, mixture=mixture, sequence_length=128, batch_sequences=32, num_steps=400, seed=0
    )
    for step in range(40):  # reads every cell once
        order.batch(step)
    times = []
    for step in range(40, 240):
        start = time.process_time()
        order.batch(step)
        times.append(time.process_time() - start)
    print(f"batch of 32 x 129: mean {np.mean(times) * 1e3:.2f} ms, block changes included")
    assert np.mean(times) < 0.002


def test_mixture_file_with_counts_changed_by_hand_is_refused(store, tmp_path):
    mixture, _ = make_mixture(tmp_path, store)
    file = tmp_path / "mixture.json"
    body = json.loads(file.read_text())
    body["components"][0]["counts"][0] += 1
    file.write_text(json.dumps(body))
    with pytest.raises(StepFailed, match="65 sequences a block where 64"):
        make_order(store, mixture)
