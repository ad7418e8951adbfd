"""Fuzzy deduplication as a step: what is removed, on what evidence, and that nothing else decides."""

import random
import unicodedata

import pyarrow.parquet as pq
import pytest

from steps.dedup.fuzzy import FuzzyConfig, fuzzy_duplicates
from steps.documents import document_id, read_all, write_table
from tests.directory_out import DirectoryOut
from tests.steps.dedup.dedup_corpus import deduplicate, docstrings, edited_docstrings, removed_texts, write_documents

LONG = " ".join(f"word{i} of{i % 7} a{i % 11} longer text" for i in range(60))


def test_fuzzy_near_copy_is_removed_with_its_evidence(tmp_path):
    longer = LONG + " and a closing remark"
    one = write_documents(tmp_path / "one", [LONG, "something else entirely, about another matter"])
    two = write_documents(tmp_path / "two", [longer, "and a third thing that nobody else has written"])
    found = deduplicate(tmp_path, [one, two])
    [((source, identifier), row)] = found.removed.items()
    # The longer copy stays although its source comes later: only it holds the text of both.
    assert (source, identifier) == ("one", document_id(LONG))
    assert row["kept_source"] == "two" and row["kept_id"] == document_id(longer)
    assert row["containment"] == 1.0
    size = len({tuple(LONG.split()[i : i + 3]) for i in range(len(LONG.split()) - 2)})
    assert row["jaccard"] == pytest.approx(size / (size + 4))
    assert found.result.documents_in == 4 and found.result.removed == 1
    assert found.result.clusters == 1 and found.result.largest_cluster == 2 and found.result.clustered_documents == 2
    assert found.result.removed_by_source == {"one": 1, "two": 0}
    assert [row["removed"] for row in found.clusters] == [False, True]


def test_fuzzy_between_equal_lengths_keeps_the_earlier_source_then_the_lesser_id(tmp_path):
    variants = [LONG, LONG.upper(), LONG.replace(" ", "  ", 3)]
    for order in ([0, 1, 2], [2, 1, 0]):
        folder = tmp_path / "".join(map(str, order))
        sources = [write_documents(folder / f"s{i}", [variants[i]]) for i in order]
        found = deduplicate(folder, sources)
        assert {source for source, _ in found.removed} == {source.name for source in sources[1:]}
    found = deduplicate(tmp_path / "same", [write_documents(tmp_path / "same" / "s", variants)])
    [kept] = {row["kept_id"] for row in found.removed.values()}
    assert len(found.removed) == 2 and kept == min(document_id(text) for text in variants)


def test_fuzzy_leaves_exact_duplicates_to_dedup_exact(tmp_path):
    sources = [write_documents(tmp_path / name, [LONG, f"only in {name} and nowhere else"]) for name in ("a", "b")]
    found = deduplicate(tmp_path, sources)
    assert not found.removed and found.result.exact_duplicates == 1 and found.result.clusters == 0


def test_fuzzy_same_id_in_two_sources_is_two_nodes_of_which_one_is_kept(tmp_path):
    """Given a table of exact duplicates that names none, the copies must be told apart by their source."""
    sources = tuple(write_documents(tmp_path / name, [LONG]) for name in ("a", "b"))
    for source in sources:
        table = read_all(source.path, ["id"]).slice(0, 0)
        (tmp_path / "none" / source.name).mkdir(parents=True)
        write_table(str(tmp_path / "none" / source.name / "part-00000.parquet"), table)
    out = DirectoryOut(tmp_path / "out")
    result = fuzzy_duplicates(FuzzyConfig(sources=sources, exact=str(tmp_path / "none")), out)
    assert result.removed_by_source == {"a": 0, "b": 1}
    [row] = read_all(f"{out.path}/b").to_pylist()
    assert row["kept_source"] == "a" and row["id"] == row["kept_id"]


@pytest.mark.parametrize("texts", [["cat", "dog", "cat!"], ["猫", "犬", "猫。"], ["one two", "two one", "One, two"]])
def test_fuzzy_short_texts_are_removed_only_as_equal_words(tmp_path, texts):
    found = deduplicate(tmp_path, [write_documents(tmp_path / "short", texts)])
    assert found.result.removed == 1 and found.result.short == 3
    survivors = set(texts) - removed_texts(found, texts)
    assert len(survivors) == 2 and texts[1] in survivors


def test_fuzzy_texts_without_words_are_counted_and_never_alike(tmp_path):
    texts = ["!!!", "???", "—", "\u200b.", "🙂", "one word", "another word"]
    found = deduplicate(tmp_path, [write_documents(tmp_path / "blank", texts)])
    assert found.result.no_words == 5 and found.result.clusters == 0 and not found.removed


def test_fuzzy_of_nothing_but_wordless_texts_writes_empty_tables(tmp_path):
    found = deduplicate(tmp_path, [write_documents(tmp_path / "blank", ["!!!", "???"], num_shards=2)])
    assert found.result.removed == 0 and found.clusters == [] and found.result.documents_in == 2


def test_fuzzy_spelling_variants_are_one_text(tmp_path):
    text = "Déjà vu: le café où Zoé dîna, à Noël, était fermé; " * 4 + "voilà"
    variants = [text, unicodedata.normalize("NFD", text), text.upper(), text.replace("a", "a\u200b")]
    variants.append("".join(chr(ord(c) + 0xFEE0) if "a" <= c <= "z" else c for c in text))  # full width
    found = deduplicate(tmp_path, [write_documents(tmp_path / "s", variants)])
    assert len(found.removed) == len(variants) - 1
    assert all(row["containment"] == 1.0 for row in found.removed.values())


def test_fuzzy_short_templates_that_differ_in_a_number_survive(tmp_path):
    texts = [f"Invoice {i} for room {i * 7}: {i} nights, total {i * 31} euros" for i in range(1, 60)]
    found = deduplicate(tmp_path, [write_documents(tmp_path / "s", texts)])
    assert not found.removed


def test_fuzzy_distinct_texts_of_one_vocabulary_survive(tmp_path):
    """Long texts over 200 common words: a chain of chance resemblance must not remove them."""
    rng = random.Random(0)
    vocabulary = [f"w{i}" for i in range(200)]
    texts = [" ".join(rng.choices(vocabulary, k=3000)) for _ in range(60)]
    found = deduplicate(tmp_path, [write_documents(tmp_path / "s", texts)])
    assert not found.removed and not found.result.alarms


def test_fuzzy_huge_document_joins_nobody_and_changes_no_other_bands(tmp_path):
    """A document with a large share of all shingles has minima like anybody's; the cap keeps it apart."""
    small = docstrings("numpy", 80)
    huge = "\n".join(docstrings("scipy", 700)) + "\n" + "\n".join(small)
    alone = deduplicate(tmp_path / "alone", [write_documents(tmp_path / "alone" / "s", small)])
    both = [write_documents(tmp_path / "both" / "s", small), write_documents(tmp_path / "both" / "huge", [huge])]
    together = deduplicate(tmp_path / "both", both, max_characters=len(huge) // 2)
    assert together.result.truncated == 1
    assert together.removed == alone.removed and together.clusters == alone.clusters
    file = "signatures/s/part-00000.parquet"
    columns = [c for c in pq.read_schema(alone.path / file).names if c.startswith("band_")]
    one, other = (pq.read_table(found.path / file, columns=columns) for found in (alone, together))
    assert one.equals(other) and len(columns) == 26


def test_fuzzy_containment_is_of_the_whole_text_beyond_the_cap(tmp_path):
    tails = [" ".join(f"{tail}{i}" for i in range(300)) for tail in ("left", "right")]
    texts = [f"{LONG} {tail}" for tail in tails]
    found = deduplicate(tmp_path, [write_documents(tmp_path / "s", texts)], max_characters=len(LONG))
    assert found.result.clusters == 1 and found.result.truncated == 2 and not found.removed


@pytest.fixture
def corpus() -> list[str]:
    return edited_docstrings()


def word_list(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in folded).split()


def ngrams(text: str, length: int) -> set[tuple[str, ...]]:
    words = word_list(text)
    taken = min(length, len(words))
    return {tuple(words[i : i + taken]) for i in range(len(words) - taken + 1)}


def test_fuzzy_on_real_text_agrees_with_an_all_pairs_oracle(tmp_path, corpus):
    cut = len(corpus) // 2
    sources = [write_documents(tmp_path / "a", corpus[:cut], 2), write_documents(tmp_path / "b", corpus[cut:], 3)]
    found = deduplicate(tmp_path, sources)
    shingles = [ngrams(text, 5) for text in corpus]
    trigrams = {document_id(text): ngrams(text, 3) for text in corpus}
    lengths = {document_id(text): len(word_list(text)) for text in corpus}

    similar = []
    for i, one in enumerate(shingles):
        for j in range(i):
            shared = len(one & shingles[j])
            if shared and shared / (len(one) + len(shingles[j]) - shared) >= 0.8:
                similar.append((document_id(corpus[i]), document_id(corpus[j])))
    cluster_of = {row["id"]: row["cluster_id"] for row in found.clusters}
    recalled = sum(a in cluster_of and cluster_of[a] == cluster_of.get(b) for a, b in similar)
    assert len(similar) >= 50
    assert recalled / len(similar) >= 0.97

    removed_ids = {identifier for _, identifier in found.removed}
    assert len(removed_ids) == len(found.removed) == found.result.removed >= 40
    for identifier, row in ((identifier, row) for (_, identifier), row in found.removed.items()):
        own, kept = trigrams[identifier], trigrams[row["kept_id"]]
        assert row["kept_id"] not in removed_ids
        assert lengths[row["kept_id"]] >= lengths[identifier]
        assert row["containment"] == len(own & kept) / len(own) >= 0.9
        assert row["jaccard"] == len(own & kept) / len(own | kept)
    members: dict[str, list[str]] = {}
    for row in found.clusters:
        members.setdefault(row["cluster_id"], []).append(row["id"])
    for ids in members.values():  # among those kept of a cluster, none holds another
        kept = sorted(set(ids) - removed_ids, key=lambda identifier: -lengths[identifier])
        assert kept
        for position, identifier in enumerate(kept):
            own = trigrams[identifier]
            assert all(len(own & trigrams[other]) / len(own) < 0.9 for other in kept[:position])


def test_fuzzy_second_pass_removes_nothing(tmp_path, corpus):
    found = deduplicate(tmp_path / "one", [write_documents(tmp_path / "one" / "s", corpus)])
    gone = removed_texts(found, corpus)
    kept = [text for text in corpus if text not in gone]
    again = deduplicate(tmp_path / "two", [write_documents(tmp_path / "two" / "s", kept)])
    assert found.result.removed > 0 and again.result.removed == 0
