import numpy as np

from steps.mix.evaluation_sets import evaluation_batches
from steps.tokenize.store import TokenCell, read_cell
from tests.steps.mix.token_stores import random_cell, write_store

S = 16
CELLS = {"c00q0": 120, "c00q1": 60, "c02q2": 4, "c03q3": 1}


def test_evaluation_batches_predict_every_token_but_begin_exactly_once(tmp_path):
    store = write_store(tmp_path, {name: random_cell(name, count) for name, count in CELLS.items()})
    sets = evaluation_batches(store, S)
    assert list(sets) == sorted(CELLS)
    for name, each in sets.items():
        cell = read_cell(store, name)
        assert each.tokens.shape == each.segment_ids.shape == (len(each.loss_mask), S + 1)
        assert each.tokens.dtype == each.segment_ids.dtype == np.int32
        targets = each.tokens[:, 1:][each.loss_mask]
        expected = np.delete(cell.tokens, cell.offsets[:-1])
        assert np.array_equal(targets, expected)  # in order, each once, no begin token, no padding
        assert each.num_bytes == cell.document_bytes.sum()
        inside = each.segment_ids[:, 1:] == each.segment_ids[:, :-1]
        assert np.all(inside[each.loss_mask])  # no target is predicted from another document's token


def test_evaluation_batches_shorter_than_a_sequence_is_padded(tmp_path):
    cell = TokenCell(np.array([0, 5, 6], np.int32), np.array([0, 3]), ["only"], np.array([6]))
    found = evaluation_batches(write_store(tmp_path, {"tiny": cell}), 8)["tiny"]
    assert found.loss_mask.tolist() == [[True, True] + [False] * 6]
    assert found.num_bytes == 6
    assert found.segment_ids.tolist() == [[0, 0, 0] + [-1] * 6]
