"""The chain on object stores: every output is what it is on a local disk, killed and resumed on the way too."""

import pytest
from chain_store import Chain, ChainStore, kill_when

from marin_exec.store import Store, pieces
from steps.train.threads import UNSPLIT_PRODUCTS

pytestmark = pytest.mark.timeout(1800)  # the first test of a session waits for the cold run


@pytest.fixture
def chain(request, monkeypatch, finished, compiled) -> Chain:
    """The chain over an empty store on the server of that name."""
    server = request.getfixturevalue(request.param)
    environment = {**server.environment, **compiled, "XLA_FLAGS": UNSPLIT_PRODUCTS, "JAX_PLATFORMS": "cpu"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return Chain(prefix=server.new_prefix(), parameters=finished.parameters, environment=environment)


def output_digests(store: Store) -> dict[str, str]:
    """Returns the output digest of every finished step, by name."""
    records = [store.current(digest) for digest in store.known_digests()]
    return {record.name: record.output_digest for record in records if record is not None}


def assert_same_outputs(chain: Chain, finished: ChainStore) -> None:
    store = Store.open(chain.prefix)
    assert output_digests(store) == output_digests(Store.open(finished.prefix))
    assert {each["action"] for each in chain.planned().values()} == {"REUSE"}


@pytest.mark.slow
@pytest.mark.parametrize("chain", ["gcs_server"], indirect=True)
def test_chain_on_gcs_killed_in_the_hero_and_run_again_equals_the_chain_on_a_local_disk(chain, finished, tmp_path):
    hero, store, log = finished.record("hero"), Store.open(chain.prefix), tmp_path / "killed.log"
    driver = chain.start("--backend", "local", log=log)
    kill_when(driver, lambda: bool(pieces(store, hero["digest"], 1, "milestone")), log, seconds=1200, pause_seconds=0.1)
    published = pieces(store, hero["digest"], 1, "milestone")
    assert 0 < len(published) < len(hero["milestones"]) and store.current(hero["digest"]) is None

    again = chain.call("run", "--backend", "local", timeout=1200)
    assert again.returncode == 0, again.stderr
    resumed = store.current(hero["digest"])
    assert resumed.attempt == 2 and resumed.measured["resumed_from_step"] >= 25
    assert_same_outputs(chain, finished)
    found = chain.json("lineage", f"{store.url(resumed.output_path)}/{resumed.result['final_checkpoint']}")
    assert found["artifact"]["name"] == "hero" and found["artifact"]["sub_path"] == "checkpoints/step-100"
    here = finished.json("lineage", str(finished.output(hero) / "checkpoints/step-100"))
    assert {node["name"] for node in found["nodes"]} == {node["name"] for node in here["nodes"]}


@pytest.mark.slow
@pytest.mark.parametrize("chain", ["s3_server"], indirect=True)
def test_chain_on_s3_equals_the_chain_on_a_local_disk(chain, finished):
    done = chain.call("run", "--backend", "local", timeout=1200)
    assert done.returncode == 0, done.stderr
    assert_same_outputs(chain, finished)
