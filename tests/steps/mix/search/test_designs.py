import json

import numpy as np
import pytest

from marin_exec import ConfigError
from steps.mix.search.designs import DesignsConfig, mixture_designs
from steps.mix.search.sampling import sample_mixture
from steps.tokenize.store import read_index
from tests.directory_out import DirectoryOut
from tests.steps.mix.search.made_runs import CELLS, write_index_only


def designs(path) -> dict[str, dict]:
    return {file.name: json.loads(file.read_text()) for file in sorted(path.glob("design-*.json"))}


def test_sample_mixture_varies_as_its_concentration_says():
    center = np.array([[0.1, 0.6, 0.0, 0.3]])
    random = np.random.default_rng(0)
    for concentration in (8.0, 100.0):
        drawn = np.stack([sample_mixture(random, center, (concentration,) * 2, False)[0] for _ in range(4000)])
        assert np.allclose(drawn.sum(axis=1), 1) and drawn.min() >= 0 and np.all(drawn[:, 2] == 0)
        assert drawn.mean(axis=0) == pytest.approx(center[0], abs=0.01)
        expected = np.sqrt(center[0] * (1 - center[0]) / (concentration + 1))
        assert drawn.std(axis=0) == pytest.approx(expected, rel=0.08, abs=1e-9)


def test_sample_mixture_linked_phases_move_together():
    center = np.array([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]])
    for linked in (True, False):
        random = np.random.default_rng(1)
        drawn = np.stack([sample_mixture(random, center, (30.0, 30.0), linked) for _ in range(2000)])
        moved = drawn - center
        correlation = np.corrcoef(moved[:, 0, 1], moved[:, 1, 1])[0, 1]
        assert (correlation > 0.4) == linked and np.allclose(drawn.sum(axis=2), 1)


def test_mixture_designs_first_is_proportional_and_all_are_for_their_store(tmp_path):
    store = write_index_only(tmp_path / "tokens", CELLS)
    result = mixture_designs(DesignsConfig(tokens=store, num_designs=12), DirectoryOut(tmp_path / "designs"))
    found = designs(tmp_path / "designs")
    total = sum(CELLS.values())
    for phase in found["design-000.json"]["weights"]:
        assert dict(zip(sorted(CELLS), phase, strict=True)) == pytest.approx({n: t / total for n, t in CELLS.items()})
    assert len(found) == 12 and {each["token_store"] for each in found.values()} == {read_index(store).fingerprint}
    assert len({str(each["weights"]) for each in found.values()}) == 12
    assert result.cells == len(CELLS) and 0 < result.linked < 11 and 0.05 < result.mean_distance < 0.6


def test_mixture_designs_more_of_them_leave_the_first_as_they_were(tmp_path):
    store = write_index_only(tmp_path / "tokens", CELLS)
    for name, changes in {
        "few": {"num_designs": 4},
        "many": {"num_designs": 9},
        "other": {"seed": 1, "num_designs": 4},
    }.items():
        mixture_designs(DesignsConfig(tokens=store, **changes), DirectoryOut(tmp_path / name))
    few, many, other = (designs(tmp_path / name) for name in ("few", "many", "other"))
    assert few == {name: many[name] for name in few}
    assert [name for name in few if few[name] == other[name]] == ["design-000.json"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_designs": 1}, "at least 2"),
        ({"phase_starts": (0.1,)}, "the first must be 0"),
        ({"phase_starts": (0.0, 0.8, 0.8)}, "each above the one before"),
        ({"phase_starts": (0.0, 1.0)}, "the last below 1"),
        ({"lowest_concentration": 200.0}, "above the highest"),
        ({"lowest_concentration": 0.0}, "above 0"),
    ],
)
def test_mixture_designs_config_out_of_range_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        DesignsConfig(**{"tokens": "/tokens", "num_designs": 4, **changes})
