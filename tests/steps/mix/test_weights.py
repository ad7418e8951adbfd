import json

import numpy as np
import pytest

from marin_exec import ConfigError, StepFailed
from steps.mix.layout import Layout, lay_out
from steps.mix.mixture import read_mixture
from steps.mix.weights import Phase, Proportional, StoredWeights, WeightTable, phase_weights
from steps.mix.weights_file import cell_weights, write_weights
from steps.tokenize.store import CellEntry, TokenIndex, read_index
from tests.steps.mix.token_stores import make_mixture, random_cell, write_store

CELLS = {"c00q0": 200, "c00q4": 100, "c01q1": 50, "c01q2": 3, "c02q0": 2}


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> str:
    return write_store(
        tmp_path_factory.mktemp("tokens"), {name: random_cell(name, count) for name, count in CELLS.items()}
    )


def weights_of(path: str, phase: int = 0) -> dict[str, float]:
    return {each.name: each.weights[phase] for each in read_mixture(path).components}


def test_weights_proportional_follow_the_tokens(store, tmp_path):
    path, result = make_mixture(tmp_path, store, min_sequences=1, block_sequences=4096)
    tokens = {cell.name: cell.tokens for cell in read_index(store).cells}
    assert weights_of(path) == pytest.approx({name: count / sum(tokens.values()) for name, count in tokens.items()})
    assert result.tail_cells == 0 and result.components == 5
    for each in read_mixture(path).components:  # a share of the run's 1,250 sequences as of the tokens
        assert abs(each.exposures[0] * each.sequences - 1_250 * each.weights[0]) < 1


def test_weights_quality_exponent_favours_better_buckets(store, tmp_path):
    plain, _ = make_mixture(tmp_path / "a", store, min_sequences=1)
    rule = Proportional(quality_exponent=1.0)
    better, _ = make_mixture(tmp_path / "b", store, min_sequences=1, phases=(Phase(rule=rule),))
    ratio = {name: weights_of(better)[name] / weights_of(plain)[name] for name in ("c00q0", "c00q4", "c01q1")}
    assert ratio["c00q4"] / ratio["c00q0"] == pytest.approx(5)
    assert ratio["c01q1"] / ratio["c00q0"] == pytest.approx(2)


def test_weights_cells_too_small_join_the_tail(store, tmp_path):
    path, result = make_mixture(tmp_path, store, min_sequences=16)
    mixture = read_mixture(path)
    assert [each.name for each in mixture.components] == ["c00q0", "c00q4", "c01q1", "tail"]
    assert mixture.components[-1].cells == ("c01q2", "c02q0") and result.tail_cells == 2
    tokens = {cell.name: cell.tokens for cell in read_index(store).cells}
    assert mixture.components[-1].tokens == tokens["c01q2"] + tokens["c02q0"]
    assert mixture.components[-1].weights[0] == pytest.approx(mixture.components[-1].tokens / sum(tokens.values()))


def test_weights_less_than_one_sequence_a_block_joins_the_tail(store, tmp_path):
    path, _ = make_mixture(tmp_path, store, min_sequences=1, block_sequences=64)
    small = {cell.name for cell in read_index(store).cells if cell.tokens * 64 < read_total(store)}
    assert set(read_mixture(path).components[-1].cells) == small and small


def read_total(store: str) -> int:
    return sum(cell.tokens for cell in read_index(store).cells)


def test_weights_table_must_name_exactly_the_store_s_cells(store, tmp_path):
    """Weights that are found by position, or skipped where a name is gone, are stranded when cells change."""
    table = {**dict.fromkeys(CELLS, 1.0), "c77q0": 1.0}
    del table["c01q1"]
    with pytest.raises(ConfigError, match=r"lacks cells \['c01q1'\] and names cells \['c77q0'\]"):
        make_mixture(tmp_path, store, phases=(Phase(rule=WeightTable(weights=table)),))


def test_weights_table_for_a_store_of_the_same_names_is_refused(store, tmp_path):
    """Topics and buckets that are made anew have the old names: weights for the old ones say nothing about them."""
    other = write_store(tmp_path / "other", {name: random_cell(name, count, seed=3) for name, count in CELLS.items()})
    table = WeightTable(weights=dict.fromkeys(CELLS, 1.0), token_store=read_index(store).fingerprint)
    make_mixture(tmp_path / "a", store, phases=(Phase(rule=table),))
    with pytest.raises(ConfigError, match=r"WeightTable\.token_store"):
        make_mixture(tmp_path / "b", other, phases=(Phase(rule=table),))


def test_stored_weights_are_those_of_their_phase_and_of_one_store(store, tmp_path):
    index = read_index(store)
    table = np.array([[0.5, 0.2, 0.3, 0, 0], [0.1, 0.6, 0.3, 0, 0]])
    write_weights(str(tmp_path / "weights.json"), cell_weights(index, (0.0, 0.8), table))
    rules = [StoredWeights(weights=str(tmp_path / "weights.json"), phase=phase) for phase in range(3)]
    phases = (Phase(rule=rules[0]), Phase(rule=rules[1], start_fraction=0.8))
    path, _ = make_mixture(tmp_path / "a", store, phases=phases)
    for phase in (0, 1):
        assert list(weights_of(path, phase).values()) == pytest.approx(table[phase])
    with pytest.raises(ConfigError, match=r"StoredWeights\.phase: 2; .* has phases 0 to 1"):
        make_mixture(tmp_path / "b", store, phases=(Phase(rule=rules[2]),))
    other = write_store(tmp_path / "other", {name: random_cell(name, count, seed=3) for name, count in CELLS.items()})
    with pytest.raises(StepFailed, match="weights for the token store"):
        make_mixture(tmp_path / "c", other, phases=phases)
    missing = StoredWeights(weights=str(tmp_path / "nowhere.json"))
    with pytest.raises(StepFailed, match=r"nowhere\.json: not there"):
        make_mixture(tmp_path / "d", store, phases=(Phase(rule=missing),))


def test_lay_out_two_hundred_cells_of_trillions_of_tokens():
    """The size of Marin's hero run: 40 topics x 5 qualities, 23.1 T tokens, 15 T and 3.75 T, at most 8 epochs."""
    random = np.random.default_rng(0)
    names = [f"c{topic:02d}q{bucket}" for topic in range(40) for bucket in range(5)]
    available = (random.dirichlet(np.full(200, 0.6)) * 23_106_103_007_622).astype(np.int64)
    cells = tuple(
        CellEntry(name=name, tokens=int(tokens), documents=1, bytes=1, digest="0")
        for name, tokens in zip(names, available, strict=True)
    )
    index = TokenIndex(
        begin_token=0, end_token=None, vocabulary_size=128_256, tokenizer_digest="", split="train", cells=cells
    )
    budgets, block, length = (15e12, 3.75e12), 49_152, 4096
    layout = Layout(
        sequence_length=length, budgets_tokens=(int(sum(budgets)),), phase_starts=(0.0, 0.8), block_sequences=block,
        min_sequences=16, max_epochs=8.0, over_cap="water_fill",
    )  # fmt: skip
    raw = np.stack([(available / available.sum()) ** power for power in (0.7, 0.3)])
    raw /= raw.sum(axis=1, keepdims=True)
    mixture = lay_out(layout, index, raw)
    assert mixture.capped  # small cells at power 0.3 would be seen too often
    counts = np.array([each.counts for each in mixture.components])
    assert counts.sum(axis=0).tolist() == [block, block]
    for each, count in zip(mixture.components, counts, strict=True):
        epochs = sum(budget * share / block for budget, share in zip(budgets, count, strict=True)) / each.tokens
        assert epochs <= 8 + 1e-6 and each.exposures[0] == pytest.approx(epochs, rel=1e-4, abs=1e-6)
    assert sorted(cell for each in mixture.components for cell in each.cells) == names
    zero = {each.name for each, count in zip(mixture.components, counts, strict=True) if not count.all()}
    assert zero == set(mixture.rounded_to_zero)
    within = np.abs(counts / block - np.array([each.weights for each in mixture.components]))
    assert within.max() <= 1.5 / block


def test_weights_name_what_gets_no_sequence_in_a_block(store, tmp_path):
    """A weight below the lattice is 0 in fact; who asked for it is told."""
    table = {**dict.fromkeys(CELLS, 0.0), "c00q0": 1.0, "c00q4": 1.0, "c01q2": 1e-4}
    path, result = make_mixture(tmp_path, store, phases=(Phase(rule=WeightTable(weights=table)),))
    mixture = read_mixture(path)
    assert mixture.components[-1].cells == ("c01q2",) and mixture.components[-1].counts == (0,)
    assert result.rounded_to_zero == ["tail"]


def store_of(**tokens: int) -> TokenIndex:
    cells = tuple(
        CellEntry(name=name, tokens=count, documents=1, bytes=9, digest=name) for name, count in tokens.items()
    )
    return TokenIndex(
        begin_token=0, end_token=None, vocabulary_size=9, tokenizer_digest="0", split="train", cells=cells
    )


LAYOUT = Layout(
    sequence_length=32, budgets_tokens=(64_000,), phase_starts=(0.0, 0.8), block_sequences=64, min_sequences=4,
    max_epochs=8.0, over_cap="error",
)  # fmt: skip


@pytest.mark.parametrize("crumbs", [{"c09q0": 1}, {"c09q0": 32}, {"c08q1": 1, "c09q0": 2, "c09q4": 20}])
def test_lay_out_cells_without_one_whole_sequence_get_none_and_are_named(crumbs):
    """One document in a cell of its own must not stop a mixture of 200 others."""
    index = store_of(c00q0=20_000, c01q0=30_000, **crumbs)
    mixture = lay_out(LAYOUT, index, np.stack([phase_weights(Proportional(), index)] * 2))
    assert mixture.rounded_to_zero == ("tail",)
    assert mixture.components[-1].counts == (0, 0) == mixture.components[-1].exposures[:1] * 2
    assert np.sum([each.weights for each in mixture.components], axis=0) == pytest.approx([1, 1])
    without = lay_out(LAYOUT, store_of(c00q0=20_000, c01q0=30_000), np.array([[0.4, 0.6]] * 2))
    assert [each.counts for each in mixture.components[:2]] == [each.counts for each in without.components]


def test_lay_out_weight_that_nothing_can_give_is_refused():
    with pytest.raises(ConfigError, match=r"tail has weight but not one whole sequence; .* give its cells no weight"):
        lay_out(LAYOUT, store_of(c00q0=20_000, c01q0=9), np.array([[0.9, 0.1]] * 2))


def test_lay_out_cell_called_as_the_tail_is_refused_where_there_is_one():
    weights = np.array([[0.5, 0.49, 0.01]] * 2)
    with pytest.raises(ConfigError, match="a cell is called 'tail'"):
        lay_out(LAYOUT, store_of(code=20_000, tail=20_000, small=100), weights)
    assert len(lay_out(LAYOUT, store_of(code=20_000, tail=20_000), weights[:, :2] / 0.99).components) == 2


def test_weights_whose_sum_is_no_number_are_refused():
    with pytest.raises(ConfigError, match="weights must be finite"):
        phase_weights(WeightTable(weights={"a": 1e308, "b": 1e308}), store_of(a=10, b=10))


@pytest.mark.parametrize("block", [0, 65_536])
def test_weights_block_outside_what_positions_in_it_can_count_is_refused(store, tmp_path, block):
    with pytest.raises(ConfigError, match="block_sequences"):
        make_mixture(tmp_path, store, block_sequences=block)


def test_weights_table_zero_leaves_a_cell_out(store, tmp_path):
    table = {**dict.fromkeys(CELLS, 0.0), "c00q0": 1.0, "c00q4": 1.0}
    path, result = make_mixture(tmp_path, store, phases=(Phase(rule=WeightTable(weights=table)),))
    assert sorted(result.unused_cells) == ["c01q1", "c01q2", "c02q0"]
    assert {each.name: each.counts for each in read_mixture(path).components if any(each.counts)} == {
        "c00q0": (32,),
        "c00q4": (32,),
    }


def test_weights_exposure_is_sequences_drawn_over_sequences_there(store, tmp_path):
    phases = (
        Phase(rule=Proportional()),
        Phase(rule=Proportional(size_exponent=0.5, quality_exponent=2.0), start_fraction=0.8),
    )
    path, result = make_mixture(tmp_path, store, phases=phases, budgets_tokens=(5_000, 20_000))
    mixture = read_mixture(path)
    for each in mixture.components:
        share = (0.8 * each.counts[0] + 0.2 * each.counts[1]) / 64
        for run, found in zip((5_000 // 16, 20_000 // 16), each.exposures, strict=True):
            drawn = found * each.sequences
            assert drawn == pytest.approx(round(drawn))  # whole sequences
            assert abs(drawn - run * share) < 2  # each phase's last block rounds once
        assert result.exposure_by_component[each.name] == each.exposures[1]
    assert result.largest_exposure == pytest.approx(max(result.exposure_by_component.values()))


def test_weights_cap_is_kept_for_the_largest_budget(store, tmp_path):
    rule = Phase(rule=Proportional(size_exponent=0.0))
    arguments = {"phases": (rule,), "max_epochs": 2.0, "budgets_tokens": (1_000, 12_000), "block_sequences": 512}
    with pytest.raises(ConfigError, match="above max_epochs 2 at 12000 tokens"):
        make_mixture(tmp_path / "error", store, **arguments)
    path, result = make_mixture(tmp_path / "fill", store, over_cap="water_fill", **arguments)
    assert result.capped and result.largest_exposure <= 2.0 + 1e-9
    assert sum(each.counts[0] for each in read_mixture(path).components) == 512


def test_weights_carry_the_fingerprint_of_their_store(store, tmp_path):
    path, _ = make_mixture(tmp_path, store)
    assert read_mixture(path).token_store == read_index(store).fingerprint


def test_weights_same_input_gives_the_same_bytes(store, tmp_path):
    for name in ("a", "b"):
        make_mixture(tmp_path / name, store)
    assert (tmp_path / "a/mixture.json").read_bytes() == (tmp_path / "b/mixture.json").read_bytes()


@pytest.mark.parametrize(
    "phases",
    [
        (Phase(rule=Proportional(), start_fraction=0.1),),
        (Phase(rule=Proportional()), Phase(rule=Proportional())),
    ],
)
def test_weights_phases_out_of_order_are_refused(store, tmp_path, phases):
    with pytest.raises(ConfigError, match="the first must be 0, each above the one before"):
        make_mixture(tmp_path, store, phases=phases)


def test_weights_quality_exponent_needs_cells_with_a_bucket(tmp_path):
    store = write_store(tmp_path / "t", {"code": random_cell("code", 50)})
    with pytest.raises(ConfigError, match="no quality bucket in its name"):
        make_mixture(tmp_path / "m", store, phases=(Phase(rule=Proportional(quality_exponent=1.0)),))


def test_read_mixture_of_another_format_is_refused(store, tmp_path):
    path, _ = make_mixture(tmp_path, store)
    file = tmp_path / "mixture.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": "mixture/0"}))
    with pytest.raises(StepFailed, match="this code reads 'mixture/2'"):
        read_mixture(path)
    with pytest.raises(StepFailed, match="mix/weights step is needed"):
        read_mixture(str(tmp_path / "nowhere"))
