"""Files of steps are read and written alike on a local disk, in memory, on GCS and on S3."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from marin_exec import open_file
from steps import files
from steps.documents import document_id, read_table, shard_names, write_table
from steps.sources.raw import RawDocument, read_raw, write_raw

ROOT = Path(__file__).parents[2]
NAMES = ("below/deeper/x.bin", "glob[1]*.txt", "plain.txt", "space & %41 + ä.txt")


def fill(base: str) -> None:
    for name in NAMES:
        if files.is_local(base):  # `Out.file` makes parents; here nobody does
            (Path(base) / name).parent.mkdir(parents=True, exist_ok=True)
        files.write_bytes(f"{base}/{name}", name.encode())


def found(directory: str) -> dict[str, bytes]:
    return {
        str(each.relative_to(directory)): each.read_bytes() for each in Path(directory).rglob("*") if each.is_file()
    }


@pytest.fixture
def temporary(tmp_path, monkeypatch) -> Path:
    """The folder that temporary files are made in."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def check_files(base: str) -> None:
    fill(base)
    assert files.read_bytes(f"{base}/{NAMES[0]}") == NAMES[0].encode()
    assert files.names_in(base) == ["below", *NAMES[1:]]
    assert files.names_in(base, only_directories=True) == ["below"]
    assert files.names_in(f"{base}/{NAMES[2]}") == files.names_in(f"{base}/none") == []
    with pytest.raises(FileNotFoundError):
        files.read_bytes(f"{base}/none")
    with pytest.raises(FileNotFoundError), files.local_copy(f"{base}/none"):
        pass
    with files.local_copy(base) as local:
        assert found(local) == {name: name.encode() for name in NAMES}
    files.write_json(f"{base}/value.json", {"b": [1, "ä"], "a": None})
    assert files.read_bytes(f"{base}/value.json") == json.dumps({"b": [1, "ä"], "a": None}, indent=1).encode()
    with open_file(f"{base}/text", "w") as file:
        file.writelines(["one\n", "two\n"])
        file.flush()
    with open_file(f"{base}/text", "rb") as file:
        assert list(file) == [b"one\n", b"two\n"]


def test_files_on_a_local_disk(tmp_path):
    check_files(str(tmp_path))


def test_files_elsewhere(remote, temporary):
    check_files(remote)
    assert not list(temporary.iterdir())


def test_local_paths_are_given_themselves_and_copied_nowhere(tmp_path, temporary):
    fill(str(tmp_path / "there"))
    with files.local_copy(str(tmp_path / "there")) as local:
        assert local == str(tmp_path / "there") and not list(temporary.iterdir())
    with files.local_folder(str(tmp_path / "new/folder")) as local:
        assert local == str(tmp_path / "new/folder") and Path(local).is_dir() and not list(temporary.iterdir())


def test_local_folder_is_put_in_place_when_the_block_ends_well(remote, temporary):
    with files.local_folder(f"{remote}/made") as local:
        fill(local)
        assert not files.names_in(f"{remote}/made")
    with files.local_copy(f"{remote}/made") as local:
        assert found(local) == {name: name.encode() for name in NAMES}
    assert not list(temporary.iterdir())


def test_local_folder_of_a_block_that_fails_leaves_nothing(remote, temporary):
    with pytest.raises(ZeroDivisionError), files.local_folder(f"{remote}/made") as local:
        fill(local)
        1 / 0  # noqa: B018
    assert not files.names_in(f"{remote}/made") and not list(temporary.iterdir())


ELSEWHERE = "import sys; from steps import files; files.write_bytes(sys.argv[1], b'new')"


def test_names_that_another_process_made_a_moment_ago_are_seen(remote):
    if remote.startswith("memory://"):
        pytest.skip("memory is of one process")
    files.write_bytes(f"{remote}/folder/first", b"")
    assert files.names_in(f"{remote}/folder") == ["first"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", ELSEWHERE, f"{remote}/folder/second"], env=env, check=True, timeout=100)
    assert files.names_in(f"{remote}/folder") == ["first", "second"]
    assert files.read_bytes(f"{remote}/folder/second") == b"new"


def test_tables_and_raw_documents_have_the_same_bytes_everywhere(remote, tmp_path):
    texts = sorted((f"text {number} ä" * (number % 7 + 1) for number in range(5_000)), key=document_id)
    table = pa.table({"id": [document_id(text) for text in texts], "text": texts})
    documents = [RawDocument(str(number), text, "{}") for number, text in enumerate(texts)]
    for base in (remote, str(tmp_path)):
        write_table(f"{base}/part-00000.parquet", table)
        write_raw(f"{base}/raw-00000.parquet", documents)
    for name in ("part-00000.parquet", "raw-00000.parquet"):
        assert files.read_bytes(f"{remote}/{name}") == (tmp_path / name).read_bytes()
    assert shard_names(remote) == ["part-00000.parquet"]
    assert read_table(remote, "part-00000.parquet", ["text"])["text"].to_pylist() == texts
    assert list(read_raw(remote)) == documents


STREAMED = """
import os, resource, sys
from marin_exec import open_file
from steps.files import write_bytes
write_bytes(sys.argv[1] + "/small", b"")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with open_file(sys.argv[1] + "/large", "wb") as file:
    for _ in range(int(sys.argv[2])):
        file.write(os.urandom(1 << 20))
with open_file(sys.argv[1] + "/large", "rb") as file:
    assert sum(len(piece) for piece in iter(lambda: file.read(1 << 20), b"")) == int(sys.argv[2]) << 20
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def test_large_files_are_streamed_not_held(remote):
    if remote.startswith("memory://"):
        pytest.skip("memory holds what it is given")
    megabytes, most = (100, 70) if remote.startswith("gs://") else (300, 230)  # some blocks: about 30 and 160 MB
    command, env = [sys.executable, "-c", STREAMED, remote, str(megabytes)], {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < most


def test_no_step_opens_files_by_another_way():
    """The whole kind: a step that opened a path itself would work on local disks and nowhere else."""
    allowed = {"steps/decontaminate/benchmarks.py"}  # reads an installed distribution
    for path in sorted((ROOT / "steps").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                modules = [each.name for each in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                assert not any(each.split(".")[0] == "fsspec" for each in modules), f"{name}:{node.lineno}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "open" or name in allowed, f"{name}:{node.lineno} opens a file itself"
