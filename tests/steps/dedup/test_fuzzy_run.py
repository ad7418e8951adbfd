"""Fuzzy deduplication as a step: shards, resumption, damage, identity, alarms and errors."""

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from marin_exec import ConfigError, Step, StepFailed
from marin_exec.identity import identify
from steps.dedup import nodes
from steps.dedup.exact import ExactConfig, exact_duplicates
from steps.dedup.fuzzy import EarlierRun, FuzzyConfig, fuzzy_duplicates, removal_alarms
from steps.dedup.signatures import read_signatures
from steps.documents import NamedInput
from tests.directory_out import DirectoryOut
from tests.steps.dedup.dedup_corpus import deduplicate, edited_docstrings, write_documents

LONG = " ".join(f"word{i} of{i % 7} a{i % 11} longer text" for i in range(60))


@pytest.fixture
def corpus() -> list[str]:
    return edited_docstrings()


def test_fuzzy_judgement_does_not_depend_on_shards_or_their_order(tmp_path, corpus):
    class Backwards(DirectoryOut):
        """Shards finish in another order than they are named; the names are returned in order, as the engine does."""

        def map_shards(self, fn, items, *, cpus=1):
            done = super().map_shards(fn, dict(reversed(list(items.items()))), cpus=cpus)
            return {name: done[name] for name in items}

    one = deduplicate(tmp_path / "one", [write_documents(tmp_path / "one" / "s", corpus, 1)])
    source = write_documents(tmp_path / "five" / "s", corpus, 5)
    five = deduplicate(tmp_path / "five", [source])
    out = Backwards(tmp_path / "again" / "fuzzy")
    again = deduplicate(tmp_path / "again", [source], out=out, bands_per_pass=4, words_per_pass=500)
    assert one.removed == five.removed and one.clusters == five.clusters and one.result == five.result
    files = [file.relative_to(five.path) for file in sorted(five.path.rglob("*.parquet"))]
    assert len(files) == 12 and five.result == again.result
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
        {"exempt": ("s",)},
        {"audit_pairs": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_fuzzy_every_identity_field_changes_the_outcome(tmp_path, corpus, change):
    base = write_documents(tmp_path / "s", corpus)
    before = deduplicate(tmp_path / "before", [base])
    after = deduplicate(tmp_path / "after", [base], **change)
    signatures = "signatures/s/part-00000.parquet"
    same_bands = pq.read_table(before.path / signatures).equals(pq.read_table(after.path / signatures))
    same_audit = pq.read_table(before.path / "audit.parquet").equals(pq.read_table(after.path / "audit.parquet"))
    same = before.result == after.result and before.removed == after.removed
    assert not (same and same_bands and same_audit)


def test_fuzzy_every_field_but_the_sizes_of_passes_is_in_the_step_digest():
    raw = Step("raw", exact_duplicates, ExactConfig(sources=(NamedInput(name="s", path="somewhere"),)))
    base = FuzzyConfig(sources=(NamedInput(name="s", path=raw),), exact=raw)

    def digest(config: FuzzyConfig) -> str:
        step = Step("dedup/fuzzy", fuzzy_duplicates, config)
        return identify([raw, step])[id(step)].digest

    earlier = EarlierRun(fuzzy=raw, sources=(NamedInput(name="old", path=raw),))
    others = {"survivor": "priority", "exempt": ("s",), "earlier": (earlier,)}
    for field in dataclasses.fields(FuzzyConfig):
        if field.name == "sources":
            changed = (NamedInput(name="other", path=raw),)
        elif field.name == "exact":
            changed = raw / "elsewhere"
        elif field.name in others:
            changed = others[field.name]
        else:
            changed = field.default - 0.1 if isinstance(field.default, float) else field.default + 1
        flipped = digest(dataclasses.replace(base, **{field.name: changed})) != digest(base)
        assert flipped == (field.name not in ("bands_per_pass", "words_per_pass")), field.name


def test_fuzzy_pass_never_reads_more_bands_than_asked(tmp_path, monkeypatch):
    read = []

    def noting(path, shard, parameters, columns, num_rows):
        read.append([column for column in columns if column.startswith("band_")])
        return read_signatures(path, shard, parameters, columns, num_rows)

    monkeypatch.setattr(nodes, "read_signatures", noting)
    deduplicate(tmp_path, [write_documents(tmp_path / "s", ["a text", "b text"])], bands_per_pass=4)
    assert max(map(len, read)) == 4 and sum(map(len, read)) == 26


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
        ("audit_pairs", -1),
        ("words_per_pass", 0),
    ],
)
def test_fuzzy_config_out_of_range_names_field_and_value(field, value):
    source = NamedInput(name="s", path="somewhere")
    with pytest.raises(ConfigError, match=rf"FuzzyConfig\.{field}: {value}; a value"):
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
