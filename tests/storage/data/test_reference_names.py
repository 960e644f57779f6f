"""Tests of what the other implementations have too: counters, read-only views, orders, packing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import daf_storage
from daf_storage import DafReader, DafWriter, MemoryDaf, Packing, ZarrDaf, errors, open_daf
from daf_storage.stores import MmapZipStore
from tests.suites.changing_suite import reordered
from tests.support import (
    CELLS,
    GENES,
    UMIS,
    contents,
    data_set,
    dense,
    fill,
    new_daf,
    recorded_calls,
    there,
)


def test_versions_and_alignment(tmp_path: Path) -> None:
    """The constants are those that are written."""
    path = tmp_path / "x.daf.zarr.zip"
    daf = ZarrDaf(path, "w")
    fill(daf).close()
    with MmapZipStore(path) as store:
        assert bytes(store.get("daf/0") or b"") == bytes(
            [daf_storage.MAJOR_VERSION, daf_storage.MINOR_VERSION]
        )
        starts = [store.data_start(entry) for entry in store.entries()]
        assert {start % daf_storage.DAF_DATA_OFFSET_ALIGNMENT for start in starts} == {0}


def test_entries_by_position() -> None:
    """The inverse of `axis_indices`, with the same way to say "no entry"."""
    daf = fill(MemoryDaf())
    assert daf.axis_entries("cell", [2, 0, 2]).tolist() == [CELLS[2], CELLS[0], CELLS[2]]
    assert daf.axis_entries("cell", np.array([], int)).tolist() == []
    assert daf.axis_entries("cell", [1, -1], allow_empty=True).tolist() == [CELLS[1], ""]
    positions = daf.axis_indices("gene", [GENES[3], ""], allow_empty=True)
    assert daf.axis_entries("gene", positions, allow_empty=True).tolist() == [GENES[3], ""]
    assert daf.axis_entries("cell", np.array([1, 0], np.uint64)).tolist() == [CELLS[1], CELLS[0]]
    daf.add_axis("none", [])
    assert daf.axis_entries("none", [-1], allow_empty=True).tolist() == [""]
    assert daf.axis_dict("gene") == {name: i for i, name in enumerate(GENES)}


def test_counters_of_versions() -> None:
    """They begin at 0, and count what is set or deleted; a matrix and its transpose are one."""
    daf = fill(MemoryDaf())
    assert (daf.axis_version_counter("cell"), daf.axis_version_counter("nope")) == (1, 0)
    before = daf.vector_version_counter("cell", "age")
    daf.set_vector("cell", "age", [1, 2, 3], if_exists="replace")
    with daf.empty_dense_vector("cell", "age", "i4", if_exists="replace"):
        pass
    assert daf.vector_version_counter("cell", "age") == before + 2
    with pytest.raises(errors.ExistsError):
        daf.set_vector("cell", "age", [1, 2, 3])
    assert daf.vector_version_counter("cell", "age") == before + 2
    daf.delete_vector("cell", "age")
    assert daf.vector_version_counter("cell", "age") == before + 3
    before = daf.matrix_version_counter("cell", "gene", "UMIs")
    daf.set_matrix("gene", "cell", "UMIs", UMIS.T, if_exists="replace", relayout=False)
    assert daf.matrix_version_counter("cell", "gene", "UMIs") == before + 1
    assert daf.matrix_version_counter("gene", "cell", "UMIs") == before + 1


@pytest.mark.parametrize("name", ["", "x.daf.zarr", "x.daf", "x.h5df"])
def test_counters_rise_with_those_of_axes(tmp_path: Path, name: str) -> None:
    """Reordering, replacing and deleting an axis changes its vectors and matrices, too."""
    daf = fill(new_daf(tmp_path, name))

    def counts() -> tuple[int, ...]:
        return (
            daf.axis_version_counter("cell"),
            daf.vector_version_counter("cell", "age"),
            daf.matrix_version_counter("gene", "cell", "UMIs"),
            daf.axis_version_counter("gene"),
        )

    for change in (
        lambda: daf.reorder_axis("cell", [2, 0, 1], progress="never"),
        lambda: daf.add_axis("cell", ["A"], if_exists="replace"),
        lambda: daf.add_axis("cell", ["A"], if_exists="replace", vectors={"age": [1]}),
        lambda: daf.delete_axis("cell"),
    ):
        before = counts()
        change()
        assert all(now > then for now, then in zip(counts()[:3], before[:3], strict=True))
        assert counts()[3] == before[3]


def test_a_read_only_view(tmp_path: Path) -> None:
    """It sees what the writer does, has no way to change anything, and is closed with it."""
    daf = ZarrDaf(tmp_path / "x.daf.zarr", "w", name="view!")
    view = fill(daf).read_only()
    assert not isinstance(view, DafWriter)
    assert view.name == "view!.read_only"
    assert contents(view) == contents(daf)
    daf.set_scalar("late", 5)
    assert view.get_scalar("late") == 5
    assert view.vector_version_counter("cell", "age") == daf.vector_version_counter("cell", "age")
    assert view.read_only() is view
    daf.close()
    with pytest.raises(errors.DafError, match="closed"):
        view.get_scalar("late")
    reader = open_daf(tmp_path / "x.daf.zarr")
    assert reader.read_only() is reader


@pytest.mark.parametrize("name", ["x.daf.zarr", "x.h5df"])
def test_several_axes_are_reordered_in_one_step(tmp_path: Path, name: str) -> None:
    """Vectors follow their axis, matrices both."""
    daf = fill(new_daf(tmp_path, name))
    daf.set_matrix("cell", "cell", "square", np.arange(9).reshape(3, 3))
    cells, genes, before = [2, 0, 1], [3, 1, 0, 2], contents(daf)
    daf.reorder_axes({"cell": cells, "gene": [GENES[i] for i in genes]}, progress="never")
    expected = reordered(reordered(before, "cell", cells), "gene", genes)
    assert contents(daf) == expected
    with pytest.raises(errors.AxisNotFoundError):
        daf.reorder_axes({"cell": cells, "nope": [0]})
    assert contents(daf) == expected


# Packing of single properties

N = 4000
VALUES = np.arange(N * 3, dtype="f8").reshape(N, 3) % 7


@pytest.fixture(params=["x.daf.zarr", "x.daf.zarr.zip", "x.h5df", "memory"])
def wide(request: pytest.FixtureRequest, tmp_path: Path) -> DafWriter:
    """Return an unpacked data set with an axis that is long enough to be packed."""
    if request.param == "memory":
        daf: DafWriter = MemoryDaf(zarr_format=3)
    else:
        options: Any = {} if request.param == "x.h5df" else {"zarr_format": 3}
        daf = open_daf(tmp_path / request.param, "w", **options)
    return data_set(daf, cell=N, gene=["x", "y", "z"])


def check_packed(daf: DafReader) -> None:
    """Check a vector and matrices that are compressed, be it in one chunk, and their values."""
    matrices = ("cell/gene/d", "cell/gene/s", "gene/cell/s")
    for path in ("vectors/cell/v", *(f"matrices/{matrix}" for matrix in matrices)):
        node = there(daf.tree.node(path))
        assert not there(node.array() or node.array("rowval")).info.is_mappable, path
    assert daf.get_np_vector("cell", "v").tolist() == VALUES[:, 1].tolist()
    for name in "ds":
        assert dense(daf.get_np_matrix("cell", "gene", name)).tolist() == VALUES.tolist()
        assert dense(daf.get_np_matrix("gene", "cell", name)).tolist() == VALUES.T.tolist()


def test_single_properties_are_packed(wide: DafWriter) -> None:
    """Vectors, matrices in both orientations, and only those that are asked for."""
    wide.set_vector("cell", "plain", VALUES[:, 0])
    wide.set_vector("cell", "v", VALUES[:, 1], packed=Packing("zstd"))
    wide.set_matrix("cell", "gene", "d", VALUES, packed=True, relayout=False)
    wide.set_matrix("cell", "gene", "s", sp.csc_array(VALUES), packed=True)
    assert wide.open_vector("cell", "plain").dense().info.is_mappable
    check_packed(wide)


def test_what_is_filled_is_packed_on_request(wide: DafWriter) -> None:
    """Dense and sparse, vectors and matrices; nothing is stored if the block fails."""
    with wide.empty_dense_vector("cell", "v", "f8", packed=True) as vector:
        vector[:] = VALUES[:, 1]
    with wide.empty_dense_matrix("cell", "gene", "d", "f8", packed=True) as matrix:
        matrix[:] = VALUES
    stored = sp.csc_array(VALUES)
    with wide.empty_sparse_matrix("cell", "gene", "s", "f8", stored.nnz, packed=True) as parts:
        parts.colptr[:], parts.rowval[:] = stored.indptr + 1, stored.indices + 1
        parts.nzval[:] = stored.data
    wide.relayout_matrix("cell", "gene", "s", packed=True)
    check_packed(wide)
    with pytest.raises(ZeroDivisionError), wide.empty_dense_vector("cell", "w", "f8", packed=True):
        raise ZeroDivisionError
    assert not wide.has_vector("cell", "w")


@pytest.mark.parametrize("packed", [False, True])
def test_nothing_is_reserved_in_place_of_what_is_there(
    wide: DafWriter, monkeypatch: pytest.MonkeyPatch, *, packed: bool
) -> None:
    """The block is not entered, and nothing is prepared; with if_exists, it is replaced."""
    axes = ("cell", "gene")
    fills: dict[str, Callable[..., AbstractContextManager[Any]]] = {
        "v": partial(wide.empty_dense_vector, "cell", "v", "f8", packed=packed),
        "d": partial(wide.empty_dense_matrix, *axes, "d", "f8", packed=packed),
        "s": partial(wide.empty_sparse_matrix, *axes, "s", "f8", 0, packed=packed),
    }
    wide.set_vector("cell", "v", VALUES[:, 0])
    for name in ("d", "s"):
        wide.set_matrix(*axes, name, VALUES, relayout=False)
    prepared = recorded_calls(
        monkeypatch, (type(wide.writable_tree), "transaction"), lambda *given: given
    )
    for fill_in in fills.values():
        with pytest.raises(errors.DafError, match="exists"), fill_in():
            raise AssertionError
    assert prepared == []
    if wide.is_append_only:
        return
    with fills["s"](if_exists="replace") as parts:
        parts.colptr[:] = 1
    assert len(prepared) == 1
    assert not dense(wide.get_np_matrix(*axes, "s")).any()
    assert wide.get_np_matrix(*axes, "d").tolist() == VALUES.tolist()


def test_a_sparse_fill_whose_colptr_ends_wrong(wide: DafWriter) -> None:
    """It starts at 1 and rises, and does not come to the number of elements: nothing is stored."""
    for packed in (False, True):
        with (
            pytest.raises(errors.InvalidInputError, match="does not rise from 1 to 5"),
            wide.empty_sparse_matrix("cell", "gene", "s", "f8", 4, packed=packed) as parts,
        ):
            parts.colptr[:], parts.rowval[:] = [1, 2, 3, 4], [1, 2, 3, 4]
        assert not wide.has_matrix("cell", "gene", "s")
