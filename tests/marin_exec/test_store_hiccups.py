"""A read of the store that fails for a moment ends no run, and costs no finished work."""

from pathlib import Path

import pytest
from inprocess import World

from marin_exec import Out, Step, StoreError, kind
from marin_exec.store import Lease, Store


@kind("hiccups/work", version=1)
def work(config: None, out: Out) -> int:
    Path(out.file("result.txt")).write_text("done")
    return 1


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


def test_head_unreadable_at_the_commit_is_read_again(world, monkeypatch):
    committing, failures = [], []
    commit, head = Lease.commit, Store.head_at

    def commit_slowly(lease, record):
        committing.append(record)
        commit(lease, record)

    def head_with_hiccup(store, path):
        if committing and not failures:
            failures.append(path)
            raise StoreError("cannot read: Stale file handle")
        return head(store, path)

    monkeypatch.setattr(Lease, "commit", commit_slowly)
    monkeypatch.setattr(Store, "head_at", head_with_hiccup)
    statuses = world.run(Step("work", work))
    assert failures and str(statuses["work"].state) == "done"
    assert statuses["work"].record.attempt == 1  # the same attempt was committed, its work was not thrown away
