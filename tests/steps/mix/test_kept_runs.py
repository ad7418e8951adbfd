"""Runs of kept documents: whatever was added, each range of ids of a cell comes back whole and sorted."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from steps.mix import kept_runs
from steps.mix.kept_runs import KeptRuns


@settings(deadline=None)
@given(data=st.data())
def test_runs_give_back_ranges_of_cells(tmp_path_factory, data):
    rows = data.draw(st.dictionaries(st.integers(0, 999).map("{:03d}".format), st.sampled_from("abc"), max_size=60))
    shards = data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    kept_runs._BATCH_ROWS, before = data.draw(st.integers(1, 7)), kept_runs._BATCH_ROWS
    try:
        runs = KeptRuns(tmp_path_factory.mktemp("runs"))
        for shard in range(4):
            chosen = [row for row, number in zip(rows.items(), shards, strict=True) if number == shard]
            columns = {
                "id": [i for i, _ in chosen],
                "cell": [c for _, c in chosen],
                "text": [f"{i}!" for i, _ in chosen],
            }
            runs.add(pa.table(columns, schema=pa.schema([(name, pa.string()) for name in columns])))
        low, high = sorted(data.draw(st.tuples(*[st.integers(0, 999).map("{:03d}".format)] * 2)))
        for cell in "abc":
            expected = sorted(i for i, c in rows.items() if c == cell and low <= i <= high)
            found = runs.read(cell, low, high)
            assert found.column_names == ["id", "text"]
            assert found["id"].to_pylist() == expected
            assert found["text"].to_pylist() == [f"{i}!" for i in expected]
    finally:
        kept_runs._BATCH_ROWS = before
