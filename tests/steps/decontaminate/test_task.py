"""Suites from task files and data files, as users have them."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
import zstandard

from marin_exec import ConfigError, IdentityMismatch, StepFailed
from steps.decontaminate.harness_yaml import Tagged, parse_yaml, read_task
from steps.decontaminate.item_fields import ItemFields
from steps.decontaminate.items import read_items
from steps.decontaminate.rules import Boilerplate
from steps.decontaminate.task import TaskConfig, task_items
from steps.decontaminate.task_fields import fields_of_task
from steps.documents import document_id
from tests.directory_out import DirectoryOut
from tests.steps.decontaminate.document_sets import decontaminate, suite, write_documents

ITEMS = [
    {
        "question": f"Which of the {number} travellers in the tale reached the walled city before the gates were closed?",
        "choices": {"text": ["the miller", "the tailor"], "label": ["A", "B"]},
        "answer": f"the tailor, who had left the inn at dawn and walked all {number} miles without a single rest",
        "hint": "none",
    }
    for number in range(2, 6)
]
QUESTION = ItemFields(question=("question",))


def write(path, rows):
    """Writes rows in the format of the file's name; returns its checksum."""
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    table = pa.Table.from_pylist(rows)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".arrow":
        opened = pa.ipc.new_stream if "stream" in path.name else pa.ipc.new_file
        with opened(str(path), table.schema) as writer:
            writer.write_table(table)
    else:
        compress = {".gz": gzip.compress, ".zst": zstandard.compress}.get(path.suffix, lambda data: data)
        path.write_bytes(compress(lines))
    return xxhash.xxh3_128_hexdigest(path.read_bytes())


def config(path, rows=ITEMS, **options):
    checksum = write(path, rows)
    return TaskConfig(
        **{"name": "tale", "data": str(path), "checksum": checksum, "expected_items": len(rows)} | options
    )


def run(root, made):
    root.mkdir(parents=True, exist_ok=True)
    return task_items(made, DirectoryOut(root)), read_items(str(root))


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.jsonl.zst", "t.parquet", "t.arrow", "t.stream.arrow"])
def test_task_every_format_gives_the_same_items(tmp_path, name):
    fields = ItemFields(question=("question",), choices=("choices.text",), answer=("answer",))
    result, records = run(tmp_path / "out", config(tmp_path / name, fields=fields))
    assert (result.items, result.records) == (4, 12)
    assert [record.benchmark for record in records[:3]] == ["tale/question", "tale/item", "tale/answer"]
    assert records[1].text == ITEMS[0]["question"] + "\nA. the miller\nB. the tailor"
    assert [record.required for record in records[:3]] == [False, True, False]
    assert [record.name for record in records[::3]] == ["1", "2", "3", "4"]


def test_task_fields_are_taken_from_the_task_file_with_its_includes(tmp_path):
    (tmp_path / "tasks/sub").mkdir(parents=True)
    (tmp_path / "tasks/_base_yaml").write_text(
        "doc_to_text: 'Q: {{question.strip()}}\\nA:'\ndoc_to_target: '{{answer}}'\nprocess_docs: !function utils.docs\n"
    )
    (tmp_path / "tasks/sub/tale.yaml").write_text("include: ../_base_yaml\ntask: tale\ndoc_to_choice: choices\n")
    made = config(tmp_path / "t.jsonl", task=str(tmp_path / "tasks/sub/tale.yaml"), id_field="answer")
    result, records = run(tmp_path / "out", made)
    assert result.fields == ItemFields(question=("question",), choices=("choices",), answer=("answer",))
    assert records[1].text.endswith("A. the miller\nB. the tailor")  # labels are no choices
    assert records[0].name == ITEMS[0]["answer"]


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ({"doc_to_text": "text"}, ItemFields(question=("text",))),
        (
            {"doc_to_text": "{{passage}}\nQuestion: {{question}}?\nAnswer:", "doc_to_target": "label"},
            ItemFields(question=("question",), passage=("passage",), answer=("label",)),
        ),
        (
            {"doc_to_text": "{{question}}\nA. {{A}}\nB. {{B}}", "doc_to_target": 0, "doc_to_choice": ["A", "B"]},
            ItemFields(question=("question",), choices=("A", "B")),
        ),
        (
            {"doc_to_text": "{% if answer %}{{question}}{% endif %}", "doc_to_target": "{{answer.split('#')[-1]}}"},
            ItemFields(question=("question",), answer=("answer",)),
        ),
        ({"doc_to_text": "", "doc_to_choice": "{{[good, bad]}}"}, ItemFields(question=("good", "bad"))),
        (
            {"doc_to_text": Tagged("utils.text"), "doc_to_decontamination_query": "prompt"},
            ItemFields(question=("prompt",)),
        ),
    ],
)
def test_task_fields_of_templates(task, expected):
    assert fields_of_task(task, "t.yaml") == expected


@pytest.mark.parametrize("task", [{"doc_to_text": Tagged("utils.text")}, {"doc_to_text": "Say it:"}, {}])
def test_task_without_plain_fields_asks_for_their_names(task):
    with pytest.raises(ConfigError, match=r"t\.yaml: doc_to_text is .* names no field.*fields=ItemFields"):
        fields_of_task(task, "t.yaml")


def test_task_file_tags_are_names_and_never_run(tmp_path):
    assert parse_yaml(b"a: !function os.system\nb: [1, !x y]", "t") == {"a": "os.system", "b": [1, "y"]}
    (tmp_path / "a.yaml").write_text("include: b.yaml\n")
    (tmp_path / "b.yaml").write_text("include: a.yaml\n")
    with pytest.raises(StepFailed, match="includes itself"):
        read_task(str(tmp_path / "a.yaml"))
    (tmp_path / "c.yaml").write_text("include: gone.yaml\n")
    with pytest.raises(ConfigError, match=r"gone\.yaml: no such file, which .*c\.yaml includes"):
        read_task(str(tmp_path / "c.yaml"))
    for text in ("{", "- 1\n"):
        (tmp_path / "d.yaml").write_text(text)
        with pytest.raises(StepFailed, match=r"d\.yaml: (not YAML|holds a list)"):
            read_task(str(tmp_path / "d.yaml"))


def test_task_other_bytes_or_another_number_of_items_are_refused(tmp_path):
    made = config(tmp_path / "t.jsonl", fields=QUESTION)
    with pytest.raises(StepFailed, match=r"4 items in .*, 3 expected"):
        run(tmp_path / "out", TaskConfig(**{**vars(made), "expected_items": 3}))
    (tmp_path / "t.jsonl").write_text("{}\n")
    with pytest.raises(IdentityMismatch, match="has checksum .* not " + made.checksum):
        run(tmp_path / "out", made)
    with pytest.raises(ConfigError, match=r"gone\.jsonl is not there"):
        run(tmp_path / "out", TaskConfig(**{**vars(made), "data": str(tmp_path / "gone.jsonl")}))


def test_task_bad_data_is_named(tmp_path):
    with pytest.raises(StepFailed, match=r"item 1 has no field 'choices.labels' \(found \['label', 'text'\]\)"):
        run(tmp_path / "o", config(tmp_path / "t.jsonl", fields=ItemFields(question=("choices.labels",))))
    with pytest.raises(StepFailed, match="two items are named 'none'"):
        run(tmp_path / "o", config(tmp_path / "t.jsonl", fields=QUESTION, id_field="hint"))
    with pytest.raises(StepFailed, match="item 1 has no 'name'; it has"):
        run(tmp_path / "o", config(tmp_path / "t.jsonl", fields=QUESTION, id_field="name"))
    made = config(tmp_path / "t.jsonl", fields=QUESTION)
    for name in ("cut.jsonl.gz", "cut.jsonl.zst", "cut.parquet", "cut.arrow", "cut.jsonl"):
        write(tmp_path / name, ITEMS)
        data = (tmp_path / name).read_bytes()[:-30]
        (tmp_path / name).write_bytes(data)
        cut = {"data": str(tmp_path / name), "checksum": xxhash.xxh3_128_hexdigest(data)}
        with pytest.raises(StepFailed, match="cannot be read"):
            run(tmp_path / "o", TaskConfig(**{**vars(made), **cut}))


def test_task_config_is_refused_without_fields_or_known_format():
    with pytest.raises(ConfigError, match="neither task nor fields"):
        TaskConfig(name="x", data="x.jsonl", checksum="", expected_items=1)
    with pytest.raises(ConfigError, match=r"'x\.csv'; a file ending in \.jsonl"):
        TaskConfig(name="x", data="x.csv", checksum="", expected_items=1, fields=QUESTION)
    with pytest.raises(ConfigError, match="question is empty"):
        ItemFields(question=())


def test_task_is_a_suite_of_the_scan_with_its_parts_told_apart(tmp_path):
    fields = ItemFields(question=("question",), choices=("choices.text",), answer=("answer",))
    run(tmp_path / "tale", config(tmp_path / "t.jsonl", fields=fields))
    run(tmp_path / "other", config(tmp_path / "u.jsonl", ITEMS[:1], name="other", fields=QUESTION))
    texts = {
        "question": "filler " * 40 + ITEMS[0]["question"],
        "answer": "Read: " + ITEMS[1]["answer"],
        "none": "filler " * 40,
    }
    source = write_documents(tmp_path, "web", texts.values())
    suites = (str(tmp_path / "tale"), str(tmp_path / "other"))
    result, tables = decontaminate(tmp_path / "out", [source], [], suites=suites, boilerplate=Boilerplate(documents=99))
    found = {part: tables["web"].get(document_id(text), {}).get("benchmark") for part, text in texts.items()}
    assert found == {"question": "other/question,tale/item,tale/question", "answer": "tale/answer", "none": None}
    assert result.records["tale/item"] == 4 and result.contaminated_by_benchmark["other/question"] == 1


def test_scan_refuses_two_suites_of_one_name_and_suites_without_records(tmp_path):
    run(tmp_path / "tale", config(tmp_path / "t.jsonl", fields=QUESTION))
    source = write_documents(tmp_path, "web", ["some text of a few words"])
    with pytest.raises(StepFailed, match=r"\['tale/question'\] is in two suites"):
        decontaminate(tmp_path / "out", [source], [], suites=(str(tmp_path / "tale"), str(tmp_path / "tale")))
    mine = suite(tmp_path, "tale/question", ["text of a few words"])
    with pytest.raises(StepFailed, match=r"\['tale/question'\] is in two suites"):
        decontaminate(tmp_path / "out2", [source], [mine], suites=(str(tmp_path / "tale"),))
    with pytest.raises(StepFailed, match=r"items\.parquet: no such"):
        decontaminate(tmp_path / "out3", [source], [], suites=(str(tmp_path / "gone"),))


def test_scan_stops_on_a_required_item_without_features(tmp_path):
    run(tmp_path / "tale", config(tmp_path / "t.jsonl", [{"question": "Why?"}, *ITEMS], fields=QUESTION))
    source = write_documents(tmp_path, "web", ["some text of a few words"])
    with pytest.raises(StepFailed, match=r"give no feature.*tale/question: 1 records \(1\)"):
        decontaminate(tmp_path / "out", [source], [], suites=(str(tmp_path / "tale"),))
