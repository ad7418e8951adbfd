"""Who stays: the survivor rules, exempt sources, earlier runs, and what the audit shows of it."""

import random

import pyarrow.parquet as pq
import pytest

from marin_exec import ConfigError, StepFailed
from steps.dedup import verify
from steps.dedup.fuzzy import EarlierRun, FuzzyConfig
from steps.documents import NamedInput, document_id
from tests.directory_out import DirectoryOut
from tests.steps.dedup.dedup_corpus import deduplicate, edited_docstrings, removed_texts, write_documents

LONG = " ".join(f"word{i} of{i % 7} a{i % 11} longer text" for i in range(60))
LONGER = LONG + " and a closing remark"


@pytest.mark.parametrize(("survivor", "loser", "kept"), [("longest", "one", "two"), ("priority", "two", "one")])
def test_fuzzy_survivor_is_the_longest_or_of_the_first_source(tmp_path, survivor, loser, kept):
    sources = [write_documents(tmp_path / "one", [LONG]), write_documents(tmp_path / "two", [LONGER])]
    found = deduplicate(tmp_path, sources, survivor=survivor)
    [((source, _), row)] = found.removed.items()
    assert (source, row["kept_source"]) == (loser, kept)
    assert row["containment"] >= 0.9


def test_fuzzy_priority_keeps_a_later_text_that_the_first_source_does_not_hold(tmp_path):
    longer = LONG + " ".join(f" new{i}" for i in range(200))
    sources = [write_documents(tmp_path / "one", [LONG]), write_documents(tmp_path / "two", [longer])]
    assert not deduplicate(tmp_path, sources, survivor="priority", bands=100, rows=2).removed


def test_fuzzy_exempt_source_loses_nothing_and_others_lose_what_it_holds(tmp_path):
    edited = LONG.replace("word3 ", "other3 ")
    texts = {"a": [LONG], "b": [LONGER, edited + " x y"]}
    sources = [write_documents(tmp_path / name, each) for name, each in texts.items()]
    plain = deduplicate(tmp_path / "plain", sources)
    assert plain.result.removed_by_source == {"a": 1, "b": 1} and plain.result.exempt == 0
    exempt = deduplicate(tmp_path / "exempt", sources, exempt=("b",))
    assert exempt.result.removed_by_source == {"a": 1, "b": 0} and exempt.result.exempt == 1
    other = deduplicate(tmp_path / "other", sources, exempt=("a",))
    assert other.result.removed_by_source == {"a": 0, "b": 1} and other.result.exempt == 1


def halves() -> tuple[list[str], list[str]]:
    """Old and new texts: the same docstrings, with edited copies on either side."""
    corpus = edited_docstrings()
    random.Random(0).shuffle(corpus)
    return corpus[: len(corpus) // 2], corpus[len(corpus) // 2 :]


def run_new(folder, old, new, run, **config):
    out = DirectoryOut(folder / "fuzzy")
    earlier = (EarlierRun(fuzzy=run, sources=(old,)),)
    return deduplicate(folder, [new], out=out, earlier=earlier, **config)


def test_fuzzy_against_an_earlier_run_removes_what_a_run_over_all_would_have(tmp_path):
    old_texts, new_texts = halves()
    old, new = write_documents(tmp_path / "old", old_texts, 3), write_documents(tmp_path / "new", new_texts, 2)
    whole = deduplicate(tmp_path / "whole", [old, new], survivor="priority")
    first = deduplicate(tmp_path / "first", [old], survivor="priority")
    second = run_new(tmp_path / "second", old, new, str(first.path), survivor="priority")
    assert first.result.removed > 10 and second.result.removed > 20
    assert {key: row for key, row in whole.removed.items() if key[0] == "old"} == first.removed
    assert {key: row for key, row in whole.removed.items() if key[0] == "new"} == second.removed
    assert {row["kept_source"] for row in second.removed.values()} == {"old", "new"}
    assert second.result.documents_in == len(new_texts) and second.result.earlier_documents == len(old_texts)
    assert sorted(path.name for path in (second.path / "signatures").iterdir()) == ["new"]  # old ones were read only


def test_fuzzy_against_two_earlier_runs_equals_a_run_over_all_three(tmp_path):
    corpus = [text for half in halves() for text in half]
    parts = [write_documents(tmp_path / name, corpus[i::3]) for i, name in enumerate(("a", "b", "c"))]
    whole = deduplicate(tmp_path / "whole", parts, survivor="priority")
    runs: list[EarlierRun] = []
    removed = {}
    for part in parts:
        found = deduplicate(tmp_path / f"run-{part.name}", [part], earlier=tuple(runs), survivor="priority")
        runs.append(EarlierRun(fuzzy=str(found.path), sources=(part,)))
        removed |= found.removed
    assert removed == whole.removed


def test_fuzzy_new_text_never_removes_an_old_one_and_falls_to_a_shorter_one(tmp_path):
    old, new = write_documents(tmp_path / "old", [LONG]), write_documents(tmp_path / "new", [LONGER, LONG])
    first = deduplicate(tmp_path / "first", [old])
    second = run_new(tmp_path / "second", old, new, str(first.path))
    assert {row["kept_id"] for row in second.removed.values()} == {document_id(LONG)}
    assert {row["kept_source"] for row in second.removed.values()} == {"old"} and len(second.removed) == 2


def test_fuzzy_text_that_an_earlier_run_removed_holds_nobody(tmp_path):
    """b is removed for a; c is nearly all in b and not in a: with b gone, c stays."""
    words = [f"w{i}" for i in range(400)]
    a, b, c = " ".join(words[:320]), " ".join(words[25:330]), " ".join(words[260:330])
    old, new = write_documents(tmp_path / "old", [a, b]), write_documents(tmp_path / "new", [c])
    loose = {"bands": 200, "rows": 1}
    first = deduplicate(tmp_path / "first", [old], **loose)
    assert {key[1] for key in first.removed} == {document_id(b)}
    second = run_new(tmp_path / "second", old, new, str(first.path), **loose)
    assert not second.removed


def test_fuzzy_earlier_run_of_other_parameters_or_sources_is_refused(tmp_path):
    old, new = write_documents(tmp_path / "old", [LONG], 1), write_documents(tmp_path / "new", [LONGER])
    first = deduplicate(tmp_path / "first", [old], seed=7)
    with pytest.raises(StepFailed, match="same parameters only"):
        run_new(tmp_path / "seed", old, new, str(first.path))
    recut = NamedInput(name="old", path=write_documents(tmp_path / "recut" / "old", [LONG, "one more", "two"], 3).path)
    with pytest.raises(StepFailed, match="sources that it was made from"):
        run_new(tmp_path / "shards", recut, new, str(first.path), seed=7)
    other = NamedInput(name="old", path=write_documents(tmp_path / "other" / "old", [LONG + " changed"]).path)
    with pytest.raises(StepFailed, match=r"1 documents that .* knows are not there"):
        run_new(tmp_path / "texts", other, new, str(first.path), seed=7)


def test_fuzzy_names_that_are_no_sources_or_are_used_twice_are_refused():
    source = NamedInput(name="s", path="somewhere")
    with pytest.raises(ConfigError, match=r"exempt: \['t'\]; names of sources are needed, which are \['s'\]"):
        FuzzyConfig(sources=(source,), exact="exact", exempt=("t",))
    with pytest.raises(ConfigError, match=r"survivor: 'first'; one of 'longest', 'priority'"):
        FuzzyConfig(sources=(source,), exact="exact", survivor="first")
    with pytest.raises(ConfigError, match=r'e\.g\. "s-2"'):
        FuzzyConfig(sources=(source,), exact="exact", earlier=(EarlierRun(fuzzy="run", sources=(source,)),))


@pytest.mark.parametrize(("containment", "verdict"), [(0.97, "removed"), (0.995, "kept")])
def test_fuzzy_audit_shows_the_removed_beside_the_kept_and_what_only_just_stayed(tmp_path, containment, verdict):
    longer = LONG + " " + " ".join(f"novel{i}" for i in range(29))
    edited = LONG.replace("word3 ", "Another ")
    sources = [write_documents(tmp_path / "a", [LONG, longer]), write_documents(tmp_path / "b", [edited, "of its own"])]
    found = deduplicate(tmp_path, sources, containment=containment)
    first, second = pq.read_table(found.path / "audit.parquet").to_pylist()
    assert (first["verdict"], first["source"], first["id"]) == ("removed", "a", document_id(LONG))
    assert first["kept_id"] == document_id(longer) and first["novel_words"] == [] and first["containment"] == 1
    assert (second["verdict"], second["source"], second["id"]) == (verdict, "b", document_id(edited))
    assert second["novel_words"] == ["another"] and second["num_novel_words"] == 1
    assert "Another" in second["excerpt"] and "word3" in second["kept_excerpt"]
    assert second["excerpt"] in edited and second["kept_excerpt"] in longer


def test_fuzzy_audit_is_a_seeded_choice_of_each_source(tmp_path):
    corpus = [text for half in halves() for text in half]
    sources = [write_documents(tmp_path / "a", corpus[::2]), write_documents(tmp_path / "b", corpus[1::2])]
    tables = {}
    for name, config in {"one": {}, "again": {}, "all": {"audit_pairs": 1000}}.items():
        found = deduplicate(tmp_path / name, sources, **({"audit_pairs": 5} | config))
        tables[name] = pq.read_table(found.path / "audit.parquet").to_pylist()
    assert tables["one"] == tables["again"]
    removed = [row for row in tables["all"] if row["verdict"] == "removed"]
    assert {(row["source"], row["id"]) for row in removed} == set(found.removed)
    for row in removed:
        assert row["containment"] == found.removed[row["source"], row["id"]]["containment"] >= 0.9
    for source in ("a", "b"):
        chosen = [row for row in tables["one"] if row["verdict"] == "removed" and row["source"] == source]
        assert len(chosen) == 5 and all(row in removed for row in chosen)
        kept = [row["containment"] for row in tables["all"] if (row["verdict"], row["source"]) == ("kept", source)]
        assert kept == sorted(kept, reverse=True) and all(share < 0.9 for share in kept)


def test_fuzzy_300_edited_copies_of_one_document_leave_one(tmp_path):
    words = [f"w{i}" for i in range(600)]
    copies = [" ".join(f"own{copy}" if i == copy else word for i, word in enumerate(words)) for copy in range(300)]
    found = deduplicate(tmp_path, [write_documents(tmp_path / "s", copies)])
    assert found.result.clusters == 1 and found.result.largest_cluster == 300 > verify.ALL_PAIRS_MEMBERS
    assert found.result.removed == 299 and found.result.bounded == 0
    [kept] = {row["kept_id"] for row in found.removed.values()}
    assert kept == min(document_id(text) for text in copies)


def test_fuzzy_cluster_larger_than_its_bounds_is_counted_and_loses_no_more(tmp_path, monkeypatch):
    corpus = [text for half in halves() for text in half]
    source = write_documents(tmp_path / "s", corpus)
    loose = {"bands": 200, "rows": 1, "containment": 0.6}  # one cluster of nearly all
    straight = deduplicate(tmp_path / "straight", [source], **loose)
    assert straight.result.largest_cluster > verify.ALL_PAIRS_MEMBERS and straight.result.bounded == 0
    monkeypatch.setattr(verify, "MOST_CANDIDATES", 1)
    monkeypatch.setattr(verify, "LONGEST_POSTING", 1)
    bounded = deduplicate(tmp_path / "bounded", [source], **loose)
    assert bounded.result.bounded > 0
    kept = removed_texts(straight, corpus) - removed_texts(bounded, corpus)
    assert len(kept) <= bounded.result.bounded and bounded.result.removed > 0.8 * straight.result.removed
    for row in bounded.removed.values():
        assert row["containment"] >= 0.6


def test_fuzzy_exact_duplicates_of_an_earlier_run_are_found_by_their_words(tmp_path):
    """dedup/exact is given the new sources only: what equals an old text falls here."""
    old, new = write_documents(tmp_path / "old", [LONG, "cat"]), write_documents(tmp_path / "new", [LONG, "cat", "dog"])
    first = deduplicate(tmp_path / "first", [old])
    second = run_new(tmp_path / "second", old, new, str(first.path))
    assert removed_texts(second, [LONG, "cat", "dog"]) == {LONG, "cat"}
    assert all(row["id"] == row["kept_id"] and row["containment"] == 1 for row in second.removed.values())
