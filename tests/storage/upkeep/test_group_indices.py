"""Tests of `group_names`, `compact_groups` and `collect_group_members`."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

from daf_storage import collect_group_members, compact_groups, group_names


def _slow_names(names: list[str], groups: list[list[int]], prefix: str) -> list[str]:
    """Name groups as the documentation of the reference says, member by member."""
    found = []
    for number, group in enumerate(groups, 1):
        digest = hashlib.sha256()
        for position in group:
            digest.update(names[position].encode())
        found.append(f"{prefix}{number}.{str(sum(digest.digest()) % 100).rjust(2, '0')}")
    return found


def test_the_reference_vectors() -> None:
    """The cases of the reference's own tests, with positions from 0."""
    names = ["A", "B", "C", "D", "E"]
    indices, count = compact_groups([0, 3, 1, 3, 1])
    assert (indices.tolist(), count) == ([0, 1, 2, 1, 2], 2)
    members = collect_group_members([0, 1, 2, 1, 2])
    assert [positions.tolist() for positions in members] == [[1, 3], [2, 4]]
    assert group_names(names, members, prefix="G") == ["G1.61", "G2.95"]
    assert group_names(names, [[1, 2], [3, 4]], prefix="G") == ["G1.43", "G2.04"]
    assert [len(compact_groups([])[0]), collect_group_members([])] == [0, []]


def test_random_groups_are_those_of_a_loop() -> None:
    """Numbers, members and names are those of a dictionary and a loop."""
    random = np.random.default_rng(1)
    names = [f"é{n}" * (n % 4) + str(n) for n in range(300)]
    given = random.integers(0, 40, 300).astype(np.uint8) * 6
    numbers: dict[int, int] = {}
    expected = [numbers.setdefault(g, len(numbers) + 1) if g else 0 for g in given.tolist()]
    indices, count = compact_groups(given)
    assert (indices.tolist(), count) == (expected, len(numbers))
    assert indices.dtype == np.uint8
    members = collect_group_members(indices)
    slow = [[n for n, g in enumerate(expected) if g == k] for k in range(1, count + 1)]
    assert [positions.tolist() for positions in members] == slow
    for strings in (names, pa.array(["x", *names]).slice(1), np.array(names)):
        assert group_names(strings, members, prefix="M") == _slow_names(names, slow, "M")
