from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from steps.documents import document_id
from steps.quality.candidates import shortlist
from steps.quality.choice import Candidates, choose
from steps.quality.committee import disagreement, fit_committee
from steps.quality.features import FeatureSettings, read_blocks
from steps.quality.student import fit_student
from tests.steps.quality.quality_corpus import text_of


def candidates(count, seed=0, **columns):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(count, 6)).astype(np.float32)
    given_columns = {
        "ids": [document_id(f"{seed} {row}") for row in range(count)],
        "sources": np.array(["a"] * count),
        "content_types": np.array(["prose"] * count),
        "uncertainty": np.ones(count),
        "vectors": vectors / np.linalg.norm(vectors, axis=1, keepdims=True),
    }
    return Candidates(**(given_columns | columns))


NOTHING = np.zeros((0, 6), dtype=np.float32)


def test_the_least_sure_are_chosen_first_where_all_else_is_equal():
    uncertainty = np.random.default_rng(1).permutation(30).astype(float)
    same = np.zeros((30, 6), dtype=np.float32)
    found = choose(candidates(30, uncertainty=uncertainty, vectors=same), NOTHING, {}, {}, count=5, seed=0)
    assert uncertainty[found.rows].tolist() == [29, 28, 27, 26, 25]


def test_sources_and_types_with_few_labels_are_filled_up():
    sources, types = np.array(["rich", "poor"] * 200), np.array(["code"] * 200 + ["math"] * 200)
    every = candidates(400, sources=sources, content_types=types)
    found = choose(every, NOTHING, {"rich": 100}, {"code": 60}, count=60, seed=0)
    assert Counter(sources[found.rows])["poor"] > 50 and Counter(types[found.rows])["math"] > 45
    even = choose(every, NOTHING, {}, {}, count=60, seed=0)
    assert all(
        abs(count - 30) <= 4 for count in (*Counter(sources[even.rows]).values(), *Counter(types[even.rows]).values())
    )


def test_copies_of_what_is_labelled_or_chosen_come_last():
    base = candidates(20)
    doubled = candidates(
        60, vectors=np.concatenate([base.vectors] * 3), uncertainty=np.concatenate([[9.0] * 40, [1.0] * 20])
    )
    found = choose(doubled, base.vectors[:5], {}, {}, count=60, seed=0)
    first = found.rows[:15] % 20
    assert len(set(first)) == 15 and not set(first) & set(range(5))
    assert (found.novelty[15:] < 1e-3).all()


@settings(max_examples=25)
@given(st.integers(0, 1000), st.integers(1, 40))
def test_choice_does_not_depend_on_the_order_of_candidates(seed, count):
    rng = np.random.default_rng(seed)
    every = candidates(40, seed, sources=rng.choice(["a", "b", "c"], 40), uncertainty=rng.integers(1, 4, 40) / 4)
    shuffled = rng.permutation(40)
    one = choose(every, NOTHING, {"a": 3}, {}, count=count, seed=seed)
    two = choose(every.take(shuffled), NOTHING, {"a": 3}, {}, count=count, seed=seed)
    assert [every.ids[row] for row in one.rows] == [every.ids[shuffled[row]] for row in two.rows]
    assert len(set(one.rows.tolist())) == count


def test_more_than_there_are_gives_all():
    assert sorted(choose(candidates(4), NOTHING, {}, {}, count=9, seed=0).rows) == [0, 1, 2, 3]


ROWS = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 5)), unique_by=lambda pair: pair[0], max_size=60)


@settings(max_examples=50)
@given(ROWS, st.integers(2, 20), st.integers(1, 6))
def test_shortlist_of_shortlists_is_the_shortlist_of_all(pairs, wanted, parts):
    rows = [{"id": f"{number:06d}", "uncertainty": unsure / 4} for number, unsure in pairs]
    halves = [row for part in range(parts) for row in shortlist(rows[part::parts], wanted, seed=3)]
    whole = shortlist(rows, wanted, seed=3)
    assert shortlist(halves, wanted, seed=3) == whole
    assert len(whole) <= wanted and (len(whole) >= min(len(rows), wanted // 2))


def committee_of(per_score, members=24):
    scores = np.repeat(np.arange(1.0, 6.0), per_score)
    texts = [text_of("code", int(score), number) for number, score in enumerate(scores)]
    vectors = np.random.default_rng(0).normal(size=(len(texts), 4)).astype(np.float32)
    settings = FeatureSettings(hash_bits=8)
    blocks = read_blocks(texts, vectors, settings)
    student = fit_student(blocks, scores, ["code"] * len(texts), settings=settings, scale=1.0)
    groups = np.arange(len(texts))
    weights = fit_committee(blocks, scores, groups, student, members=members, seed=0)
    return blocks, scores, student, weights


def test_members_are_ridge_regressions_on_resamples():
    blocks, scores, student, weights = committee_of(8, members=3)
    matrix = blocks.matrix(student.surface_center, student.surface_spread)
    rng = np.random.default_rng(0)
    for member in weights:
        rows = rng.integers(0, len(scores), len(scores))
        oracle = Ridge(alpha=student.penalty).fit(matrix[rows], scores[rows])
        np.testing.assert_allclose(matrix @ member[:-1] + member[-1], oracle.predict(matrix), rtol=1e-7)
    assert disagreement(blocks, student, weights).shape == (40,)


def test_near_duplicates_are_drawn_together():
    blocks, scores, student, _ = committee_of(4)
    groups = np.zeros(20, dtype=int)  # all of one group: every resample is the whole, and all members agree
    weights = fit_committee(blocks, scores, groups, student, members=3, seed=0)
    assert disagreement(blocks, student, weights).max() < 1e-9


def test_committee_agrees_more_the_more_labels_there_are():
    blocks = read_blocks(
        [text_of("code", score, 900 + score) for score in range(1, 6)],
        np.zeros((5, 4), dtype=np.float32),
        FeatureSettings(hash_bits=8),
    )
    few, many = ((student, weights) for _, _, student, weights in (committee_of(4), committee_of(60)))
    assert disagreement(blocks, *few).mean() > 1.3 * disagreement(blocks, *many).mean()
