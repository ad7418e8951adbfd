"""The step heldout/select."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marin_exec import ConfigError, StepFailed
from steps.contract import check_documents
from steps.documents import document_id, read_all, read_table, shard_names, write_table
from steps.heldout.select import HeldoutConfig, choose, select_heldout
from tests.directory_out import DirectoryOut
from tests.steps.decontaminate.document_sets import read_sparse, write_documents

TEXTS = [f"Held out or not, this is document {number}." + " More." * (number % 7) for number in range(60)]


def tables(root, sources, hits=(), keep=None):
    """Writes sparse tables exact and fuzzy, and a dense heuristics table; `hits` are texts in both sparse ones, by "
    "turns."""
    for number, name in enumerate(("exact", "fuzzy")):
        ids = {document_id(text) for text in list(hits)[number::2]}
        for source in sources:
            for shard in shard_names(source.path):
                mine = [i for i in read_table(source.path, shard, ["id"])["id"].to_pylist() if i in ids]
                write_table(
                    DirectoryOut(root).file(f"{name}/{source.name}/{shard}"),
                    pa.table({"id": pa.array(mine, pa.string())}),
                )
    if keep is not None:
        kept = {document_id(text) for text in keep}
        for source in sources:
            for shard in shard_names(source.path):
                ids = read_table(source.path, shard, ["id"])["id"].to_pylist()
                dense = pa.table(
                    {"id": pa.array(ids, pa.string()), "keep": pa.array([i in kept for i in ids], pa.bool_())}
                )
                write_table(DirectoryOut(root).file(f"heuristics/{source.name}/{shard}"), dense)
    return {
        "exact": f"{root}/exact",
        "fuzzy": f"{root}/fuzzy",
        **({"heuristics": f"{root}/heuristics"} if keep is not None else {}),
    }


def select(root, sources, out="out", hits=(), keep=None, **options):
    judgements = tables(root / "judgements", sources, hits, keep)
    result = select_heldout(HeldoutConfig(sources=tuple(sources), **judgements, **options), DirectoryOut(root / out))
    documents = {}
    for source in sources:
        table = read_all(f"{root}/{out}/documents/{source.name}")
        check_documents(table, source.name)
        documents[source.name] = table["text"].to_pylist()
        assert {document_id(text) for text in documents[source.name]} == set(read_sparse(root / out / "table", source))
    return result, documents


def test_select_fraction_holds_out_that_share_of_each_source(tmp_path):
    sources = [write_documents(tmp_path, "web", TEXTS, num_shards=4), write_documents(tmp_path, "small", TEXTS[:8])]
    result, documents = select(tmp_path, sources, fraction=0.1)
    assert result.held_out == {"web": 6, "small": 1} and result.eligible == {"web": 60, "small": 8}
    assert set(documents["web"]) < set(TEXTS)
    assert result.held_out_bytes == {name: sum(len(t.encode()) for t in texts) for name, texts in documents.items()}


def test_select_duplicates_and_removed_documents_are_not_held_out(tmp_path):
    source = write_documents(tmp_path, "web", TEXTS, num_shards=3)
    result, documents = select(tmp_path, [source], hits=TEXTS[:30], keep=TEXTS[20:], fraction=0.9)
    assert result.eligible == {"web": 30} and result.held_out == {"web": 27}
    assert set(documents["web"]) <= set(TEXTS[30:])


def test_select_long_documents_are_not_held_out_where_bounded(tmp_path):
    source = write_documents(tmp_path, "web", TEXTS)
    longest = len(TEXTS[7])
    result, documents = select(tmp_path, [source], fraction=0.9, longest_characters=longest)
    eligible = [text for text in TEXTS if len(text) <= longest]
    assert result.eligible == {"web": len(eligible)} and set(documents["web"]) <= set(eligible)


def test_select_small_source_holds_out_at_least_so_many(tmp_path):
    result, _ = select(tmp_path, [write_documents(tmp_path, "web", TEXTS)], fraction=0.05, at_least=7)
    assert result.held_out == {"web": 7}


def test_select_from_some_sources_leaves_the_others_whole(tmp_path):
    sources = [write_documents(tmp_path, "web", TEXTS), write_documents(tmp_path, "tiny", TEXTS[:1])]
    config = HeldoutConfig(sources=tuple(sources), **tables(tmp_path, sources), count=5, from_sources=("web",))
    out = DirectoryOut(tmp_path / "out")
    result = select_heldout(config, out)
    assert result.held_out == {"web": 5, "tiny": 0} and result.eligible == {"web": 60, "tiny": 1}
    assert read_table(f"{out.path}/table/tiny", "part-00000.parquet").num_rows == 0
    assert [path.name for path in (tmp_path / "out/documents").iterdir()] == ["web"]
    with pytest.raises(ConfigError, match=r"from_sources: \['wbe'\]"):
        HeldoutConfig(sources=tuple(sources), **tables(tmp_path, sources), count=5, from_sources=("wbe",))


def test_select_does_not_depend_on_shards_and_grows_with_the_fraction(tmp_path):
    found = {}
    for shards in (1, 5):
        for fraction in (0.1, 0.3):
            root = tmp_path / f"{shards}-{fraction}"
            source = write_documents(root, "web", TEXTS, num_shards=shards)
            found[shards, fraction] = select(root, [source], fraction=fraction)[1]["web"]
    assert found[1, 0.1] == found[5, 0.1] and found[1, 0.3] == found[5, 0.3]
    assert set(found[1, 0.1]) < set(found[1, 0.3])
    source = write_documents(tmp_path, "web", TEXTS)
    assert select(tmp_path, [source], fraction=0.1, seed=1)[1]["web"] != found[1, 0.1]


def test_select_equal_runs_give_equal_bytes(tmp_path):
    source = write_documents(tmp_path, "web", TEXTS, num_shards=2)
    for out in ("a", "b"):
        select(tmp_path, [source], out=out, count=5)
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.parquet"))
    assert len(files) == 3 and all(
        (tmp_path / "a" / f).read_bytes() == (tmp_path / "b" / f).read_bytes() for f in files
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hits": TEXTS, "fraction": 0.1}, "source 'web': 0 documents .* at least 1 is needed"),
        ({"hits": TEXTS[1:], "fraction": 0.1}, "with 1 held out none is left to train on"),
        ({"fraction": 0.1, "at_least": 61}, "60 of them can be held out, but at_least asks for 61"),
        ({"count": 61}, "60 of them can be held out, but count asks for 61"),
        ({"count": 60}, "with 60 held out none is left"),
        ({"longest_characters": 3, "fraction": 0.1}, "0 of them can be held out; at least 1"),
    ],
)
def test_select_source_without_enough_documents_fails_by_name(tmp_path, options, message):
    with pytest.raises(StepFailed, match=message):
        select(tmp_path, [write_documents(tmp_path, "web", TEXTS)], **options)


def test_select_tables_of_other_documents_are_refused(tmp_path):
    source, other = write_documents(tmp_path, "web", TEXTS[:30]), write_documents(tmp_path / "other", "web", TEXTS)
    judgements = tables(tmp_path / "judgements", [other], hits=TEXTS[40:50])
    with pytest.raises(StepFailed, match="made from other documents"):
        select_heldout(HeldoutConfig(sources=(source,), **judgements, count=1), DirectoryOut(tmp_path / "out"))


@given(st.lists(st.uuids().map(lambda u: u.hex), unique=True, max_size=30), st.integers(0, 30), st.integers(0, 2**32))
def test_choose_is_a_function_of_ids_and_seed(ids, count, seed):
    chosen = choose(ids, count, seed)
    assert chosen == choose(ids[::-1], count, seed) and len(chosen) == min(count, len(ids))
    assert chosen <= choose(ids, count + 1, seed)
