"""Tests that readers find a matrix, the old one or the new one, while a writer replaces it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daf_query import connect
from daf_storage import DafReader, DafWriter, ZarrDaf
from daf_storage.stores import DirectoryStore
from tests import seams
from tests.limits import without_exchange
from tests.support import create, data_set, dense, reopen

ORIENTATIONS = (("cell", "gene"), ("gene", "cell"))

READS: dict[str, Callable[[DafReader], Any]] = {
    "whole": lambda daf: daf.get_np_matrix("cell", "gene", "m"),
    "whole, flipped": lambda daf: daf.get_np_matrix("gene", "cell", "m"),
    "slice": lambda daf: connect(daf).matrix("cell", "gene", "m", rows=[0, 1]).to_numpy(),
    "has_matrix": lambda daf: np.array(daf.has_matrix("cell", "gene", "m")),
    "summary": lambda daf: np.array([m.info.name for m in daf.summary().matrices] == ["m"]),
}


def steps(daf: DafWriter) -> list[Callable[[int], object]]:
    """Return the steps in which matrices are replaced, once from either orientation.

    Each takes the value of all elements, sparse or dense in turn.
    """

    def remove(axes: tuple[str, str], _: int) -> None:
        daf.delete_matrix(*axes, "m", relayout=False, must_exist=False)

    def replace(axes: tuple[str, str], value: int) -> None:
        shape = (daf.axis_length(axes[0]), daf.axis_length(axes[1]))
        values: Any = np.full(shape, value)
        values = sp.csc_array(values) if value % 2 else values
        daf.set_matrix(*axes, "m", values, if_exists="replace", relayout=False)

    def flip(axes: tuple[str, str], _: int) -> None:
        daf.relayout_matrix(*axes, "m", if_exists="replace")

    def step(action: Callable[..., None], axes: tuple[str, str]) -> Callable[[int], object]:
        return lambda value: action(axes, value)

    found = []
    for axes in ORIENTATIONS:
        found += [step(remove, axes[::-1]), step(replace, axes), step(flip, axes)]
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a data set with a matrix, and a vector that is sparse."""
    path = tmp_path / "x.daf.zarr"
    daf = data_set(create(path), cell=["a", "b"], gene=["x", "y", "z"])
    daf.set_matrix("cell", "gene", "m", np.ones((2, 3)))
    daf.set_vector("gene", "v", sp.csr_array(np.array([[0, 1, 0]])))
    return path


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("read", "exchange"), [*((read, True) for read in READS), ("whole", False)]
)
def test_a_replaced_matrix_is_always_found(
    path: Path, monkeypatch: pytest.MonkeyPatch, read: str, *, exchange: bool
) -> None:
    """Whatever the writer does between any two looks of a reader."""
    if not exchange:
        without_exchange(monkeypatch)
    values, todo = itertools.count(1), itertools.cycle(steps(reopen(path)))
    reader = ZarrDaf(path)
    snapshot_of = DirectoryStore.snapshot

    def advance(count: int) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(DirectoryStore, "snapshot", snapshot_of)
            for _ in range(count):
                next(todo)(next(values))

    def read_while_writing(at: int, count: int) -> bool:
        """Let the writer do ``count`` steps before look number ``at``; say if it came to that."""
        looks, has_advanced = 0, False

        def snapshot(self: DirectoryStore, prefix: str) -> Any:
            nonlocal looks, has_advanced
            looks += prefix.endswith(("/m", "cell/gene", "gene/cell"))
            if looks > at and not has_advanced:
                has_advanced = True
                advance(count)
            return snapshot_of(self, prefix)

        with monkeypatch.context() as patch:
            patch.setattr(DirectoryStore, "snapshot", snapshot)
            found = dense(READS[read](reader))
        assert len(set(np.ravel(found).tolist())) == 1
        assert found.dtype != bool or found.all()
        return has_advanced

    for _, count in itertools.product(range(6), (1, 3)):  # from each state of the writer
        at = 0
        while read_while_writing(at, count):
            at += 1
        assert at
        advance(1)


def test_a_list_of_names_while_a_group_becomes_an_array(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sparse vector (a group) that is replaced by a dense one between two looks stays listed."""
    daf = reopen(path)
    size_of: Callable[..., int | None] = seams.real(seams.DIRECTORY_SNAPSHOT_SIZE)
    seen: list[str] = []

    def size(self: Any, key: str) -> int | None:
        found = size_of(self, key)
        if key.startswith("v/") and not seen:
            seen.append(key)
            daf.set_vector("gene", "v", [1, 2, 3], if_exists="replace")
        return found

    monkeypatch.setattr(seams.DIRECTORY_SNAPSHOT_SIZE, size)
    assert ZarrDaf(path).vectors_set("gene") == {"v"}
    assert seen
