import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from marin_exec import StepFailed
from steps.quality.features import FeatureSettings, near_duplicate_groups, read_blocks, surface_measures
from steps.quality.student import fit_student, fold_of, load_student, save_student
from tests.directory_out import DirectoryOut
from tests.steps.quality.quality_corpus import text_of

SETTINGS = FeatureSettings(hash_bits=10, max_characters=500)


def example(count=60):
    rng = np.random.default_rng(0)
    scores = np.arange(count) % 5 + 1.0
    texts = [text_of("code", int(score), number) for number, score in enumerate(scores)]
    vectors = rng.normal(size=(count, 6)).astype(np.float32)
    return read_blocks(texts, vectors, SETTINGS), scores, ["a" if score > 2 else "b" for score in scores]


def test_student_saved_and_loaded_predicts_the_same_bits(tmp_path):
    blocks, scores, types = example()
    student = fit_student(blocks, scores, types, settings=SETTINGS, scale=0.25)
    out = DirectoryOut(tmp_path)
    save_student(out, student, {"all": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]})
    saved = load_student(out.path)
    before, after = student.predict(blocks), saved.student.predict(blocks)
    assert before.raw.tobytes() == after.raw.tobytes() and before.content_types == after.content_types
    assert saved.curves == {"all": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]} and saved.student.scale == 0.25


def test_prediction_of_a_document_does_not_depend_on_its_company():
    blocks, scores, types = example()
    student = fit_student(blocks, scores, types, settings=SETTINGS, scale=1.0)
    together = student.predict(blocks).raw
    for rows in ([7], [59, 7], list(range(0, 60, 3))):
        np.testing.assert_array_equal(student.predict(blocks.take(np.array(rows))).raw, together[rows])


def test_prediction_is_the_fitted_line_through_the_matrix():
    blocks, scores, types = example()
    student = fit_student(blocks, scores, types, settings=SETTINGS, scale=1.0)
    matrix = blocks.matrix(student.surface_center, student.surface_spread)
    expected = matrix @ student.score_weights[:-1] + student.score_weights[-1]
    np.testing.assert_allclose(student.predict(blocks).raw, expected, rtol=1e-9)


def test_student_does_not_depend_on_the_number_of_blas_threads():
    blocks, scores, types = example(400)
    weights = []
    for threads in (1, 2):
        with threadpool_limits(limits=threads):
            student = fit_student(blocks, scores, types, settings=SETTINGS, scale=1.0)
        weights.append((student.score_weights.tobytes(), student.type_weights.tobytes()))
    assert weights[0] == weights[1]


def test_student_with_one_content_type_always_answers_it():
    blocks, scores, _ = example()
    student = fit_student(blocks, scores, ["only"] * len(scores), settings=SETTINGS, scale=1.0)
    assert set(student.predict(blocks).content_types) == {"only"}


def test_student_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StepFailed, match=r"no student\.json"):
        load_student(str(tmp_path))


def test_folds_keep_groups_together_and_do_not_depend_on_order():
    rng = np.random.default_rng(0)
    ids = [f"{number:032x}" for number in range(200)]
    groups = rng.integers(0, 80, 200)
    folds = fold_of(groups, ids, 5, seed=0)
    assert all(len(set(folds[groups == group])) == 1 for group in np.unique(groups))
    np.testing.assert_array_equal(folds[::-1], fold_of(groups[::-1], ids[::-1], 5, seed=0))
    assert set(folds) == set(range(5)) and (folds != fold_of(groups, ids, 5, seed=1)).any()


def test_near_duplicates_are_one_group_and_others_are_not():
    licence = " ".join(f"clause{number}" for number in range(80))
    texts = [licence + " holder alice", licence + " holder bob", " ".join(f"word{number}" for number in range(80))]
    groups = near_duplicate_groups(read_blocks(texts, np.zeros((3, 2)), FeatureSettings()))
    assert groups[0] == groups[1] != groups[2]


def test_surface_measures_of_odd_texts_are_finite():
    found = surface_measures(["", "1 2 3", "αβγ", "\n\n\n", "a a a a"], 100)
    assert np.isfinite(found).all() and found.shape == (5, 5)
    assert found[1, 2] == 3 / 5 and found[2, 1] == 1.0 and found[4, 4] == 0.25


def test_features_past_the_part_that_is_read_change_only_the_length():
    short, long = ("word " * 200)[:500], ("word " * 200)[:500] + "other things " * 50
    blocks = read_blocks([short, long], np.zeros((2, 2)), SETTINGS)
    np.testing.assert_array_equal(*blocks.hashed.toarray())
    np.testing.assert_array_equal(blocks.surface[0, 1:], blocks.surface[1, 1:])
    assert blocks.surface[0, 0] < blocks.surface[1, 0]
