"""Tests of matrices that are copied into a data set that has their axes, in blocks."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daf_storage import DafWriter, Packing, copy_all, open_daf
from daf_storage.base import Span
from daf_storage.trees import StoredArray
from tests.limits import lower
from tests.support import data_set

CELLS = [f"c{n}" for n in range(60)]
GENES = [f"g{n}" for n in range(40)]
RNG = np.random.default_rng(3)
VALUES = RNG.poisson(0.7, (60, 40)).astype("float32")

AXES = {
    "same": CELLS,
    "fewer": CELLS[2:50:3],
    "shuffled": [CELLS[n] for n in RNG.permutation(60)],
    "few, shuffled": [CELLS[n] for n in RNG.permutation(60)[:9]],
    "more": ["x", *CELLS[:7], "y", "z", *CELLS[7:]],
    "none": [],
}


def filled(path: Path, packed: Any) -> DafWriter:
    """Return a data set with matrices of several kinds."""
    daf = data_set(open_daf(path, "w", packed=packed), cell=CELLS, gene=GENES)
    daf.set_matrix("cell", "gene", "dense", VALUES)
    daf.set_matrix("cell", "gene", "one", VALUES, relayout=False)
    daf.set_matrix("gene", "cell", "sparse", sp.csc_array(VALUES.T))
    daf.set_matrix("cell", "gene", "counts", sp.csc_array(VALUES.astype("u2")), relayout=False)
    daf.set_matrix("cell", "gene", "flags", sp.csc_array(VALUES > 1))
    daf.set_matrix("cell", "gene", "text", VALUES.astype(str).astype(object))
    daf.set_matrix("cell", "cell", "square", VALUES @ VALUES.T)
    return daf


@pytest.fixture(params=[False, Packing(chunk_kb=1)], ids=["plain", "packed"])
def source(tmp_path: Path, request: pytest.FixtureRequest) -> DafWriter:
    """Return a source, plain or in chunks of a few columns."""
    return filled(tmp_path / "source.daf.zarr", request.param)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "suffix"), [*product(AXES, [None]), ("fewer", ".h5df"), ("more", ".daf.zarr")]
)
def test_each_is_what_numpy_takes(
    tmp_path: Path,
    source: DafWriter,
    name: str,
    suffix: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With blocks of a few elements; the same values in the same forms and orientations."""
    lower(monkeypatch, held_per_element=96, copied_bytes=1000, thread_bytes=1)
    for number, genes in enumerate((GENES, GENES[::-1], GENES[1:32:3])):
        if name == "more" and len(genes) < len(GENES):
            continue
        empty_daf = open_daf(tmp_path / f"ours{number}{suffix}", "w") if suffix else None
        ours = data_set(empty_daf, cell=AXES[name], gene=genes)
        for value in (0, 3) if name == "more" else (None,):
            empty = {
                key: str(value) if key[2] == "text" else (value if key[2] != "flags" else False)
                for key in matrices(source)
            }
            copy_all(source, ours, empty={} if value is None else empty, if_exists="replace")
            assert matrices(ours) == matrices(source)
            for key in matrices(source):
                check(source, ours, key, None if value is None else empty[key])
        ours.close()


def matrices(daf: DafWriter) -> list[tuple[str, str, str]]:
    """Return all matrices in each orientation that is stored."""
    return [
        (rows, columns, name)
        for rows, columns in product(("cell", "gene"), repeat=2)
        for name in sorted(daf.matrices_set(rows, columns, relayout=False))
    ]


def check(source: DafWriter, copy: DafWriter, key: tuple[str, str, str], empty: Any) -> None:
    """Raise if a matrix is not that of the source, looked up entry by entry."""
    info, before = copy.matrix_info(*key), source.matrix_info(*key)
    is_text = before.storage_type.is_string
    is_sparse = not is_text and (before.is_sparse or empty is not None)
    assert info.is_sparse is (is_sparse and not empty)
    assert info.storage_type == before.storage_type
    found, values = copy.get_np_matrix(*key), source.get_np_matrix(*key)
    if info.is_sparse:
        assert found.has_sorted_indices
        found = found.toarray()
    values = values.toarray() if before.is_sparse else values
    rows, columns = (copy.axis_entries(axis).tolist() for axis in key[:2])
    places = [
        source.axis_indices(axis, entries, allow_missing=True)
        for axis, entries in zip(key, (rows, columns), strict=False)
    ]
    is_missing = (places[0] < 0)[:, None] | (places[1] < 0)
    assert np.array_equal(found, np.where(is_missing, empty, values[np.ix_(*places)]))


def test_no_matrix_is_read_as_a_whole(
    source: DafWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A range of columns, or of elements, at a time: neither axis need be the same."""
    source.delete_matrix("cell", "gene", "text")
    lower(monkeypatch, copied_bytes=2000, thread_bytes=1)
    longest: list[int] = []
    opened = type(source.open_matrix("cell", "gene", "dense").dense())
    read_rows = opened.read_rows

    def counting(array: StoredArray, span: Span) -> Any:
        found = read_rows(array, span)
        longest.append(found.nbytes)
        return found

    monkeypatch.setattr(opened, "read_rows", counting)
    read = opened.read

    def counting_all(array: StoredArray) -> Any:
        found = read(array)
        longest.append(0 if array.info.is_mappable else found.nbytes)
        return found

    monkeypatch.setattr(opened, "read", counting_all)
    axes = ((CELLS, GENES), (CELLS[1:], GENES), (CELLS, GENES[2:]), (CELLS[::-1], GENES[::-1]))
    for cells, genes in axes:  # into arrays of another class, of which none is counted
        with open_daf(tmp_path / "copy.h5df", "w") as daf:
            copy_all(source, data_set(daf, cell=cells, gene=genes))
            assert daf.has_matrix("cell", "cell", "square")
    assert max(longest) <= 2000
    assert len(longest) > 50
