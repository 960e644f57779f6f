"""The tests of formats in which properties can be replaced and deleted."""

from __future__ import annotations

import itertools
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daf_storage import DafReader, DafWriter, errors
from tests.suites.daf_suite import DafSuite
from tests.suites.examples import CELLS, UMIS, contents, csc_parts, fill_served


class ChangingDafSuite(DafSuite):
    """The contract of formats in which properties can be replaced and deleted."""

    def test_scalars_are_replaced_only_on_request(self, daf: DafWriter) -> None:
        """Setting an existing scalar is an error without ``if_exists="replace"``."""
        daf.set_scalar("depth", 1)
        with pytest.raises(errors.ExistsError, match="scalar 'depth' exists already"):
            daf.set_scalar("depth", 2)
        wrong: list[Any] = [True, Path("error")]
        for name, choice in itertools.product(("depth", "new"), wrong):
            with pytest.raises(errors.InvalidInputError, match="invalid if_exists: .*; pass"):
                daf.set_scalar(name, 2, if_exists=choice)
        assert not daf.has_scalar("new")
        made: Any = Enum  # as a program makes one of its own
        named = made("Named", {"REPLACE": "replace"}, type=str).REPLACE
        daf.set_scalar("depth", 2, if_exists=named)
        assert daf.get_scalar("depth") == 2

    def test_deleting_scalars(self, daf: DafWriter) -> None:
        """A deleted scalar is gone; deleting what is missing is an error unless it need not exist."""
        daf.set_scalar("depth", 1)
        with pytest.raises(errors.ScalarNotFoundError):
            daf.delete_scalar("version")
        daf.delete_scalar("version", must_exist=False)
        daf.delete_scalar("depth")
        assert not daf.has_scalar("depth")

    def test_replacing_an_axis_takes_its_properties(self, full: DafWriter) -> None:
        """An axis is replaced on request only, and its vectors and matrices go with it."""
        with pytest.raises(errors.ExistsError, match="axis 'gene' exists already"):
            full.add_axis("gene", ["Foo", "Bar", "Baz"])
        full.add_axis("gene", ["Foo", "Bar", "Baz"], if_exists="replace")
        assert full.axis_entries("gene").tolist() == ["Foo", "Bar", "Baz"]
        assert full.vectors_set("gene") == set()
        assert full.matrices_set("cell", "gene") == set()
        assert full.vectors_set("cell") == {"age", "type"}

    def test_deleting_an_axis_takes_its_properties(self, full: DafWriter) -> None:
        """What runs along a deleted axis is gone, also after an axis of that name is added."""
        full.delete_axis("gene")
        assert full.axes_set() == {"cell"}
        with pytest.raises(errors.AxisNotFoundError, match="no axis 'gene'; it has cell"):
            full.delete_axis("gene")
        full.delete_axis("gene", must_exist=False)
        full.add_axis("gene", ["Foo"])
        assert full.vectors_set("gene") == set()
        assert full.matrices_set("cell", "gene") == set()

    def test_vector_conflicts(self, full: DafWriter) -> None:
        """An existing vector is replaced only on request."""
        with pytest.raises(errors.ExistsError, match="vector 'age' of axis 'cell' exists already"):
            full.set_vector("cell", "age", [1, 2, 3])
        full.relayout_matrix("cell", "gene", "UMIs", if_exists="replace")
        full.set_vector("cell", "age", [1.5, 2.5, 3.5], if_exists="replace")
        assert full.get_np_vector("cell", "age").tolist() == [1.5, 2.5, 3.5]

    def test_a_bad_shape_with_replace_destroys_nothing(self, full: DafWriter) -> None:
        """Checks come before the old data go."""
        with pytest.raises(errors.LengthError, match="has length 2, but axis 'cell' has 3 entries"):
            full.set_vector("cell", "age", [1, 2], if_exists="replace")
        with pytest.raises(errors.LengthError):
            full.set_matrix("cell", "gene", "UMIs", np.zeros((2, 4)), if_exists="replace")
        with pytest.raises(errors.UnsupportedInputError):
            full.set_vector("cell", "age", np.zeros(3, dtype=complex), if_exists="replace")
        assert full.get_np_vector("cell", "age").tolist() == [30, 60, 90]
        assert full.get_np_matrix("cell", "gene", "UMIs").tolist() == UMIS.tolist()

    def test_deleting_vectors(self, full: DafWriter) -> None:
        """A deleted vector is gone; deleting it again is an error unless it need not exist."""
        full.delete_vector("cell", "age")
        assert full.vectors_set("cell") == {"type"}
        with pytest.raises(errors.VectorNotFoundError):
            full.delete_vector("cell", "age")
        full.delete_vector("cell", "age", must_exist=False)
        with pytest.raises(errors.AxisNotFoundError):
            full.delete_vector("nope", "age", must_exist=False)

    def test_a_failed_fill_stores_nothing(self, full: DafWriter) -> None:
        """An exception within the block leaves what was there."""
        with (
            pytest.raises(RuntimeError),
            full.empty_dense_vector("cell", "age", "i4", if_exists="replace"),
        ):
            raise RuntimeError
        assert full.get_np_vector("cell", "age").tolist() == [30, 60, 90]

    def test_overwriting_a_matrix_never_leaves_two_versions(self, full: DafWriter) -> None:
        """Replacing one orientation takes the other, which would disagree, away."""
        full.set_matrix("cell", "gene", "UMIs", UMIS * 2, if_exists="replace", relayout=False)
        assert full.get_np_matrix("gene", "cell", "UMIs").tolist() == (UMIS * 2).T.tolist()
        assert not full.has_matrix("gene", "cell", "UMIs", relayout=False)
        full.set_matrix("cell", "gene", "UMIs", UMIS * 3, if_exists="replace")
        assert full.get_np_matrix("gene", "cell", "UMIs").tolist() == (UMIS * 3).T.tolist()
        with pytest.raises(errors.ExistsError):
            full.set_matrix("gene", "cell", "UMIs", UMIS.T)

    def test_overwriting_the_only_orientation_there_is(
        self, full: DafWriter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where only the transpose is stored, it goes when the new matrix comes."""
        full.delete_matrix("cell", "gene", "UMIs", relayout=False)

        def crash(*_: Any, **__: Any) -> None:
            raise RuntimeError

        with monkeypatch.context() as patch:
            patch.setattr(DafWriter, "relayout_matrix", crash)
            with pytest.raises(RuntimeError):
                full.set_matrix("cell", "gene", "UMIs", UMIS * 2, if_exists="replace")
        for axes, values in ((("cell", "gene"), UMIS * 2), (("gene", "cell"), (UMIS * 2).T)):
            assert full.get_np_matrix(*axes, "UMIs").tolist() == values.tolist()

    def test_overwriting_the_orientation_that_is_not_stored(self, full: DafWriter) -> None:
        """The one that is stored goes: there are not two matrices that disagree."""
        full.delete_matrix("cell", "gene", "UMIs", relayout=False)
        full.set_matrix("cell", "gene", "UMIs", UMIS * 2, if_exists="replace", relayout=False)
        assert full.get_np_matrix("gene", "cell", "UMIs").tolist() == (UMIS * 2).T.tolist()
        with full.empty_dense_matrix("gene", "cell", "UMIs", "i4", if_exists="replace") as new:
            new[:] = UMIS.T
        assert full.get_np_matrix("cell", "gene", "UMIs").tolist() == UMIS.tolist()

    def test_errors_of_others_while_a_property_is_written(self, full: DafWriter) -> None:
        """They stay what they are, and nothing is stored."""
        for error in (FileNotFoundError(2, "no such file", "/nowhere"), KeyError("Unable to open")):
            with pytest.raises(type(error)) as raised, full.empty_dense_vector("cell", "v", "i4"):
                raise error
            assert raised.value is error
            assert not full.has_vector("cell", "v")

    @pytest.mark.parametrize("entries", [None, ["x", "y"], ["x", "y", "z"]])
    def test_an_axis_that_changes_while_a_property_is_written(
        self, full: DafWriter, entries: list[str] | None
    ) -> None:
        """Nothing is stored for an axis that is gone or is another one by then."""

        def change() -> None:
            full.delete_axis("cell")
            if entries is not None:
                full.add_axis("cell", entries)

        def fill_vector() -> None:
            with full.empty_dense_vector("cell", "v", "i4"):
                change()

        def fill_matrix() -> None:
            with full.empty_dense_matrix("gene", "cell", "m", "i4"):
                change()

        for write in (fill_vector, fill_matrix):
            with pytest.raises(
                errors.LengthError, match="axis 'cell' was replaced, reordered or deleted"
            ):
                write()
            if entries is None:
                full.add_axis("cell", CELLS)
            assert full.vectors_set("cell") == set()
            assert full.matrices_set("gene", "cell") == set()
            full.add_axis("cell", CELLS, if_exists="replace")

    def test_deleting_matrices(self, full: DafWriter) -> None:
        """One orientation, or both; deleting what is not there is an error."""
        full.delete_matrix("gene", "cell", "UMIs", relayout=False)
        with pytest.raises(errors.MatrixNotFoundError, match="have no matrix 'UMIs'"):
            full.delete_matrix("gene", "cell", "UMIs", relayout=False)
        full.delete_matrix("gene", "cell", "UMIs")
        assert not full.has_matrix("cell", "gene", "UMIs")
        full.delete_matrix("gene", "cell", "UMIs", must_exist=False)

    def test_reordering_an_axis(self, daf: DafWriter) -> None:
        """Its entries, vectors and matrices follow, in either place; everything else stays."""
        fill_served(daf)
        daf.set_matrix("cell", "cell", "sparse square", sp.csc_array(np.arange(9).reshape(3, 3)))
        before = contents(daf)
        daf.reorder_axis("cell", ["CATA", "TATA", "GATA"], progress="never")
        assert contents(daf) == reordered(before, "cell", [2, 0, 1])
        daf.reorder_axis("gene", np.array([3, 1, 0, 2], np.uint8), progress="never")
        after = reordered(reordered(before, "cell", [2, 0, 1]), "gene", [3, 1, 0, 2])
        assert contents(daf) == after
        assert daf.vector_info("gene", "flag").is_sparse
        assert daf.matrix_info("cell", "gene", "sparse_UMIs").is_sparse
        rows = csc_parts(daf, "cell", "gene", "sparse_UMIs").rowval
        assert rows.tolist() == sorted_within(daf, "cell", "gene", "sparse_UMIs")
        daf.reorder_axis("none", [])
        daf.set_vector("cell", "new", [1, 2, 3])
        assert daf.axis_indices("cell", ["TATA"]).tolist() == [1]

    def test_a_property_that_is_written_while_its_axis_is_reordered(self, full: DafWriter) -> None:
        """It is refused: it is in the old order."""

        def write() -> None:
            with full.empty_dense_vector("cell", "v", "i4") as values:
                values[:] = [1, 2, 3]
                try:
                    full.reorder_axis("cell", [2, 1, 0])
                except errors.InUseError:
                    raise errors.LengthError("reordered") from None

        with pytest.raises(errors.LengthError, match="reordered"):
            write()
        assert not full.has_vector("cell", "v")


def reordered(found: dict[str, Any], axis: str, order: list[int]) -> dict[str, Any]:
    """Return what `contents` would find after a reordering: the slow, obvious way."""
    matrices = {}
    for (rows, columns, name), values in found["matrices"].items():
        kept = [values[n] for n in order] if rows == axis else values
        matrices[rows, columns, name] = (
            [[row[n] for n in order] for row in kept] if columns == axis else kept
        )
    return {
        "scalars": found["scalars"],
        "axes": {a: [e[n] for n in order] if a == axis else e for a, e in found["axes"].items()},
        "vectors": {
            key: [values[n] for n in order] if key[0] == axis else values
            for key, values in found["vectors"].items()
        },
        "matrices": matrices,
    }


def sorted_within(daf: DafReader, rows: str, columns: str, name: str) -> list[int]:
    """Return the row numbers of a sparse matrix, sorted within each column."""
    parts = csc_parts(daf, rows, columns, name)
    ends = (parts.colptr.astype(int) - 1).tolist()
    found = [sorted(parts.rowval[a:b].tolist()) for a, b in itertools.pairwise(ends)]
    return [number for column in found for number in column]
