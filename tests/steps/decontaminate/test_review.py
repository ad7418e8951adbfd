"""The review page and the comparison of two runs, made by the steps from a real run."""

import json
from html.parser import HTMLParser

import pytest

from marin_exec import ConfigError, StepFailed
from steps.decontaminate.compare import CompareConfig, compare
from steps.decontaminate.masked import pieces
from steps.decontaminate.review import ReviewConfig, review
from steps.decontaminate.rules import Boilerplate, Thresholds
from steps.documents import document_id, read_table
from tests.directory_out import DirectoryOut
from tests.steps.decontaminate.document_sets import decontaminate, suite, write_documents

WORDS = [f"word{number}" for number in range(40)]
HOSTILE = '<script>alert("x")</script></title>&amp; mail jane.doe@example.org or +49 30 1234567 today please'
ITEM = f"{HOSTILE} {' '.join(WORDS)}"
FILLER = " ".join(f"filler{number}" for number in range(100))
OFF = Boilerplate(documents=10**9, source_documents=10**9)


@pytest.fixture
def run(tmp_path):
    """Returns a function that runs the stage under a name; a web source and a mail source hold the item."""
    sources = [
        write_documents(tmp_path, "web", [f"{ITEM} Copied.", f"{FILLER} {ITEM}", FILLER]),
        write_documents(tmp_path, "mail", [f"From me: {ITEM}"]),
    ]
    benchmarks = [suite(tmp_path, "held", [ITEM]), suite(tmp_path, "other", [" ".join(WORDS)])]

    def make(name, **options):
        decontaminate(tmp_path / name, sources, benchmarks, boilerplate=OFF, **options)
        return str(tmp_path / name)

    return make


class Page(HTMLParser):
    """Collects tags, the marked text, and all text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.marked, self.text, self.inside = [], [], "", False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.inside = tag == "mark"
        if self.inside:
            self.marked.append("")

    def handle_endtag(self, tag):
        self.inside = self.inside and tag != "mark"

    def handle_data(self, data):
        self.text += data
        if self.inside:
            self.marked[-1] += data


def test_review_shows_document_and_item_side_by_side(run, tmp_path):
    out = DirectoryOut(tmp_path / "review")
    (tmp_path / "review").mkdir()
    result = review(ReviewConfig(contaminated=run("run"), title="<b>Check</b>"), out)
    page = Page((tmp_path / "review/index.html").read_text())
    assert result.documents_flagged == 3 and result.hits_shown == 6 and result.hits_withheld == 0
    assert "script" not in page.tags and "b" not in page.tags
    assert 'script>alert("x")' in page.text  # the text is there, as text
    assert "jane.doe" not in page.text and "1234567" not in page.text
    assert len(page.marked) == 12 and all(mark.endswith(WORDS[-1]) for mark in page.marked)
    assert sum(mark.startswith("script") for mark in page.marked) == 6 + 3  # "other" begins with the words
    values = json.loads((tmp_path / "review/review.json").read_text())
    assert [(each["name"], each["flagged"], each["items_met"]) for each in values["benchmarks"]] == [
        ("held", 3, 1),
        ("other", 3, 1),
    ]
    assert [(each["benchmark"], each["documents"]) for each in values["items"]] == [("held", 3), ("other", 3)]


def test_review_withholds_texts_of_sources_that_must_not_be_shown(run, tmp_path):
    (tmp_path / "review").mkdir()
    config = ReviewConfig(contaminated=run("run"), never_show=("mail",), items_shown=1)
    result = review(config, DirectoryOut(tmp_path / "review"))
    assert (result.hits_shown, result.hits_withheld) == (4, 2)
    for name in ("index.html", "review.json"):
        text = (tmp_path / "review" / name).read_text()
        assert "From me" not in text and document_id(f"From me: {ITEM}") in text
    page = Page((tmp_path / "review/index.html").read_text())
    assert "not shown, personal data" in page.text and "1 of 2, those of which a document has most" in page.text


def test_compare_names_every_document_that_changed_and_the_page_shows_them(run, tmp_path):
    strict, default = run("strict", thresholds=Thresholds(item_coverage=None)), run("default")
    for name in ("changes", "back", "same", "review"):
        (tmp_path / name).mkdir()
    sources = ("web", "mail")
    result = compare(CompareConfig(before=strict, after=default, sources=sources), DirectoryOut(tmp_path / "changes"))
    embedded = document_id(f"{FILLER} {ITEM}")
    assert result.found == {"web": 1, "mail": 0} and result.lost == {"web": 0, "mail": 0}
    assert result.before == {"web": 1, "mail": 1} and result.found_by_benchmark == {"held": 1, "other": 1}
    [row] = read_table(str(tmp_path / "changes"), "changes.parquet").to_pylist()
    assert (row["id"], row["change"], row["benchmark_before"], row["benchmark_after"]) == (
        embedded,
        "found",
        None,
        "held,other",
    )
    assert row["coverage_after"] == 1.0
    back = compare(CompareConfig(before=default, after=strict, sources=sources), DirectoryOut(tmp_path / "back"))
    assert back.lost == result.found and back.lost_by_benchmark == result.found_by_benchmark
    same = compare(CompareConfig(before=default, after=default, sources=sources), DirectoryOut(tmp_path / "same"))
    assert not any([*same.found.values(), *same.lost.values(), *same.other_benchmarks.values()])
    review(ReviewConfig(contaminated=default, comparison=str(tmp_path / "changes")), DirectoryOut(tmp_path / "review"))
    page = Page((tmp_path / "review/index.html").read_text())
    assert "1 documents are judged otherwise: 1 found" in page.text and embedded in page.text


def test_compare_tells_other_benchmarks_apart(tmp_path):
    source = write_documents(tmp_path, "web", [f"{ITEM} Copied."])
    names = (["held"], ["held", "other"])
    for benchmarks in names:
        suites = [suite(tmp_path, name, [ITEM]) for name in benchmarks]
        decontaminate(tmp_path / str(len(benchmarks)), [source], suites, boilerplate=OFF)
    (tmp_path / "changes").mkdir()
    config = CompareConfig(before=str(tmp_path / "1"), after=str(tmp_path / "2"), sources=("web",))
    result = compare(config, DirectoryOut(tmp_path / "changes"))
    assert result.other_benchmarks == {"web": 1} and result.found_by_benchmark == {"other": 1}


def test_compare_refuses_bad_sources(run, tmp_path):
    with pytest.raises(ConfigError, match="each once"):
        CompareConfig(before="a", after="b", sources=("web", "web"))
    made = run("run")
    with pytest.raises(StepFailed, match="none: no part"):
        compare(CompareConfig(before=made, after=made, sources=("none",)), DirectoryOut(tmp_path))


def test_samples_show_the_paragraph_with_most_hits_and_begin_near_the_shared_words(tmp_path):
    long = f"{FILLER}\n\n{' '.join(WORDS)}\n\n{FILLER} end"
    copy = f"{' '.join(WORDS[:14])}\n\nOf it: {' '.join(WORDS)}"
    source = write_documents(tmp_path, "web", [copy])
    decontaminate(tmp_path / "run", [source], [suite(tmp_path, "held", [long])], boilerplate=OFF)
    [sample] = json.loads((tmp_path / "run/flagged_samples.json").read_text())["held"]
    assert sample["max_overlap"] == 1.0  # of the first paragraph, which has two features only
    assert sample["paragraph"] == {
        "text": f"Of it: {' '.join(WORDS)}",
        "marks": [[7, 7 + len(" ".join(WORDS))]],
        "cut": False,
    }
    [(first, after)] = sample["item"]["marks"]
    assert sample["item"]["cut"] and first == 200
    assert sample["item"]["text"][first:after] == " ".join(WORDS)


def test_pieces_join_to_the_text():
    passage = {"text": "abcdef", "marks": [[0, 2], [4, 6]]}
    assert pieces(passage) == [("ab", True), ("cd", False), ("ef", True)]
    assert pieces({"text": "abc", "marks": []}) == [("abc", False)]
