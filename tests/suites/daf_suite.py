"""The tests of every Daf format; its test class inherits `DafSuite` and supplies a data set.

The cases are those that all implementations of Daf are held to: scalars, axes, vectors and
matrices; set, get, replace and delete; defaults; and what is refused, in which order.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp

from daf_storage import DafWriter, errors, open_daf
from daf_storage.base import StorageType
from tests.suites.examples import (
    BY_ROWS,
    CELLS,
    GENES,
    UMIS,
    contents,
    copy_written,
    csc_parts,
    dense,
    fill,
    write_stored,
)

NUMBERS = [kind for kind in StorageType if not kind.is_string]


class DafSuite:
    """The contract of `DafReader` and `DafWriter`."""

    location: ClassVar[str] = ""
    """Where it is in a folder, as ``x.h5dfs#/a``; what is not in a folder overrides `daf`."""
    beside: ClassVar[tuple[str, ...]] = ()
    """Where other data sets are."""
    is_packed: ClassVar[bool] = False

    @pytest.fixture
    def daf(self, tmp_path: Path) -> Iterator[DafWriter]:
        """Return an empty data set."""
        with self.create(tmp_path) as daf:
            yield daf

    @pytest.fixture
    def full(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DafWriter]:
        """Return a data set with one of everything."""
        if not self.location:
            yield fill(request.getfixturevalue("daf"))
            return
        copy_written(type(self), tmp_path, lambda folder: fill(self.create(folder)).close())
        with open_daf(f"{tmp_path}/{self.location}", "r+", packed=self.is_packed) as daf:
            yield daf

    def create(self, folder: Path) -> DafWriter:
        """Return a new empty data set in a folder."""
        for other in self.beside:
            open_daf(f"{folder}/{other}", "w+").add_axis("cell", ["not", "this"])
        return open_daf(f"{folder}/{self.location}", "w+", packed=self.is_packed)

    # Scalars

    @pytest.mark.parametrize(
        "value", [True, False, 0, -5, 2**63 - 1, 2**64 - 1, 1.5, "", "é", "a\n"]
    )
    def test_scalars_read_back(self, daf: DafWriter, value: Any) -> None:
        """A scalar comes back with its value and its Python type."""
        daf.set_scalar("s", value)
        found = daf.get_scalar("s")
        assert (found, type(found)) == (value, type(value))
        assert daf.scalars_set() == {"s"}
        assert daf.has_scalar("s")

    def test_numpy_scalars_keep_their_type(self, daf: DafWriter) -> None:
        """Each storage type is kept; Python numbers become Int64 and Float64."""
        for kind in NUMBERS:
            daf.set_scalar(kind.value, kind.dtype.type(1))
            assert daf.scalar_type(kind.value) is kind
        daf.set_scalar("int", 1)
        daf.set_scalar("float", 1.0)
        assert daf.scalar_type("int") is StorageType.INT64
        assert daf.scalar_type("float") is StorageType.FLOAT64

    def test_missing_scalars(self, full: DafWriter) -> None:
        """A missing scalar is an error with the names that exist, or the default."""
        for look in (full.get_scalar, full.scalar_type):
            with pytest.raises(
                errors.ScalarNotFoundError, match="'organis'; it has n, organism; did"
            ):
                look("organis")
        assert full.get_scalar("version", default=None) is None
        assert full.get_scalar("version", default=3) == 3

    # Axes

    def test_axes_read_back(self, daf: DafWriter) -> None:
        """Entries keep their order, and positions are found for them."""
        daf.add_axis("gene", GENES)
        assert daf.axes_set() == {"gene"}
        assert daf.axis_length("gene") == 4
        assert daf.axis_entries("gene").tolist() == GENES
        assert daf.axis_indices("gene", ["WNT6", "RSPO3", "WNT6"]).tolist() == [2, 0, 2]
        odd: list[Any] = [b"WNT6", "RSPO3", 5]
        assert daf.axis_indices("gene", iter(odd[:2])).tolist() == [2, 0]
        with pytest.raises(errors.EntryNotFoundError, match="no entry '5'"):
            daf.axis_indices("gene", iter(odd[1:]))

    def test_unknown_entries(self, full: DafWriter) -> None:
        """Empty and unknown strings are errors unless they are allowed; then they are -1."""
        for entries, allow in ((["", "TATA"], "allow_empty"), (["NADA", "TATA"], "allow_missing")):
            with pytest.raises(errors.EntryNotFoundError, match="axis 'cell' has no entry"):
                full.axis_indices("cell", entries)
            assert full.axis_indices("cell", entries, **{allow: True}).tolist() == [-1, 0]

    # Vectors

    @pytest.mark.parametrize("kind", NUMBERS)
    def test_every_type_of_vector_reads_back(self, full: DafWriter, kind: StorageType) -> None:
        """Each numeric type keeps its values and its dtype, dense and sparse."""
        values = np.array([0, 1, 1], dtype=kind.dtype)
        full.set_vector("cell", "dense", values)
        full.set_vector("cell", "sparse", sp.csr_array(values.reshape(1, 3)))
        for name in ("dense", "sparse"):
            found = full.get_np_vector("cell", name)
            assert found.dtype == kind.dtype
            assert found.tolist() == values.tolist()
            assert full.vector_info("cell", name).storage_type is kind
            assert full.get_pa_vector("cell", name).to_pylist() == values.tolist()
        assert full.vector_info("cell", "sparse").is_sparse
        assert not full.vector_info("cell", "dense").is_sparse

    def test_strings_read_back(self, full: DafWriter) -> None:
        """Strings of any length, also empty and not ASCII, come back."""
        strings = ["", "naïve 細胞", "x" * 1000]
        full.set_vector("cell", "text", strings)
        assert full.get_np_vector("cell", "text").tolist() == strings
        assert full.get_pa_vector("cell", "text").to_pylist() == strings
        assert full.get_pd_vector("cell", "text").to_dict() == dict(
            zip(CELLS, strings, strict=True)
        )

    def test_reserved_vectors(self, full: DafWriter) -> None:
        """``name`` and ``index`` always exist, are not listed, and cannot be set."""
        assert full.get_np_vector("cell", "name").tolist() == CELLS
        assert full.get_np_vector("cell", "index").tolist() == [0, 1, 2]
        assert full.get_pa_vector("cell", "index").to_pylist() == [0, 1, 2]
        assert full.has_vector("cell", "name")
        assert full.vectors_set("cell") == {"age", "type"}
        for name in ("name", "index"):
            with pytest.raises(errors.InvalidNameError, match=f"vector '{name}' .* is reserved"):
                full.set_vector("cell", name, [1, 2, 3], if_exists="replace")
            with pytest.raises(errors.InvalidNameError):
                full.delete_vector("cell", name)
            with pytest.raises(errors.InvalidNameError):
                full.empty_dense_vector("cell", name, "i4").__enter__()

    def test_labels_must_fit(self, full: DafWriter) -> None:
        """A Series is taken if its labels are the entries in their order, or their positions."""
        for name, index in (("x", CELLS), ("y", None)):
            full.set_vector("cell", name, pd.Series([1, 2, 3], index=index))
            assert full.get_np_vector("cell", name).tolist() == [1, 2, 3]

    def test_missing_vectors(self, full: DafWriter) -> None:
        """A missing vector is an error, or the default."""
        with pytest.raises(errors.VectorNotFoundError):
            full.get_np_vector("cell", "agee")
        assert full.get_np_vector("cell", "agee", default=None) is None
        assert full.get_np_vector("cell", "agee", default=2).tolist() == [2, 2, 2]
        assert full.get_np_vector("cell", "agee", default=[1, 2, 3]).tolist() == [1, 2, 3]

    def test_foreign_numbers_are_stored_little_endian(self, full: DafWriter) -> None:
        """Big-endian and strided input has the same values when read."""
        full.set_vector("cell", "big", np.array([1, 2, 3], dtype=">i4"))
        full.set_vector("cell", "step", np.arange(6)[::2])
        assert full.get_np_vector("cell", "big").tolist() == [1, 2, 3]
        assert full.get_np_vector("cell", "big").dtype == np.dtype("<i4")
        assert full.get_np_vector("cell", "step").tolist() == [0, 2, 4]

    def test_explicit_zeros_are_kept(self, full: DafWriter) -> None:
        """A stored zero of a sparse vector stays stored."""
        full.set_vector("gene", "z", sp.csr_array(([0, 5], ([0, 0], [1, 3])), shape=(1, 4)))
        parts = full.open_vector("gene", "z").sparse_parts()
        assert parts.nzind.tolist() == [2, 4]
        assert parts.nzval is not None
        assert parts.nzval.tolist() == [0, 5]

    # Filling in place

    def test_a_dense_vector_is_filled_in_place(self, full: DafWriter) -> None:
        """It exists when the block has ended, and not before."""
        with full.empty_dense_vector("cell", "v", np.int32) as values:
            values[:] = [11, 22, 33]
            assert not full.has_vector("cell", "v")
        assert full.get_np_vector("cell", "v").tolist() == [11, 22, 33]

    def test_a_sparse_vector_is_filled_in_place(self, full: DafWriter) -> None:
        """Positions count from 1; the default index type is UInt32."""
        with full.empty_sparse_vector("gene", "v", np.float32, 2) as parts:
            parts.nzind[:] = [2, 4]
            parts.nzval[:] = [1.5, 2.5]
        assert full.get_np_vector("gene", "v").tolist() == [0, 1.5, 0, 2.5]
        assert full.open_vector("gene", "v").sparse_parts().nzind.dtype == np.uint32

    @pytest.mark.parametrize("positions", [[0, 1], [1, 5], [2, 2], [3, 1]])
    def test_a_wrong_fill_is_refused(self, full: DafWriter, positions: list[int]) -> None:
        """Positions that do not rise within the axis are refused, and nothing is stored."""
        with (
            pytest.raises(errors.InvalidInputError, match="nothing was stored"),
            full.empty_sparse_vector("gene", "v", bool, 2) as parts,
        ):
            parts.nzind[:] = positions
        assert not full.has_vector("gene", "v")

    def test_matrices_are_filled_in_place(self, full: DafWriter) -> None:
        """Dense and sparse matrices; only the filled orientation is stored."""
        with full.empty_dense_matrix("cell", "gene", "d", np.int16) as values:
            assert values.flags.f_contiguous
            values[:] = UMIS
        with full.empty_sparse_matrix("cell", "gene", "s", np.int64, 9) as parts:
            csc = sp.csc_array(UMIS)
            parts.colptr[:], parts.rowval[:], parts.nzval[:] = (
                csc.indptr + 1,
                csc.indices + 1,
                csc.data,
            )
        for name in "ds":
            assert dense(full.get_np_matrix("cell", "gene", name)).tolist() == UMIS.tolist()
            assert not full.has_matrix("gene", "cell", name, relayout=False)

    def test_a_wrong_matrix_fill_is_refused(self, full: DafWriter) -> None:
        """Column pointers and row numbers are checked before anything is stored."""
        with (
            pytest.raises(errors.InvalidInputError, match="colptr that does not rise from 1 to 3"),
            full.empty_sparse_matrix("cell", "gene", "s", np.int64, 2),
        ):
            pass
        with (
            pytest.raises(errors.InvalidInputError, match="row numbers outside 1 to 3"),
            full.empty_sparse_matrix("cell", "gene", "s", np.int64, 2) as parts,
        ):
            parts.colptr[:] = [1, 3, 3, 3, 3]
        assert not full.has_matrix("cell", "gene", "s")

    # Matrices

    @pytest.mark.parametrize("kind", NUMBERS)
    def test_every_type_of_matrix_reads_back(self, full: DafWriter, kind: StorageType) -> None:
        """Each numeric type, dense and sparse, in both orientations."""
        values = (UMIS > 1).astype(kind.dtype)
        full.set_matrix("cell", "gene", "d", values)
        full.set_matrix("cell", "gene", "s", sp.csr_array(values))
        for name in "ds":
            for relayout in (True, False):
                found = full.get_np_matrix("cell", "gene", name, relayout=relayout)
                flipped = full.get_np_matrix("gene", "cell", name, relayout=relayout)
                assert found.dtype == kind.dtype
                assert dense(found).tolist() == values.tolist()
                assert dense(flipped).tolist() == values.T.tolist()
        assert full.matrix_info("gene", "cell", "s").nnz == int(values.sum())

    def test_both_memory_orders_are_taken(self, full: DafWriter) -> None:
        """Row-major and column-major input means the same."""
        full.set_matrix("cell", "gene", "c", np.ascontiguousarray(UMIS))
        full.set_matrix("cell", "gene", "f", np.asfortranarray(UMIS))
        assert full.get_np_matrix("cell", "gene", "c").tolist() == UMIS.tolist()
        assert full.get_np_matrix("cell", "gene", "f").tolist() == UMIS.tolist()

    def test_one_orientation_on_request(self, full: DafWriter) -> None:
        """``relayout=False`` stores and reads one orientation only."""
        full.set_matrix("cell", "gene", "one", UMIS, relayout=False)
        assert full.has_matrix("gene", "cell", "one")
        assert not full.has_matrix("gene", "cell", "one", relayout=False)
        assert full.get_np_matrix("gene", "cell", "one").tolist() == UMIS.T.tolist()
        with pytest.raises(errors.MatrixNotFoundError):
            full.get_np_matrix("gene", "cell", "one", relayout=False)
        assert "one" not in full.matrices_set("gene", "cell", relayout=False)
        assert "one" in full.matrices_set("gene", "cell")

    def test_conventions(self, full: DafWriter) -> None:
        """A matrix stored by rows, and strings of which the empty ones are missing."""
        values = np.arange(9, dtype=np.int16).reshape(3, 3)
        write_stored(full, "matrices/cell/cell/by rows", {"": values}, BY_ROWS)
        full.set_vector("cell", "gappy", ["a", "", "b"], empty_is_missing=True)
        assert full.matrix_info("cell", "cell", "by rows").is_row_major
        assert full.get_np_matrix("cell", "cell", "by rows").tolist() == values.tolist()
        assert full.vector_info("cell", "gappy").empty_is_missing
        assert full.get_np_vector("cell", "gappy").tolist() == ["a", "", "b"]
        full.set_matrix("cell", "cell", "by columns", values)
        assert not full.matrix_info("cell", "cell", "by columns").is_row_major
        with pytest.raises(errors.InvalidInputError, match="holds no strings"):
            full.set_vector("cell", "numbers", [1, 2, 3], empty_is_missing=True)

    def test_square_matrices_have_one_orientation(self, full: DafWriter) -> None:
        """They are stored once, read as stored, and cannot be relaid out."""
        values = np.arange(9).reshape(3, 3)
        full.set_matrix("cell", "cell", "sq", values)
        assert full.get_np_matrix("cell", "cell", "sq").tolist() == values.tolist()
        with pytest.raises(errors.InvalidInputError, match="can't relayout the square matrix"):
            full.relayout_matrix("cell", "cell", "sq")

    def test_relayout_stores_the_other_orientation(self, full: DafWriter) -> None:
        """Once, and it needs exactly that orientation."""
        full.set_matrix("cell", "gene", "one", sp.csc_array(UMIS), relayout=False)
        with pytest.raises(errors.MatrixNotFoundError):
            full.relayout_matrix("gene", "cell", "one")
        full.relayout_matrix("cell", "gene", "one")
        assert (
            dense(full.get_np_matrix("gene", "cell", "one", relayout=False)).tolist()
            == UMIS.T.tolist()
        )
        with pytest.raises(errors.ExistsError):
            full.relayout_matrix("cell", "gene", "one")

    def test_sparse_bool_matrices(self, full: DafWriter) -> None:
        """An all-true Bool matrix needs no values; its other orientation has them all the same."""
        mask = UMIS % 2 == 1
        full.set_matrix("cell", "gene", "mask", sp.csc_array(mask))
        assert csc_parts(full, "cell", "gene", "mask").nzval is None
        assert csc_parts(full, "gene", "cell", "mask").nzval is not None
        assert dense(full.get_np_matrix("gene", "cell", "mask")).tolist() == mask.T.tolist()
        assert full.matrix_info("cell", "gene", "mask").storage_type is StorageType.BOOL

    def test_unsorted_and_repeated_elements_are_put_in_order(self, full: DafWriter) -> None:
        """What is stored is canonical, and the caller's matrix stays as it was."""
        matrix = sp.csc_array(([1, 2, 4], [2, 0, 2], [0, 3, 3, 3, 3]), shape=(3, 4))
        full.set_matrix("cell", "gene", "m", matrix)
        assert csc_parts(full, "cell", "gene", "m").rowval.tolist() == [1, 3]
        assert dense(full.get_np_matrix("cell", "gene", "m"))[:, 0].tolist() == [2, 0, 5]
        assert matrix.indices.tolist() == [2, 0, 2]

    def test_string_matrices(self, full: DafWriter) -> None:
        """Matrices of strings are stored densely, in both orientations."""
        labels = np.array([list("abcd"), list("efgh"), list("ijkl")])
        full.set_matrix("cell", "gene", "labels", labels)
        assert full.get_np_matrix("cell", "gene", "labels").tolist() == labels.tolist()
        assert (
            full.get_np_matrix("gene", "cell", "labels", relayout=False).tolist()
            == labels.T.tolist()
        )

    def test_frames(self, full: DafWriter) -> None:
        """A frame whose labels are the entries comes back as it was."""
        frame = pd.DataFrame(UMIS, index=CELLS, columns=GENES)
        full.set_matrix("cell", "gene", "m", frame)
        assert full.get_pd_matrix("cell", "gene", "m").equals(frame)

    def test_missing_matrices(self, full: DafWriter) -> None:
        """An error, or the default in its several shapes."""
        with pytest.raises(errors.MatrixNotFoundError):
            full.get_np_matrix("cell", "gene", "UMI")
        assert full.get_np_matrix("cell", "gene", "x", default=None) is None
        assert full.get_np_matrix("cell", "gene", "x", default=2).tolist() == [[2] * 4] * 3
        assert full.get_np_matrix("cell", "gene", "x", default="s").tolist() == [["s"] * 4] * 3
        zero = full.get_np_matrix("cell", "gene", "x", default=np.float32(0))
        assert sp.issparse(zero)
        assert (zero.shape, zero.nnz, zero.dtype) == ((3, 4), 0, np.float32)
        for given in (UMIS, sp.csr_array(UMIS)):
            found = dense(full.get_np_matrix("cell", "gene", "x", default=given))
            assert found.tolist() == UMIS.tolist()

    # Names, emptiness and the rest

    @pytest.mark.parametrize(
        "name",
        ["", ".", "..", "a/b", "a\0b", ".zarray", ".zgroup", "zarr.json", "x" * 256, "\ud800"],
    )
    def test_names_that_break_a_format_are_refused(self, full: DafWriter, name: str) -> None:
        """When written; asking for them finds nothing."""
        for write in (
            lambda: full.set_scalar(name, 1),
            lambda: full.add_axis(name, ["a"]),
            lambda: full.set_vector("cell", name, [1, 2, 3]),
            lambda: full.set_matrix("cell", "gene", name, UMIS),
        ):
            with pytest.raises(errors.InvalidNameError, match="cannot be stored: it"):
                write()
        assert not full.has_scalar(name)
        assert not full.has_axis(name)
        assert not full.has_vector("cell", name)
        assert not full.has_matrix("cell", "gene", name)
        assert full.matrix_axes("gene", name) == []
        for find in (
            lambda: full.get_np_vector("cell", name),
            lambda: full.get_np_matrix("cell", "gene", name),
            lambda: full.matrix_axes(name, "UMIs"),
            lambda: full.axis_length(name),
        ):
            with pytest.raises(errors.NotFoundError):
                find()

    @pytest.mark.parametrize(
        "name", ["daf", "0", "a b", "ü", "A.B", ".hidden", "nzind", "colptr", "-"]
    )
    def test_unusual_names_are_fine(self, full: DafWriter, name: str) -> None:
        """Names that only look special are stored like any other."""
        full.set_scalar(name, 1)
        full.add_axis(name, ["a"])
        full.set_vector(name, name, [1])
        full.set_matrix(name, "gene", name, np.ones((1, 4)))
        assert full.get_scalar(name) == 1
        assert full.get_np_vector(name, name).tolist() == [1]
        assert full.get_np_matrix("gene", name, name).shape == (4, 1)

    def test_emptiness(self, full: DafWriter) -> None:
        """Axes without entries, and sparse arrays without elements, read back."""
        full.add_axis("none", [])
        full.set_vector("none", "v", np.zeros(0, dtype=np.int16))
        full.set_vector("none", "t", pa.array([]))
        full.set_matrix("none", "cell", "m", np.zeros((0, 3), dtype=np.float32))
        full.set_matrix("cell", "gene", "zero", sp.csc_array((3, 4), dtype=np.int32))
        full.set_vector("gene", "zero", sp.csr_array((1, 4), dtype=bool))
        assert full.axis_entries("none").tolist() == []
        assert full.get_np_vector("none", "v").dtype == np.int16
        assert full.get_np_vector("none", "t").tolist() == []
        assert full.get_np_matrix("cell", "none", "m", relayout=False).shape == (3, 0)
        assert dense(full.get_np_matrix("gene", "cell", "zero")).tolist() == [[0] * 3] * 4
        assert full.get_np_vector("gene", "zero").tolist() == [False] * 4

    def test_description_lists_everything(self, full: DafWriter) -> None:
        """The text, the HTML and the dictionary name every property."""
        text, page, plain = full.description(), full._repr_html_(), full.summary().as_dict()
        for name in ("cell", "gene", "age", "marker", "UMIs", "sparse", "organism"):
            assert name in text
            assert name in page
        assert plain["axes"]["cell"]["vectors"]["age"] == {"type": "UInt8", "sparse": False}
        assert plain["matrices"][1]["nnz"] == 9
        for each in plain["matrices"]:
            axes = each["rows_axis"], each["columns_axis"]
            assert " x ".join(axes) in text, "in the order of the text, whichever layout is stored"
            assert each["shape"] == [plain["axes"][axis]["length"] for axis in axes]
            assert each["by"] is None or each["by"] in axes
        assert plain["problems"] == []

    def test_closing(self, full: DafWriter) -> None:
        """A closed data set refuses further use; what it handed out stays valid."""
        ages = full.get_np_vector("cell", "age")
        with full:
            pass
        assert ages.tolist() == [30, 60, 90]
        with pytest.raises(errors.InvalidInputError, match="was closed"):
            full.axes_set()
        full.close()

    def test_a_refused_change_changes_nothing(self, full: DafWriter) -> None:
        """Whatever was refused, the contents are the same as before."""
        before = contents(full)
        for change in (
            lambda: full.set_vector("cell", "new", [1]),
            lambda: full.set_matrix("cell", "gene", "new", np.zeros((1, 1))),
            lambda: full.add_axis("new", ["a", "a"]),
            lambda: full.set_scalar("n", 1),
            lambda: full.relayout_matrix("cell", "gene", "UMIs"),
        ):
            with pytest.raises(errors.DafError):
                change()
        assert contents(full) == before
