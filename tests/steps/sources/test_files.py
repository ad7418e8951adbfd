"""Sources that are files: every format, and every kind of damage with its file, line and advice."""

import gzip
import hashlib
import importlib
import json
import math
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
import zstandard
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

from marin_exec import ConfigError, IdentityMismatch, StepFailed
from steps.files import local_folder
from steps.sources.files import AdoptConfig, FileFormat, FilesConfig, FilesResult, adopt_files, read_files
from steps.sources.manifest import manifest_digest
from steps.sources.raw import RawDocument, read_raw
from tests.directory_out import DirectoryOut


def read(folder: Path, *paths: str, **reading) -> tuple[FilesResult, list[RawDocument]]:
    out = DirectoryOut(folder / "out", "sources/x")
    result = read_files(FilesConfig(paths=paths, reading=FileFormat(**reading)), out)
    return result, list(read_raw(out.path))


def lines(*records) -> bytes:
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


def compressed(content: bytes, ending: str) -> bytes:
    if ending == ".gz":
        return gzip.compress(content, mtime=0)
    return zstandard.compress(content) if ending == ".zst" else content


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_jsonl_plain_and_compressed_give_the_same_documents(tmp_path, ending):
    records = [{"text": "größe\u2028 one line", "n": 1, "when": None}, {"text": "", "url": "u"}]
    (tmp_path / f"a.jsonl{ending}").write_bytes(compressed(lines(*records), ending))
    result, documents = read(tmp_path, str(tmp_path), format="jsonl")
    name = f"a.jsonl{ending}"
    assert documents == [
        RawDocument(f"{name}:1", records[0]["text"], f'{{"file": "{name}", "n": 1, "when": null}}'),
        RawDocument(f"{name}:2", "", f'{{"file": "{name}", "url": "u"}}'),
    ]
    assert (result.files, result.documents, result.num_bytes) == (1, 2, len(records[0]["text"].encode()))


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_jsonl_several_members_or_frames_are_all_read(tmp_path, ending):
    parts = [compressed(lines({"text": f"part {index}"}), ending) for index in range(3)]
    (tmp_path / f"a.jsonl{ending}").write_bytes(b"".join(parts))
    _, documents = read(tmp_path, str(tmp_path), format="jsonl")
    assert [document.text for document in documents] == ["part 0", "part 1", "part 2"]


def test_jsonl_byte_order_mark_blank_lines_and_missing_last_newline_lose_nothing(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "a"}\r\n\n{"text": "b"}')
    _, documents = read(tmp_path, str(tmp_path / "a.jsonl"), format="jsonl")
    assert [(document.source_id, document.text) for document in documents] == [("a.jsonl:1", "a"), ("a.jsonl:3", "b")]


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_compressed_file_cut_anywhere_is_an_error(tmp_path, ending):
    content = compressed(lines(*({"text": f"text {index}"} for index in range(50))), ending)
    for kept in range(0, len(content), 7):
        (tmp_path / f"a.jsonl{ending}").write_bytes(content[:kept])
        with pytest.raises(StepFailed, match=rf"a\.jsonl{ending}: compressed data is damaged or cut off.*in line \d+"):
            read(tmp_path, str(tmp_path), format="jsonl")


def test_corrupt_gzip_after_many_lines_says_about_where_and_what_to_do(tmp_path):
    texts = [hashlib.sha256(str(index).encode()).hexdigest() for index in range(5_000)]
    content = bytearray(compressed(lines(*({"text": text} for text in texts)), ".gz"))
    content[len(content) // 2 : len(content) // 2 + 40] = bytes(40)
    (tmp_path / "a.jsonl.gz").write_bytes(content)
    with pytest.raises(StepFailed) as error:
        read(tmp_path, str(tmp_path), format="jsonl")
    message = str(error.value)
    # The damage shows as broken deflate data, as a line that is no JSON or no UTF-8, or at the checksum: always with a line.
    line = int(re.search(r"line (\d+)|jsonl\.gz:(\d+)", message).group().rsplit(" ")[-1].rsplit(":")[-1])
    assert 2_000 < line <= 5_001
    assert "a.jsonl.gz" in message and ("Fetch the file again" in message or "mend" in message or "UTF-8" in message)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"text": "caf\xe9"}', r"a\.jsonl:2: invalid UTF-8, byte 0xe9 at offset 13.*invalid_utf8=.replace"),
        (b'{"text": "half \\ud83d pair"}', r"a\.jsonl:2: invalid UTF-8"),
        (b'{"text": "open', r"a\.jsonl:2: not JSON"),
        (b'["text"]', r"a\.jsonl:2: a JSON list"),
        (b'{"body": "b", "n": 1}', r"a\.jsonl:2: no 'text'; it has \['body', 'n'\].*text_field"),
        (b'{"text": null}', r"a\.jsonl:2: no 'text'"),
        (b'{"text": 3}', r"a\.jsonl:2: field 'text' holds 3"),
        (b'{"text": "t", "n": ' + b"1" * 5_000 + b"}", r"a\.jsonl:2: not JSON .*4300 digits"),
    ],
)
def test_jsonl_bad_line_is_an_error_that_names_it(tmp_path, line, message):
    (tmp_path / "a.jsonl").write_bytes(lines({"text": "fine"}) + line + b"\n" + lines({"text": "fine too"}))
    with pytest.raises(StepFailed, match=message):
        read(tmp_path, str(tmp_path), format="jsonl")


def test_jsonl_invalid_utf8_under_replace_policy_is_kept_and_counted(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(
        b'{"text": "caf\xe9"}\n{"text": "half \\ud83d pair"}\n{"text": "fine", "x": "\\udc00"}\n'
    )
    result, documents = read(tmp_path, str(tmp_path), format="jsonl", invalid_utf8="replace")
    assert documents[0].text == "caf\ufffd"
    assert documents[1].text == "half \ufffd\ufffd\ufffd pair"  # one for each byte of the surrogate's encoding
    assert documents[2].text == "fine"
    assert result.replaced == 2


def test_jsonl_half_a_surrogate_pair_in_the_id_meets_the_policy_for_texts(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "t", "key": "\\ud83d"}\n')
    with pytest.raises(StepFailed, match=r"a\.jsonl:1: invalid UTF-8"):
        read(tmp_path, str(tmp_path), format="jsonl", id_field="key")
    result, documents = read(tmp_path, str(tmp_path), format="jsonl", id_field="key", invalid_utf8="replace")
    assert documents[0].source_id == "\ufffd" * 3 and result.replaced == 1


def test_metadata_numbers_that_json_lacks_become_strings(tmp_path):
    """pandas writes a missing number as NaN, which no JSON reader but Python's takes."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    columns = {"score": [1.5, math.nan, -math.inf], "nested": [{"x": [math.nan]}, {"x": [2.0]}, None]}
    pq.write_table(pa.table({"text": ["a", "b", "c"], **columns}), tmp_path / "a.parquet")
    (tmp_path / "b.jsonl").write_bytes(b'{"text": "d", "n": [NaN, {"m": Infinity}]}\n')
    _, rows = read(tmp_path, str(tmp_path / "a.parquet"), format="parquet")
    _, (line,) = read(tmp_path / "b", str(tmp_path / "b.jsonl"), format="jsonl")
    found = [json.loads(each.metadata, parse_constant=refuse) for each in (*rows, line)]
    assert [each.get("score") for each in found] == [1.5, "nan", "-inf", None]
    assert [each.get("nested") for each in found] == [{"x": ["nan"]}, {"x": [2.0]}, None, None]
    assert found[-1]["n"] == ["nan", {"m": "inf"}]


def test_jsonl_id_field_becomes_source_id_and_must_be_there(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(lines({"body": "b", "key": 7}))
    _, documents = read(tmp_path, str(tmp_path), format="jsonl", text_field="body", id_field="key")
    assert documents == [RawDocument("7", "b", '{"file": "a.jsonl"}')]
    with pytest.raises(StepFailed, match=r"a\.jsonl:1: no 'id'; it has \['key'\]"):
        read(tmp_path, str(tmp_path), format="jsonl", text_field="body", id_field="id")


@pytest.mark.parametrize(
    "text_type", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.string_view()]
)
def test_parquet_string_types_give_text_and_the_rest_as_metadata(tmp_path, text_type):
    table = pa.table({"text": pa.array(["a", "b", "a"]).cast(text_type), "meta": [{"k": 1}, None, {"k": 3}]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    _, documents = read(tmp_path, str(tmp_path), format="parquet")
    assert documents[0] == RawDocument("a.parquet:0", "a", '{"file": "a.parquet", "meta": {"k": 1}}')
    assert [document.text for document in documents] == ["a", "b", "a"]


def test_parquet_without_text_column_names_columns_and_field(tmp_path):
    pq.write_table(pa.table({"content": ["a"], "url": ["u"]}), tmp_path / "a.parquet")
    with pytest.raises(StepFailed, match=r"a\.parquet: no column 'text'; it has \['content', 'url'\]. Set text_field"):
        read(tmp_path, str(tmp_path), format="parquet")


def test_parquet_column_that_is_there_twice_is_refused(tmp_path):
    table = pa.table([pa.array(["a"]), pa.array(["b"]), pa.array(["c"])], names=["text", "text", "x"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(StepFailed, match=r"a\.parquet: 2 columns 'text'; it has \['text', 'text', 'x'\]"):
        read(tmp_path, str(tmp_path), format="parquet")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array(["a", None]), r"row 1: no 'text'"),
        (pa.array([1, 2]), r"column 'text' has type int64"),
        (
            pa.Array.from_buffers(pa.string(), 2, pa.array([b"ok", b"caf\xe9"]).buffers()),
            r"row 1: invalid UTF-8, byte 0xe9 at offset 3",
        ),
    ],
)
def test_parquet_bad_row_is_an_error_that_names_it(tmp_path, column, message):
    pq.write_table(pa.table({"text": column}), tmp_path / "a.parquet")
    with pytest.raises(StepFailed, match=message):
        read(tmp_path, str(tmp_path), format="parquet")


def test_parquet_damaged_file_is_an_error(tmp_path):
    pq.write_table(pa.table({"text": [f"text {index}" for index in range(1_000)]}), tmp_path / "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()
    for damaged in (b"", content[:-5], content[: len(content) // 2], b"PAR1" + bytes(len(content) - 4)):
        (tmp_path / "a.parquet").write_bytes(damaged)
        with pytest.raises(StepFailed, match=r"a\.parquet.*not a complete Parquet file.*Fetch the file again"):
            read(tmp_path, str(tmp_path), format="parquet")


def test_text_tree_one_document_a_file_in_order_of_path(tmp_path):
    for name, text in {"b/two.txt": "zwei\r\n", "a.txt": "\ufeffeins", "b/skip.py": "x", "b/c/three.txt": ""}.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_bytes(text.encode())
    result, documents = read(tmp_path, str(tmp_path / "tree"), format="text")
    assert [(document.source_id, document.text) for document in documents] == [
        ("a.txt", "eins"),
        ("b/c/three.txt", ""),
        ("b/two.txt", "zwei\r\n"),
    ]
    assert (result.files, result.documents, result.files_without_documents) == (3, 3, 0)


def test_text_file_invalid_utf8_names_its_line(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\nthr\xffee\n")
    with pytest.raises(StepFailed, match=r"a\.txt:3: invalid UTF-8, byte 0xff"):
        read(tmp_path, str(tmp_path), format="text")
    result, documents = read(tmp_path, str(tmp_path), format="text", invalid_utf8="replace")
    assert (documents[0].text, result.replaced) == ("one\ntwo\nthr\ufffdee\n", 1)


@pytest.mark.parametrize("name", ["a[1].md", "what?.md", "[draft]/a.md", "a[.md", "star*.md"])
def test_literal_path_with_a_pattern_s_characters_is_the_file_of_that_name(tmp_path, name):
    """Taken for a pattern, "a[1].md" was not found, or was another file: "a1.md"."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("meant")
    for other in ("a1.md", "whats.md", "starry.md"):
        (tmp_path / other).write_text("not meant")
    _, documents = read(tmp_path, str(tmp_path / name), format="markdown")
    assert [document.text for document in documents] == ["meant"]
    if "/" in name:
        _, documents = read(tmp_path / "folder", str((tmp_path / name).parent), format="markdown")
        assert [(document.source_id, document.text) for document in documents] == [("a.md", "meant")]


def test_markdown_glob_takes_matching_files_only(tmp_path):
    for name in ("docs/a.md", "docs/b.markdown", "docs/sub/c.md", "other/d.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"# {name}")
    _, documents = read(tmp_path, str(tmp_path / "docs" / "*.md"), format="markdown")
    assert [document.source_id for document in documents] == ["a.md"]
    _, documents = read(tmp_path, str(tmp_path / "d*" / "**"), format="markdown")
    assert sorted(document.source_id for document in documents) == ["docs/a.md", "docs/b.markdown", "docs/sub/c.md"]


def test_two_roots_with_a_file_of_one_name_keep_both(tmp_path):
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text(folder)
    result, documents = read(tmp_path, str(tmp_path / "x"), str(tmp_path / "y"), format="text")
    assert sorted(document.text for document in documents) == ["x", "y"]
    assert result.files == 2


@pytest.mark.parametrize(
    ("files", "message"),
    [({}, "no file is there"), ({"a.csv": "x"}, r"1 files are there, none ending in \.jsonl")],
)
def test_source_without_files_says_what_was_looked_for(tmp_path, files, message):
    (tmp_path / "in").mkdir()
    for name, content in files.items():
        (tmp_path / "in" / name).write_text(content)
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, str(tmp_path / "in"), format="jsonl")


def test_source_with_only_empty_files_fails_and_one_of_several_is_counted(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b"\n\n")
    with pytest.raises(StepFailed, match=r"sources/x: no document in 1 files \(a\.jsonl\)"):
        read(tmp_path, str(tmp_path), format="jsonl")
    (tmp_path / "b.jsonl").write_bytes(lines({"text": "b"}))
    result, _ = read(tmp_path, str(tmp_path), format="jsonl")
    assert (result.files, result.files_without_documents, result.documents) == (2, 1, 1)


def test_hub_url_is_read_through_the_same_filesystem_interface(tmp_path, monkeypatch):
    class Hub(DirFileSystem):
        """Stands for Hugging Face's filesystem: same protocol and URLs, over a local folder."""

        protocol = "hf"

        def __init__(self, **options):
            super().__init__(path=str(tmp_path / "hub"), fs=LocalFileSystem(), **options)

        @classmethod
        def _strip_protocol(cls, path):
            return path.removeprefix("hf://")

        def unstrip_protocol(self, name):
            return f"hf://{name}"

    data = tmp_path / "hub/datasets/owner/set/data"
    data.mkdir(parents=True)
    pq.write_table(pa.table({"text": ["from the hub"]}), data / "train-00000.parquet")
    monkeypatch.setitem(importlib.import_module("fsspec.registry")._registry, "hf", Hub)
    _, documents = read(tmp_path, "hf://datasets/owner/set/data", format="parquet")
    _, globbed = read(tmp_path, "hf://datasets/owner/set/*/train-*.parquet", format="parquet")
    assert [(document.source_id, document.text) for document in documents] == [
        ("train-00000.parquet:0", "from the hub")
    ]
    assert [document.source_id for document in globbed] == ["data/train-00000.parquet:0"]


def test_files_of_an_object_store_are_read_as_those_of_a_disk(remote, tmp_path):
    here = tmp_path / "in"
    (here / "sub").mkdir(parents=True)
    (here / "sub/a.jsonl.gz").write_bytes(gzip.compress(lines(*({"text": f"row {n}"} for n in range(999)))))
    (here / "b[1].jsonl").write_bytes(lines({"text": "b"}))
    pq.write_table(pa.table({"text": ["one", "two"]}), here / "c.parquet")
    with local_folder(f"{remote}/in") as folder:
        shutil.copytree(here, folder, dirs_exist_ok=True)
    for below, format in (("", "jsonl"), ("", "parquet"), ("/*/a.*", "jsonl"), ("/b[1].jsonl", "jsonl")):
        _, there = read(tmp_path / "there", f"{remote}/in{below}", format=format)
        assert there and there == read(tmp_path / "here", f"{here}{below}", format=format)[1]
    assert manifest_digest(f"{remote}/in") == manifest_digest(str(here))


def test_adopt_stated_manifest_admits_the_files_wherever_they_lie(tmp_path):
    outputs = []
    for place in ("here", "there/deeper"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "a.jsonl").write_bytes(lines({"text": "a"}))
        outputs.append(manifest_digest(str(tmp_path / place)))
        out = DirectoryOut(tmp_path / "out" / place)
        reading = FileFormat(format="jsonl")
        result = adopt_files(AdoptConfig(path=str(tmp_path / place), manifest=outputs[0], reading=reading), out)
        assert (result.documents, result.manifest) == (1, outputs[0])
    assert outputs[0] == outputs[1]


def test_manifest_digest_agrees_with_its_definition(tmp_path):
    (tmp_path / "in/sub").mkdir(parents=True)
    (tmp_path / "in/b.txt").write_bytes(b"")
    (tmp_path / "in/sub/a.txt").write_bytes(b"x")
    listed = '["b.txt", 0, "99aa06d3014798d86001c324468d497f"]\n["sub/a.txt", 1, "'
    listed += xxhash.xxh3_128(b"x").hexdigest() + '"]\n'
    assert manifest_digest(str(tmp_path / "in")) == hashlib.sha256(listed.encode()).hexdigest()


@pytest.mark.parametrize("change", ["content", "name", "more", "fewer"])
def test_adopt_other_bytes_are_a_mismatch_that_gives_both_digests(tmp_path, change):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text(name)
    stated = manifest_digest(str(folder))
    if change == "content":
        (folder / "a.txt").write_text("A.txt")
    elif change == "name":
        (folder / "a.txt").rename(folder / "c.txt")
    elif change == "more":
        (folder / "c.txt").write_text("")
    else:
        (folder / "b.txt").unlink()
    config = AdoptConfig(path=str(folder), manifest=stated, reading=FileFormat(format="text"))
    with pytest.raises(IdentityMismatch, match=rf"have manifest [0-9a-f]{{64}}, but the experiment states {stated}"):
        adopt_files(config, DirectoryOut(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("field", "value"), [("format", "csv"), ("invalid_utf8", "ignore")])
def test_file_format_value_out_of_range_names_the_field(field, value):
    with pytest.raises(ConfigError, match=rf"FileFormat\.{field}: '{value}'"):
        FileFormat(**{"format": "jsonl", field: value})


@pytest.mark.parametrize("paths", ["data", ()])
def test_files_config_paths_must_be_a_tuple_of_some(paths):
    with pytest.raises(ConfigError, match=r"FilesConfig\.paths"):
        FilesConfig(paths=paths, reading=FileFormat(format="jsonl"))
