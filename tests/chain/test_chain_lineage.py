"""From a checkpoint of the hero up to the raw text with everything that made it, and down again."""

import subprocess

import pytest
from chain_store import PROJECT

pytestmark = pytest.mark.timeout(900)  # the first test of a session waits for the cold run

SOURCES = {"sources/code", "sources/docstrings", "sources/licences"}
MADE_INTO_THE_HERO = {
    "hero",
    "tokens/train",
    "tokens/evaluation",
    "mix/weights",
    "tokenizer",
    "mix/cells",
    "dedup/exact",
    "dedup/fuzzy",
    "quality/heuristics",
    "quality/scores",
    "quality/classifier",
    "quality/labels",
    "decontaminate",
    "heldout",
    "cluster/topics",
    "embed/documents",
    "embed/table",
    "documents/code",
    "documents/docstrings",
    "documents/licences",
    *SOURCES,
}
WAITED_FOR = {"forecast", "ladder/d16", "ladder/d32", "ladder/d48"}


@pytest.fixture(scope="module")
def checkpoint(finished):
    return finished.output(finished.record("hero")) / "checkpoints" / "step-100"


def in_git_checkout() -> bool:
    done = subprocess.run(["git", "-C", str(PROJECT), "rev-parse", "HEAD"], capture_output=True, check=False)
    return done.returncode == 0


def test_lineage_of_a_hero_checkpoint_names_every_step_commit_config_and_count_up_to_the_sources(finished, checkpoint):
    assert checkpoint.is_dir()
    found = finished.json("lineage", str(checkpoint))
    assert found["artifact"]["name"] == "hero" and found["artifact"]["sub_path"] == "checkpoints/step-100"
    nodes = {node["name"]: node["record"] for node in found["nodes"]}
    assert set(nodes) == MADE_INTO_THE_HERO | WAITED_FOR
    if in_git_checkout():
        assert all(len(record["provenance"]["git"]["commit"]) == 40 for record in nodes.values())
    for name, record in nodes.items():
        assert record["identity"]["kind"] == record["kind"], name
        assert record["result"], name
        assert record["source"]["functions"], name
    raw = nodes["sources/code"]
    assert "starlette==" in str(raw["identity"])
    assert raw["result"]["documents"] == nodes["documents/code"]["result"]["documents_in"]
    documents = sum(nodes[f"documents/{name}"]["result"]["documents"] for name in ("code", "docstrings", "licences"))
    funnel = nodes["mix/cells"]["result"]
    assert funnel["documents_in"] == documents == nodes["dedup/fuzzy"]["result"]["documents_in"]
    assert funnel["fuzzy_duplicates"] <= nodes["dedup/fuzzy"]["result"]["removed"]
    gone = ("exact_duplicates", "fuzzy_duplicates", "dropped_by_heuristics", "contaminated", "held_out")
    assert documents - sum(funnel[each] for each in gone) == funnel["documents_kept"]
    assert funnel["documents_kept"] == nodes["tokens/train"]["result"]["documents"]


def test_lineage_as_text_shows_commit_config_and_counts_on_the_way(finished, checkpoint):
    text = finished.call("lineage", str(checkpoint)).stdout
    assert text.startswith("hero/checkpoints/step-100")
    for name in MADE_INTO_THE_HERO:
        assert f"{name}  " in text, name
    assert "containment 0.9" in text and "model.width 64" in text
    assert text.count("commit ") >= len(MADE_INTO_THE_HERO)
    assert text.count("counts: ") >= len(MADE_INTO_THE_HERO)


def test_lineage_down_from_each_source_reaches_the_hero_and_the_evaluation_of_its_checkpoint(finished):
    for source in SOURCES:
        reached = {node["name"] for node in finished.json("lineage", source, "--down")["nodes"]}
        assert {"hero", "evaluate/hero-step-50", "forecast/score", "ladder/noise"} <= reached
        assert reached.isdisjoint(SOURCES - {source})


def test_lineage_down_from_a_checkpoint_reaches_only_what_used_that_checkpoint(finished, checkpoint):
    half = finished.json("lineage", str(checkpoint.with_name("step-50")), "--down")
    assert "evaluate/hero-step-50" in {node["name"] for node in half["nodes"]}
    last = finished.json("lineage", str(checkpoint), "--down")
    assert "evaluate/hero-step-50" not in {node["name"] for node in last["nodes"]}


def test_diff_of_two_rungs_shows_width_and_what_follows_from_it(finished):
    compared = finished.json("diff", "ladder/d16", "ladder/d32")
    fields = {row["path"]: (row["a"], row["b"]) for row in compared["fields"]}
    assert fields["config.model.width"] == ("16", "32")
    assert {path.rpartition(".")[2] for path in fields} <= {
        "width", "num_heads", "expert_width", "shared_width", "batch_sequences", "num_steps", "learning_rate",
        "adam_learning_rate",
    }  # fmt: skip
    results = {row["path"] for row in compared["results"]}
    assert {"result.macro_loss", "result.active_parameters", "result.tokens"} <= results
    assert not compared["functions"]
    seeds = finished.json("diff", "ladder/d16", "ladder/d16-seed1")
    assert [(row["path"], row["a"], row["b"]) for row in seeds["fields"]] == [("config.seed", "0", "1")]
