"""How well injected benchmark items are found: HumanEval prompts put into real docstrings in different ways.

The table that is printed says what the rule is good for (copies, however wrapped, commented out or surrounded) and what it is
not (a paraphrase).
"""

import ast
import importlib.metadata
import random
from pathlib import Path

from steps.decontaminate.benchmarks import HUMANEVAL, read_package_benchmark
from steps.decontaminate.rules import Boilerplate, Thresholds
from steps.documents import document_id
from tests.steps.decontaminate.document_sets import decontaminate, write_documents

MODULES = ("_continuous_distns.py", "_stats_py.py", "_distribution_infrastructure.py", "_morestats.py", "_qmc.py")


def docstrings():
    """Returns the distinct docstrings of some modules of scipy.stats of 40 words and more, sorted."""
    found = set()
    for module in MODULES:
        path = Path(str(importlib.metadata.distribution("scipy").locate_file(f"scipy/stats/{module}")))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(ast.get_docstring(node) or "")
    return sorted(text for text in found if len(text.split()) >= 40)


def filler(carriers, count, rng):
    words = " ".join(rng.sample(carriers, 8)).split()
    start = rng.randrange(max(1, len(words) - count))
    return " ".join(words[start : start + count])


def inside(item, carriers, times, rng):
    """The item in the middle of one paragraph, with `times` its length of other text around it."""
    half = max(1, len(item.split()) * times // 2)
    return f"{filler(carriers, half, rng)} {' '.join(item.split())} {filler(carriers, half, rng)}"


def wrapped(item):
    words = item.split()
    return "\n".join(" ".join(words[i : i + 8]) for i in range(0, len(words), 8))


def altered(item, rng):
    words = item.split()
    return " ".join(word if number % 8 else rng.choice(["thing", "value", "case"]) for number, word in enumerate(words))


WAYS = {
    "verbatim": lambda item, carriers, rng: item,
    "wrapped at 8 words": lambda item, carriers, rng: wrapped(item),
    "commented out": lambda item, carriers, rng: "\n".join("# " + line for line in item.split("\n")),
    "prefixed": lambda item, carriers, rng: f"Question: {item}",
    "paragraph of a document": lambda item, carriers, rng: (
        f"{rng.choice(carriers)}\n\n{item}\n\n{rng.choice(carriers)}"
    ),
    "inside a paragraph, 1x": lambda item, carriers, rng: inside(item, carriers, 1, rng),
    "inside a paragraph, 4x": lambda item, carriers, rng: inside(item, carriers, 4, rng),
    "every 8th word altered": lambda item, carriers, rng: altered(item, rng),
}


def test_injection_recall_and_precision_by_way_of_copying(tmp_path, capsys):
    rng = random.Random(0)
    carriers = docstrings()
    assert len(carriers) > 200
    items = [r.text for r in read_package_benchmark(HUMANEVAL) if r.benchmark == "humaneval/prompt"]
    texts = {way: [make(item, carriers, rng) for item in items] for way, make in WAYS.items()}
    sources = [
        write_documents(tmp_path, "clean", carriers),
        *(write_documents(tmp_path, f"way{number}", texts[way]) for number, way in enumerate(WAYS)),
    ]

    def run(name, thresholds):
        rule = Boilerplate(documents=10**9)  # the same items in nine sources would be boilerplate
        options = {"package_benchmarks": (HUMANEVAL,), "thresholds": thresholds, "boilerplate": rule}
        _, tables = decontaminate(tmp_path / name, sources, [], **options)
        found = {
            way: sum(document_id(text) in tables[f"way{number}"] for text in texts[way]) / len(items)
            for number, way in enumerate(WAYS)
        }
        return found, len(tables["clean"])

    recall, false = run("default", Thresholds())
    recall_paragraphs, false_paragraphs = run("paragraphs", Thresholds(item_coverage=None))
    with capsys.disabled():
        print(f"\ninjected into {len(carriers)} real docstrings: 164 HumanEval prompts; recall")
        for way in WAYS:
            print(f"  {way:28} {recall[way]:.3f}   by paragraphs alone: {recall_paragraphs[way]:.3f}")
        print(f"  {false} of {len(carriers)} clean found; {false_paragraphs} by paragraphs alone")

    for way in ("verbatim", "commented out", "prefixed", "paragraph of a document", "wrapped at 8 words"):
        assert recall[way] == 1.0, way
    for way in ("inside a paragraph, 1x", "inside a paragraph, 4x"):
        assert recall[way] >= 0.99, way
    assert recall_paragraphs["inside a paragraph, 4x"] <= 0.05
    assert false == 0
