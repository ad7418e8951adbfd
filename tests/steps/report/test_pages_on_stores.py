"""All pages of a small curation on Ray and an object store: what they are by one process on a local disk."""

from pathlib import Path

import pytest

from marin_exec.store import Store
from tests.marin_exec.engine import Engine

CHAIN = Path(__file__).parent / "curation_chain.py"


def output_digests(store: Store) -> dict[str, str]:
    """Returns the output digest of every finished step, by name."""
    records = [store.current(digest) for digest in store.known_digests()]
    return {record.name: record.output_digest for record in records if record is not None}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_pages_are_the_same_on_ray_and_an_object_store_as_on_a_local_disk(s3_server, tmp_path, monkeypatch):
    (tmp_path / "near").mkdir()
    near = Engine(tmp_path / "near", CHAIN)
    done = near.run()
    assert done.returncode == 0, done.stderr[-3000:]
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    prefix = s3_server.new_prefix()
    far = Engine(tmp_path / "far", CHAIN, environment={"MARIN_PREFIX": prefix})
    done = far.call("run", "--backend", "ray", timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    wanted = output_digests(Store.open(str(near.store)))
    assert output_digests(Store.open(prefix)) == wanted
    pages = {name for name in wanted if name.startswith("report/")}
    assert pages >= {
        f"report/{page}" for page in ("normalized", "duplicates", "filters", "decontamination", "data-diet")
    }
