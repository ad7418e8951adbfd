import json

import pytest

from marin_exec import ConfigError, StepFailed
from steps.mix.mixture import read_mixture
from steps.mix.weights import Phase, Proportional, WeightTable
from steps.tokenize.store import read_index
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
