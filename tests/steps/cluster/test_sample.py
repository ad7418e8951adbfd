import numpy as np
import pytest

from steps.cluster.sample import draw_rows, largest_remainder_quotas, read_sample
from steps.documents import shard_name, write_table
from steps.embed.vectors import embedding_table, quantize, read_source, scale_of


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(0)
    paths = {}
    for name, count, per_shard in (("one", 23, 5), ("two", 9, 9), ("three", 2, 1)):
        (tmp_path / name).mkdir()
        ids = sorted(f"{each:032x}" for each in rng.integers(0, 10**9, count))
        vectors = rng.normal(size=(count, 8))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        for place, start in enumerate(range(0, count, per_shard)):
            part = slice(start, start + per_shard)
            table = embedding_table(ids[part], quantize(vectors[part], 1.0), scale_of(1.0))
            write_table(str(tmp_path / name / shard_name(place)), table)
        paths[name] = str(tmp_path / name)
    return paths


@pytest.mark.parametrize("total", [3, 12, 100])
def test_sample_read_a_shard_at_a_time_is_that_of_whole_sources(tables, total):
    whole = {name: read_source(path) for name, path in tables.items()}
    quotas = largest_remainder_quotas({name: len(ids) for name, (ids, _) in whole.items()}, total)
    rows = {name: draw_rows(ids, quotas[name], 7) for name, (ids, _) in whole.items()}
    vectors, sources = read_sample(tables, total, 7)
    np.testing.assert_array_equal(vectors, np.concatenate([whole[name][1][each] for name, each in rows.items()]))
    np.testing.assert_array_equal(sources, np.repeat([0, 1, 2], [len(each) for each in rows.values()]))
