"""Fuzzy deduplication as a step: what is removed, on what evidence, and that nothing else decides."""

import dataclasses
import random
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from marin_exec import ConfigError, InputPath, StepFailed
from marin_exec.fields import field_annotations, is_runtime
from steps.dedup.fuzzy import FuzzyConfig, fuzzy_duplicates, removal_alarms
from steps.documents import NamedInput, document_id, read_all, write_table
from tests.directory_out import DirectoryOut
from tests.steps.dedup.dedup_corpus import deduplicate, docstrings, removed_texts, write_documents

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


@pytest.fixture(scope="module")
def corpus() -> list[str]:
    """Real docstrings of three packages, with edited copies of some: a word in every 25 to 105 changed."""
    texts = [*docstrings("numpy", 200), *docstrings("scipy", 200), *docstrings("sklearn", 100)]
    edited = []
    for number, text in enumerate(texts[::3]):
        words = text.split(" ")
        step = 25 + 20 * (number % 5)
        edited.append(" ".join("changed" if i % step == step - 1 else word for i, word in enumerate(words)))
    return list(dict.fromkeys([*texts, *edited]))


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


def test_fuzzy_judgement_does_not_depend_on_shards_or_their_order(tmp_path, corpus):
    class Backwards(DirectoryOut):
        """Shards finish in another order than they are named; the names are returned in order, as the engine does."""

        def map_shards(self, fn, items, *, cpus=1):
            done = super().map_shards(fn, dict(reversed(list(items.items()))), cpus=cpus)
            return {name: done[name] for name in items}

    one = deduplicate(tmp_path / "one", [write_documents(tmp_path / "one" / "s", corpus, 1)])
    source = write_documents(tmp_path / "five" / "s", corpus, 5)
    five = deduplicate(tmp_path / "five", [source])
    again = deduplicate(tmp_path / "again", [source], out=Backwards(tmp_path / "again" / "fuzzy"), bands_per_pass=4)
    assert one.removed == five.removed and one.clusters == five.clusters and one.result == five.result
    files = [file.relative_to(five.path) for file in sorted(five.path.rglob("*.parquet"))]
    assert len(files) == 11 and five.result == again.result
    for file in files:
        assert (five.path / file).read_bytes() == (again.path / file).read_bytes()


class Interrupted(Exception):
    pass


class ResumingOut(DirectoryOut):
    """Dies after some shards, half way through writing one; a later attempt takes up what was committed."""

    def __init__(self, path: Path, earlier: "ResumingOut | None" = None, dies_after: int | None = None):
        super().__init__(path)
        self.committed: dict[str, object] = {}
        self.earlier = earlier
        self.dies_after = dies_after
        self.ran: list[str] = []

    def map_shards(self, fn, items, *, cpus=1):
        for name, item in items.items():
            if self.earlier and name in self.earlier.committed:
                target = Path(self.file(f"signatures/{name}"))
                shutil.copy(Path(self.earlier.path) / "signatures" / name, target)
                self.committed[name] = self.earlier.committed[name]
                continue
            if len(self.ran) == self.dies_after:
                Path(self.file(f"signatures/{name}")).write_bytes(b"PAR1 half a file")
                raise Interrupted
            self.committed |= super().map_shards(fn, {name: item})
            self.ran.append(name)
        return {name: self.committed[name] for name in items}


def test_fuzzy_killed_in_the_middle_and_resumed_gives_the_same_bytes(tmp_path, corpus):
    source = write_documents(tmp_path / "s", corpus, 5)
    straight = deduplicate(tmp_path / "straight", [source])
    for dies_after in (0, 2, 4):
        folder = tmp_path / f"killed{dies_after}"
        first = ResumingOut(folder / "first", dies_after=dies_after)
        with pytest.raises(Interrupted):
            deduplicate(folder / "x", [source], out=first)
        second = ResumingOut(folder / "second", earlier=first)
        resumed = deduplicate(folder / "y", [source], out=second)
        assert len(second.ran) == 5 - dies_after and resumed.result == straight.result
        for file in sorted(straight.path.rglob("*.parquet")):
            assert (resumed.path / file.relative_to(straight.path)).read_bytes() == file.read_bytes()


@pytest.mark.parametrize("damage", ["truncated", "fewer rows", "other parameters"])
def test_fuzzy_damaged_signature_shard_is_an_error(tmp_path, corpus, damage):
    class DamagingOut(DirectoryOut):
        def map_shards(self, fn, items, *, cpus=1):
            counts = super().map_shards(fn, items, cpus=cpus)
            file = Path(self.path) / "signatures" / next(iter(items))
            table = pq.read_table(file)
            if damage == "truncated":
                file.write_bytes(file.read_bytes()[:-68])
            elif damage == "fewer rows":
                pq.write_table(table.slice(1), file)
            else:
                metadata = {b"minhash": table.schema.metadata[b"minhash"].replace(b'"seed": 42', b'"seed": 43')}
                pq.write_table(table.replace_schema_metadata(metadata), file)
            return counts

    messages = {
        "truncated": "not a complete Parquet file",
        "fewer rows": "signatures where",
        "other parameters": '"seed": 43',
    }
    source = write_documents(tmp_path / "s", corpus[:50], 2)
    with pytest.raises(StepFailed, match=messages[damage]):
        deduplicate(tmp_path, [source], out=DamagingOut(tmp_path / "out"))


def test_fuzzy_exact_table_of_other_sources_is_an_error(tmp_path):
    deduplicate(tmp_path / "x", [write_documents(tmp_path / "x" / name, [LONG, name]) for name in ("a", "b")])
    other = tuple(write_documents(tmp_path / "y" / name, [f"{name} {LONG}"]) for name in ("a", "b"))
    with pytest.raises(StepFailed, match="made from these sources"):
        fuzzy_duplicates(FuzzyConfig(sources=other, exact=str(tmp_path / "x" / "exact")), DirectoryOut(tmp_path / "o"))


@pytest.mark.parametrize(
    "change",
    [
        {"bands": 1},
        {"rows": 40},
        {"shingle_words": 40},
        {"containment": 0.5},
        {"containment_words": 40},
        {"seed": 1},
        {"max_characters": 300},
        {"alarm_fraction": 0.01},
    ],
    ids=lambda change: next(iter(change)),
)
def test_fuzzy_every_identity_field_changes_the_outcome(tmp_path, corpus, change):
    base = write_documents(tmp_path / "s", corpus)
    before = deduplicate(tmp_path / "before", [base])
    after = deduplicate(tmp_path / "after", [base], **change)
    signatures = "signatures/s/part-00000.parquet"
    same_bands = pq.read_table(before.path / signatures).equals(pq.read_table(after.path / signatures))
    assert before.result != after.result or before.removed != after.removed or not same_bands


def test_fuzzy_only_the_pass_size_is_runtime():
    annotations = field_annotations(FuzzyConfig)
    assert {name for name, each in annotations.items() if is_runtime(each)} == {"bands_per_pass"}
    assert annotations["exact"] == InputPath


def test_fuzzy_source_that_loses_most_raises_the_alarm(tmp_path):
    copies = [LONG.replace("word3 ", f"other{i} ") for i in range(10)]
    sources = [write_documents(tmp_path / "good", ["a text of its own"]), write_documents(tmp_path / "bad", copies)]
    out = DirectoryOut(tmp_path / "out")
    found = deduplicate(tmp_path, sources, out=out)
    assert found.result.removed_by_source == {"good": 0, "bad": 9}
    [alarm] = found.result.alarms
    assert alarm.startswith("bad: 9 of 10 documents removed (90%")
    assert any("removal alarm: bad" in message for message in out.messages)
    assert not deduplicate(tmp_path / "again", sources, alarm_fraction=0.9).result.alarms
    assert removal_alarms({"none": 0}, {"none": 0}, 0.0) == []


def test_fuzzy_result_holds_the_curve_and_a_warning_for_swapped_bands(tmp_path):
    source = write_documents(tmp_path / "s", ["a text", "b text"])
    found = deduplicate(tmp_path / "x", [source])
    published = {"0.5": 0.013, "0.6": 0.090, "0.7": 0.405, "0.8": 0.903, "0.9": 1.0}
    assert found.result.s_curve == pytest.approx(published, abs=5e-4)
    assert found.result.warnings == []
    out = DirectoryOut(tmp_path / "swapped")
    swapped = deduplicate(tmp_path / "y", [source], out=out, bands=11, rows=26)
    assert "swapped" in swapped.result.warnings[0] and any("swapped" in message for message in out.messages)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bands", 0),
        ("rows", -1),
        ("shingle_words", 0),
        ("containment", 0.0),
        ("containment", 1.5),
        ("alarm_fraction", 2.0),
    ],
)
def test_fuzzy_config_out_of_range_names_field_and_value(field, value):
    source = NamedInput(name="s", path="somewhere")
    with pytest.raises(ConfigError, match=f"{field} is {value}"):
        FuzzyConfig(sources=(source,), exact="exact", **{field: value})


def test_fuzzy_config_module_imports_nothing_heavy():
    heavy = ("numba", "ray", "jax", "scipy")
    code = f"import sys, steps.dedup.fuzzy, steps.dedup.exact; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_fuzzy_result_is_plain_values(tmp_path):
    found = deduplicate(tmp_path, [write_documents(tmp_path / "s", ["a text", "b text"])])
    for field in dataclasses.fields(found.result):
        assert isinstance(getattr(found.result, field.name), (int, dict, list))
