"""Removal inside a cluster, against a plain Python oracle over sets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steps.dedup.verify import Comparison, judge_cluster, needed_hits


def grams_of(*members: set[int]) -> list[np.ndarray]:
    return [np.array(sorted(member), dtype=np.uint64) for member in members]


def verify_cluster(grams: list[np.ndarray], containment: float, all_pairs_members: int = 256) -> list[Comparison]:
    """Returns the removals of a cluster."""
    judged = judge_cluster(grams, containment, all_pairs_members=all_pairs_members)
    return [each for each in judged.comparisons if each.removed]


def oracle(members: list[set[int]], containment: float) -> dict[int, tuple[int, float]]:
    kept: list[int] = []
    removed = {}
    for member, own in enumerate(members):
        scores = [(len(own & members[other]) / len(own), -other) for other in kept]
        best = max(scores, default=(0.0, 0))
        if scores and best[0] >= containment:
            removed[member] = (-best[1], best[0])
        else:
            kept.append(member)
    return removed


@settings(max_examples=300)
@given(
    st.lists(st.sets(st.integers(0, 30), min_size=1, max_size=25), min_size=2, max_size=12),
    st.sampled_from([0.1, 0.5, 0.55, 0.7, 0.75, 0.9, 1.0]),
    st.sampled_from([0, 256]),
)
def test_removals_equal_the_oracle_with_and_without_the_index(members, containment, all_pairs_members):
    members.sort(key=len, reverse=True)
    removals = verify_cluster(grams_of(*members), containment, all_pairs_members)
    assert {r.member: (r.kept, r.containment) for r in removals} == oracle(members, containment)
    for r in removals:
        one, other = members[r.member], members[r.kept]
        assert r.jaccard == len(one & other) / len(one | other)


@settings(max_examples=200)
@given(st.data(), st.integers(1, 12), st.sampled_from([0.3, 0.7, 1.0]), st.sampled_from([0, 256]))
def test_standing_and_exempt_members_stay_and_hold_others(data, size, containment, all_pairs_members):
    members = [data.draw(st.sets(st.integers(0, 20), min_size=1)) for _ in range(size)]
    num_standing = data.draw(st.integers(0, size))
    exempt = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    judged = judge_cluster(
        grams_of(*members), containment, num_standing=num_standing, exempt=exempt, all_pairs_members=all_pairs_members
    )
    kept: list[int] = []
    removed, num_exempt = {}, 0
    for member, own in enumerate(members):
        shares = {other: len(own & members[other]) / len(own) for other in kept}
        held = member >= num_standing and max(shares.values(), default=0) >= containment
        num_exempt += bool(held and exempt[member])
        if held and not exempt[member]:
            removed[member] = max(shares, key=lambda other: (shares[other], -other))
        else:
            kept.append(member)
    assert {each.member: each.kept for each in judged.comparisons if each.removed} == removed
    assert judged.num_exempt == num_exempt and judged.num_bounded == 0


@given(st.integers(1, 2000), st.floats(0.001, 1.0))
def test_needed_hits_is_the_least_number_at_the_threshold(size, containment):
    hits = needed_hits(size, containment)
    assert 0 < hits <= size
    assert hits / size >= containment > (hits - 1) / size


def test_removals_of_a_cluster_of_two_pairs_stay_apart():
    # A chain of candidates joined {a, a'} and {b, b'}; after verification there are two groups, each with a survivor.
    a, b = set(range(100)), set(range(80, 180))
    removals = verify_cluster(grams_of(a, b, a - {0}, b - {179}), 0.9)
    assert [(r.member, r.kept) for r in removals] == [(2, 0), (3, 1)]


def test_removals_never_empty_a_cluster():
    for size in (2, 5, 300):
        removals = verify_cluster(grams_of(*[set(range(50))] * size), 0.9)
        assert [r.member for r in removals] == list(range(1, size))
        assert {r.kept for r in removals} == {0}


def test_removals_need_a_kept_representative():
    # c is held by b only, and b is removed for a: c must stay, or text that nobody holds would go.
    a = set(range(100))
    b = set(range(10, 100)) | {200, 201, 202}
    c = set(range(70, 90)) | {200, 201, 202}
    assert len(b & a) / len(b) >= 0.9 > len(c & a) / len(c) and len(c & b) / len(c) == 1
    assert [(r.member, r.kept) for r in verify_cluster(grams_of(a, b, c), 0.9)] == [(1, 0)]


def test_removals_among_300_edited_copies_of_one_document_are_found_by_the_index():
    # Each copy has two n-grams of its own, which are its rarest: probes must not be spent on them alone.
    base = set(range(1000))
    copies = [base - {i} | {10_000 + 2 * i, 10_001 + 2 * i} for i in range(300)]
    removals = verify_cluster(grams_of(*copies), 0.9)
    assert [r.member for r in removals] == list(range(1, 300)) and {r.kept for r in removals} == {0}


@pytest.mark.parametrize("all_pairs_members", [0, 256])
def test_removals_at_threshold_one_are_exact_containment(all_pairs_members):
    whole = set(range(50))
    removals = verify_cluster(grams_of(whole, set(range(49)) | {99}, set(range(20))), 1.0, all_pairs_members)
    assert [(r.member, r.kept, r.containment) for r in removals] == [(2, 0, 1.0)]
