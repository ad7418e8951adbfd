from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from marin_exec import ConfigError, StepFailed
from steps.documents import NamedInput, read_all, read_table, shard_names, write_table
from steps.quality.calibration import buckets
from steps.quality.gate import GateConfig, gate
from steps.quality.spread import Tally, bucket_shares, tally_scores, within_type_spread
from tests.directory_out import DirectoryOut
from tests.steps.embed.test_embed_documents import write_documents

NAMES = ("constant", "type only", "chooses", "nested/de")


def score_of(source, text, content_type):
    noise = (int(text.split()[1]) * 7919 % 97) / 97
    return {
        "constant": 0.6 + 1e-4 * (noise - 0.5),  # on an edge: the last digits decide between two buckets
        "type only": (0.85 if content_type == "prose" else 0.15) + 1e-3 * noise,
        "chooses": noise,
        "nested/de": noise,
    }[source]


@pytest.fixture
def config(tmp_path):
    sources = []
    for name in NAMES:
        path = write_documents(tmp_path / "documents" / name, [f"document {each} of {name}" for each in range(60)], 25)
        (tmp_path / "scores" / name).mkdir(parents=True)
        for shard in shard_names(path):
            table = read_table(path, shard)
            types = ["prose" if int(text.split()[1]) % 2 else "code" for text in table["text"].to_pylist()]
            pairs = zip(table["text"].to_pylist(), types, strict=True)
            scores = np.array([score_of(name, text, kind) for text, kind in pairs], dtype=np.float32)
            columns = {"id": table["id"], "score": scores, "bucket": buckets(scores), "content_type": types}
            write_table(str(tmp_path / "scores" / name / shard), pa.table(columns))
        sources.append(NamedInput(name=name, path=path))
    return GateConfig(documents=tuple(sources), scores=str(tmp_path / "scores"))


def test_source_of_constant_scores_and_one_that_follows_its_types_get_one_bucket(tmp_path, config):
    out = DirectoryOut(tmp_path / "out")
    result = gate(config, out)
    assert sorted(result.unjudged_sources) == ["constant", "type only"]
    assert "below 0.05" in result.unjudged_sources["type only"]
    assert (result.documents, result.judged) == (240, 120)
    for source in config.documents:
        before, after = read_all(f"{config.scores}/{source.name}"), read_all(f"{out.path}/{source.name}")
        assert after.column_names == ["id", "score", "bucket", "judged"] and after["bucket"].type == pa.int8()
        assert after["id"].equals(read_all(source.path)["id"]) and after["score"].equals(before["score"])
        if source.name in result.unjudged_sources:
            assert set(before["bucket"].to_pylist()) != {2}  # what the gate is for
            assert set(after["bucket"].to_pylist()) == {2} and not any(after["judged"].to_pylist())
            changed = sum(bucket != 2 for bucket in before["bucket"].to_pylist())
            assert result.moved_by_source[source.name] == changed > 0
        else:
            assert after["bucket"].equals(before["bucket"]) and all(after["judged"].to_pylist())


def test_sources_named_are_not_judged_and_the_bucket_is_the_configs(tmp_path, config):
    out = DirectoryOut(tmp_path / "out")
    result = gate(replace(config, unjudged=("nested/de",), bucket=1, min_spread=0.0), out)
    assert result.unjudged_sources == {"nested/de": "named in the config"}
    assert set(read_all(f"{out.path}/nested/de")["bucket"].to_pylist()) == {1}


def test_threshold_decides_who_is_judged(tmp_path, config):
    counts = [
        len(gate(replace(config, min_spread=spread), DirectoryOut(tmp_path / str(spread))).unjudged_sources)
        for spread in (0.0, 0.05, 0.9)
    ]
    assert counts == [0, 2, 4]


def test_scores_of_other_documents_are_refused(tmp_path, config):
    swapped = (replace(config.documents[0], path=config.documents[1].path), *config.documents[1:])
    with pytest.raises(StepFailed, match="other documents"):
        gate(replace(config, documents=swapped), DirectoryOut(tmp_path / "out"))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"unjudged": ("none",)}, "are no sources"),
        ({"bucket": 5}, r"GateConfig\.bucket: 5"),
        ({"bucket": -1}, "bucket"),
    ],
)
def test_wrong_config_is_refused(config, changes, problem):
    with pytest.raises(ConfigError, match=problem):
        replace(config, **changes)


def test_tally_of_shards_is_the_tally_of_all():
    rng = np.random.default_rng(0)
    scores = rng.random(500).astype(np.float32)
    scores[:3] = (0.0, 1.0, 0.8)
    types = rng.choice(["code", "prose", "legal"], 500, p=[0.6, 0.39, 0.01]).tolist()
    whole, parts = Tally(), Tally()
    whole.add(tally_scores(scores, types))
    for rows in np.array_split(np.arange(500), 7):
        parts.add(tally_scores(scores[rows], [types[row] for row in rows]))
    assert whole.histograms() == parts.histograms() and whole.buckets() == parts.buckets()
    assert whole.moments() == parts.moments() == pytest.approx((scores.mean(), scores.std()), abs=1e-4)
    chosen = np.array(types) == "code"
    assert whole.moments("code") == pytest.approx((scores[chosen].mean(), scores[chosen].std()), abs=1e-4)
    means = np.array([scores[np.array(types) == kind].mean() for kind in types])
    assert within_type_spread(whole) == pytest.approx(np.sqrt(np.square(scores - means).mean()), abs=1e-4)
    expected = np.histogram(scores[chosen], bins=20, range=(0, 1))[0]
    assert np.abs(np.array(whole.histograms()["code"]) - expected).sum() <= 2  # a value on an edge may go either way
    assert sum(map(sum, whole.histograms().values())) == 500
    assert sum(bucket_shares(whole).values()) == pytest.approx(1, abs=1e-3)
    assert Tally().moments() == (0.0, 0.0) and within_type_spread(Tally()) == 0.0
