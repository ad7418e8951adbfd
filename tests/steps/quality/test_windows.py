from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marin_exec import ConfigError, StepFailed
from steps.documents import NamedInput, document_id, read_all, read_table, shard_names, write_table
from steps.embed.encoders import StaticTable
from steps.embed.vectors import embedding_table, scale_of
from steps.quality import windows as windows_module
from steps.quality.classifier import ClassifierConfig, classifier
from steps.quality.features import FeatureSettings
from steps.quality.labels import Label, write_labels
from steps.quality.scores import ScoresConfig, scores
from steps.quality.student import fit_student
from steps.quality.windows import Windows, read_windows, stored_form, window_spans
from tests.directory_out import DirectoryOut
from tests.steps.embed.test_embed_documents import write_documents
from tests.steps.quality.quality_corpus import text_of

ENCODER = StaticTable(table="no/such/table")
SETTINGS = FeatureSettings(hash_bits=10)


def fake_encode(encoder, texts):
    """A vector that says how many vowels there are, so that windows of one document differ."""
    counts = np.array([[each.count(letter) + 0.1 for letter in "aeiou"] for each in texts])
    return (counts / np.linalg.norm(counts, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(autouse=True)
def encoder(monkeypatch):
    monkeypatch.setattr(windows_module, "encode", fake_encode)


def stored(texts):
    return stored_form(fake_encode(ENCODER, texts), ENCODER.int8_range)


@given(st.integers(0, 500), st.integers(1, 100))
def test_windows_lie_in_the_text_at_its_beginning_middle_and_end(length, characters):
    spans = window_spans(length, characters)
    if length <= characters:
        assert spans == [(0, length)]
        return
    (begin, middle, end) = spans
    assert begin[0] == 0 and end[1] == length
    assert abs((middle[0] - 0) - (length - middle[1])) <= 1
    assert all(last - first == characters for first, last in spans)


def blocks_of(texts, characters=100):
    scale = scale_of(ENCODER.int8_range)
    return read_windows(
        texts, stored(texts), SETTINGS, Windows(encoder=ENCODER, characters=characters), scale, "embeddings"
    )


def test_score_of_a_document_is_the_mean_of_its_windows_and_what_is_between_them_does_not_count():
    rng = np.random.default_rng(0)
    grades = np.arange(40) % 5 + 1.0
    texts = [text_of("code", int(grade), number) for number, grade in enumerate(grades)]
    blocks = blocks_of(texts)
    assert set(blocks.windows) == {1, 3}  # both kinds are in it
    student = fit_student(blocks, grades, ["code"] * 40, settings=SETTINGS, scale=1.0)
    found = student.predict(blocks)
    for row, text in enumerate(texts):
        parts = [text[first:last] for first, last in window_spans(len(text), 100)]
        chosen = slice(blocks.starts[row], blocks.starts[row] + len(parts))
        assert found.raw[row] == pytest.approx(found.by_window[chosen].mean())
    filler = "".join(rng.choice(list("xyz "), 300))
    long = texts[0].ljust(100, "x")[:100] + filler + texts[1].ljust(100, "x")[:100]
    same_ends = blocks_of([long, long[:100] + filler[::-1] + long[-100:]])
    np.testing.assert_array_equal(same_ends.hashed[[0, 2]].toarray(), same_ends.hashed[[3, 5]].toarray())
    np.testing.assert_array_equal(same_ends.surface[[0, 2]], same_ends.surface[[3, 5]])


def test_fit_is_on_the_mean_of_the_rows_that_are_scored():
    grades = np.arange(40) % 5 + 1.0
    blocks = blocks_of([text_of("code", int(grade), number) for number, grade in enumerate(grades)])
    student = fit_student(blocks, grades, ["code"] * 40, settings=SETTINGS, scale=1.0)
    matrix = blocks.matrix(student.surface_center, student.surface_spread)
    assert matrix.shape[0] == 40
    np.testing.assert_allclose(
        matrix @ student.score_weights[:-1] + student.score_weights[-1], student.predict(blocks).raw, rtol=1e-9
    )


def test_documents_taken_out_keep_their_windows():
    texts = ["short", "long " * 40, "other", "longer " * 50]
    blocks = blocks_of(texts)
    for chosen in (np.array([3, 0]), np.array([False, True, False, True])):
        taken, again = blocks.take(chosen), blocks_of(np.array(texts, dtype=object)[chosen].tolist())
        np.testing.assert_array_equal(taken.hashed.toarray(), again.hashed.toarray())
        np.testing.assert_array_equal(taken.vectors, again.vectors)
        np.testing.assert_array_equal(taken.starts, again.starts)


def write_corpus(path, texts, name="code"):
    documents = write_documents(path / "documents" / name, texts, 25)
    (path / "embeddings" / name).mkdir(parents=True)
    for shard in shard_names(documents):
        table = read_table(documents, shard)
        quantized = windows_module.quantize(fake_encode(ENCODER, table["text"].to_pylist()), ENCODER.int8_range)
        write_table(
            str(path / "embeddings" / name / shard),
            embedding_table(table["id"].to_pylist(), quantized, scale_of(ENCODER.int8_range)),
        )
    return NamedInput(name=name, path=documents)


def passage(good, sentences, seed):
    """Sentences that say how good they are by two words, among others that say nothing; 40 characters each or so."""
    rng = np.random.default_rng(seed)
    words = "derivation explained" if good else "todo fixme"
    return "".join(f"{words} w{' w'.join(map(str, rng.integers(0, 400, 4)))} " for _ in range(sentences))


@pytest.fixture
def chain(tmp_path):
    """Labelled documents of all lengths, and long ones whose quality differs from place to place."""
    labelled = {passage(good, 1 + number % 20, [number, good]): good for number in range(60) for good in (True, False)}
    parts = {"good": (1, 1, 1), "junk middle": (1, 0, 1), "junk": (0, 0, 0), "junk end": (1, 1, 0)}
    long = {
        name: "".join(passage(bool(good), 12, [7, place]) for place, good in enumerate(kinds))
        for name, kinds in parts.items()
    }
    source = write_corpus(tmp_path, [*labelled, *long.values()])
    labels = [
        Label(id=document_id(text), score=5 if good else 1, content_type="code", reason="known", reader="truth")
        for text, good in labelled.items()
    ]
    (tmp_path / "labels").mkdir()
    write_labels(str(tmp_path / "labels/labels.jsonl"), labels)
    config = ClassifierConfig(
        documents=(source,),
        embeddings=str(tmp_path / "embeddings"),
        labels=str(tmp_path / "labels"),
        num_folds=4,
        num_resamples=5,
        windows=Windows(encoder=ENCODER, characters=200),
        calibration="level_medians",
    )
    classifier(config, DirectoryOut(tmp_path / "classifier"))
    return long, ScoresConfig(
        documents=(source,),
        embeddings=config.embeddings,
        classifier=str(tmp_path / "classifier"),
        windows=config.windows,
    )


def test_long_document_whose_middle_is_junk_is_told_from_one_that_is_good_throughout(tmp_path, chain):
    long, config = chain
    out = DirectoryOut(tmp_path / "scores")
    result = scores(config, out)
    table = read_all(f"{out.path}/code")
    assert table.column_names[4:] == ["score_begin", "score_middle", "score_end"]
    rows = {row["id"]: row for row in table.to_pylist()}
    found = {name: rows[document_id(text)] for name, text in long.items()}
    good, junk, middle, end = (found[name] for name in ("good", "junk", "junk middle", "junk end"))
    assert good["score"] > middle["score"] > junk["score"] and good["score"] > end["score"] > junk["score"]
    assert middle["score_middle"] < 0.4 < min(middle["score_begin"], middle["score_end"])
    assert end["score_end"] < 0.4 < min(end["score_begin"], end["score_middle"])
    assert min(good[f"score_{name}"] for name in ("begin", "middle", "end")) > 0.6
    lengths = {row["id"]: len(row["text"]) for row in read_all(config.documents[0].path).to_pylist()}
    assert result.several_windows == sum(length > 200 for length in lengths.values()) and result.uneven == 2
    for row in rows.values():
        if lengths[row["id"]] <= 200:
            assert row["score_begin"] == row["score_middle"] == row["score_end"] == row["score"]


def test_scores_through_other_windows_than_the_students_are_refused(tmp_path, chain):
    _, config = chain
    for windows in (None, Windows(encoder=ENCODER, characters=100)):
        with pytest.raises(StepFailed, match="fitted through windows of 200"):
            scores(replace(config, windows=windows), DirectoryOut(tmp_path / "scores"))


def test_another_encoder_than_that_of_the_embeddings_is_refused(tmp_path, chain, monkeypatch):
    _, config = chain
    other = Windows(encoder=replace(ENCODER, int8_range=0.5), characters=200)
    with pytest.raises(StepFailed, match=r"windows' encoder has 0\.0039"):
        scores(replace(config, windows=other), DirectoryOut(tmp_path / "scale"))
    monkeypatch.setattr(windows_module, "encode", lambda encoder, texts: fake_encode(encoder, texts)[:, ::-1])
    with pytest.raises(StepFailed, match="have a cosine of"):
        scores(config, DirectoryOut(tmp_path / "cosine"))
    monkeypatch.setattr(windows_module, "encode", lambda encoder, texts: fake_encode(encoder, texts)[:, :4])
    with pytest.raises(StepFailed, match="embeddings of 5 dimensions; the windows' encoder has 4"):
        scores(config, DirectoryOut(tmp_path / "dimensions"))


def test_windows_of_no_characters_are_refused():
    with pytest.raises(ConfigError, match=r"Windows\.characters: 0"):
        Windows(encoder=ENCODER, characters=0)
