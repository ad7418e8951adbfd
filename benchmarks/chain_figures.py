"""Figures of a finished chain, read from its records: losses, forecast, sources, labels, classifier, lineage."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from chain_runs import PROJECT, Runs, call

RUNG = re.compile(r"ladder/d(\d+)")
HASH_SEEDS = ("0", "1", "424242")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of the benchmark."""

    figure: str
    value: float | int | str
    unit: str
    bar: str | None
    """What it has to keep to, in words; None: only told."""
    holds: bool | None

    def line(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)


def told(figure: str, value: float | int | str, unit: str) -> Figure:
    return Figure(figure=figure, value=value, unit=unit, bar=None, holds=None)


def below(figure: str, value: float, unit: str, bar: float) -> Figure:
    return Figure(figure=figure, value=value, unit=unit, bar=f"< {bar:g}", holds=value < bar)


def at_least(figure: str, value: float, unit: str, bar: float) -> Figure:
    return Figure(figure=figure, value=value, unit=unit, bar=f">= {bar:g}", holds=value >= bar)


def equal(figure: str, value: float | int | str, unit: str, bar: float | int | str) -> Figure:
    return Figure(figure=figure, value=value, unit=unit, bar=f"= {bar}", holds=value == bar)


def records(runs: Runs) -> dict[str, dict[str, Any]]:
    """Returns the current record of every step of the experiment, by name."""
    return {name: runs.record(step["digest"]) for name, step in runs.steps().items()}


def ladder(found: dict[str, dict[str, Any]]) -> Iterator[Figure]:
    """Losses of rungs and hero, seed noise, and the forecast's error."""
    widths = {name: int(matched[1]) for name in found if (matched := RUNG.fullmatch(name))}
    rungs = sorted(widths, key=lambda name: widths[name])
    results = [found[name]["result"] for name in rungs]
    hero = found["hero"]["result"]
    yield told(f"held-out macro loss of {rungs[0]}", results[0]["macro_loss"], "nats/token")
    for name, before, result in zip(rungs[1:], results, results[1:], strict=False):
        yield below(f"held-out macro loss of {name}", result["macro_loss"], "nats/token", before["macro_loss"])
    drop = results[-1]["macro_loss"] - hero["macro_loss"]
    yield told("held-out macro loss of hero", hero["macro_loss"], "nats/token")
    yield at_least(f"hero below {rungs[-1]}", drop, "nats/token", 0.1)
    yield told("two-seed noise of a rung", found["ladder/noise"]["result"]["range_macro_loss"], "nats/token")
    score = found["forecast/score"]["result"]
    yield told("forecast of the hero's loss", score["predicted_loss"], "nats/token")
    yield told("forecast less actual", score["error"], "nats/token")
    yield below("forecast error over the drop", score["error_share_of_drop"], "share", 0.5)
    yield at_least("rungs", len(rungs), "runs", 4)
    yield at_least("updates of the shortest run", min(each["num_steps"] for each in (*results, hero)), "updates", 400)
    ratio = hero["flops_with_lm_head"] / results[-1]["flops_with_lm_head"]
    yield Figure(
        figure="hero's compute over the last rung's", value=ratio, unit="ratio", bar="2 to 4", holds=2 <= ratio <= 4
    )
    for name in (*rungs, "hero"):
        yield told(f"wall time of {name}", found[name]["seconds"], "s")


def data(found: dict[str, dict[str, Any]]) -> Iterator[Figure]:
    """Sizes of the sources, topics, labels and the classifier's held-out figures."""
    raw = [record["result"] for name, record in found.items() if name.startswith("sources/")]
    yield at_least("text of the sources before sampling", sum(each["bytes_found"] for each in raw) / 1e6, "MB", 20)
    yield told("text of the sources after sampling", sum(each["num_bytes"] for each in raw) / 1e6, "MB")
    funnel = found["mix/cells"]["result"]
    yield told("documents that came in", funnel["documents_in"], "documents")
    yield told("documents kept for training", funnel["documents_kept"], "documents")
    topics = found["cluster/topics"]["result"]
    yield at_least("clusters", topics["num_clusters"], "clusters", 50)
    yield at_least("named topics", len(topics["topic_documents"]), "topics", 8)
    labels = found["quality/labels"]["result"]
    yield at_least("excerpts read", labels["documents"], "documents", 400)
    yield at_least("excerpts read twice", labels["agreement"]["pairs"], "documents", 100)
    yield told("agreement of two readings, weighted kappa", labels["agreement"]["weighted_kappa"], "kappa")
    student = found["quality/classifier"]["result"]
    for predictor in ("student", "source_mean", "length"):
        for measure in ("spearman", "spearman_within_source", "auc"):
            estimate = student[predictor][measure]
            interval = f"95 % interval {estimate['low']:.3f} to {estimate['high']:.3f}"
            yield told(f"held-out figure of {predictor} ({interval})", estimate["value"], measure)
    gain = student["gain_within_source"]
    yield Figure(
        figure="classifier less length, Spearman within sources: low end of the interval",
        value=gain["low"],
        unit="Spearman",
        bar="> 0",
        holds=gain["low"] > 0,
    )


def lineage(runs: Runs, found: dict[str, dict[str, Any]]) -> Iterator[Figure]:
    """From the hero's last checkpoint up to the raw sources, and from each source down to the hero."""
    hero = found["hero"]
    checkpoint = runs.store / hero["output_path"] / hero["result"]["final_checkpoint"]
    nodes = runs.json("lineage", str(checkpoint))["nodes"]
    sources = {name for name in found if name.startswith("sources/")}
    reached = sources & {node["name"] for node in nodes}
    yield equal("raw sources reached from the hero's checkpoint", len(reached), "sources", len(sources))
    whole = sum(_is_told(node["record"]) for node in nodes)
    yield equal("steps on the way with commit, config and counts", whole, "steps", len(nodes))
    down = [{node["name"] for node in runs.json("lineage", name, "--down")["nodes"]} for name in sorted(sources)]
    reaching = sum({"hero", "forecast/score"} <= names for names in down)
    yield equal("raw sources from which the hero is reached", reaching, "sources", len(sources))


def _is_told(record: dict[str, Any] | None) -> bool:
    return bool(record and record["provenance"]["git"]["commit"] and record["identity"] and record["result"])


def digests() -> Iterator[Figure]:
    """The golden table of identities, worked out anew in three interpreters."""
    golden = json.loads((PROJECT / "tests/golden/identity.json").read_text())
    program = str(PROJECT / "tests/golden/identity_values.py")
    tables = [
        json.loads(
            call(
                [sys.executable, program], timeout=120, env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(PROJECT)}
            ).stdout
        )
        for seed in HASH_SEEDS
    ]
    same = sum(all(table.get(name) == digest for table in tables) for name, digest in golden.items())
    yield equal("golden digests equal in 3 interpreters", same, "digests", len(golden))
    yield at_least("golden digests", len(golden), "digests", 60)
