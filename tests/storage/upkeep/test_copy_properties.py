"""Tests of copies of single properties, and of all of them into what is not empty."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from daf_storage import (
    DafWriter,
    MemoryDaf,
    copy_all,
    copy_axis,
    copy_matrix,
    copy_scalar,
    copy_vector,
    errors,
    open_daf,
)
from daf_storage.base import StorageType
from tests import seams
from tests.suites.examples import contents
from tests.support import csc_parts, data_set, dense

CELLS, GENES = ["A", "B", "C"], ["X", "Y"]
UMIS = np.array([[0, 1], [2, 0], [3, 4]], np.uint8)


def filled() -> DafWriter:
    """Return a data set with a property of each kind."""
    daf = MemoryDaf()
    daf.set_scalar("n", np.int16(5))
    data_set(daf, cell={"name": CELLS, "age": np.array([1, 2, 3], np.uint8)}, gene=GENES)
    daf.set_vector("cell", "word", ["a", "", "c"], empty_is_missing=True)
    daf.set_vector("cell", "flag", sp.csr_array(np.array([[True, False, True]])))
    daf.set_matrix("cell", "gene", "UMIs", UMIS)
    daf.set_matrix("cell", "gene", "sparse", sp.csc_array(UMIS), relayout=False)
    daf.set_matrix("cell", "gene", "text", [["p", "q"], ["r", "s"], ["t", ""]])
    return daf


def empty(cells: list[str], genes: list[str] = GENES) -> DafWriter:
    """Return a data set with these axes and nothing else."""
    return data_set(cell=cells, gene=genes)


EMPTY = {
    ("cell", "age"): 9,
    ("cell", "word"): "none",
    ("cell", "flag"): False,
    ("cell", "gene", "UMIs"): 9,
    ("gene", "cell", "sparse"): 0,
    ("cell", "gene", "text"): "-",
}


@settings(max_examples=8, deadline=None)
@given(st.permutations([*CELLS, "D", "E"]), st.integers(1, 5), st.booleans())
def test_all_kinds_along_other_axes(order: list[str], count: int, is_superset: bool) -> None:  # noqa: FBT001 - of Hypothesis
    """Fewer entries, more of them, and another order: as looking each entry up would have it."""
    cells = order if is_superset else [cell for cell in order if cell in CELLS][:count]
    source, destination = filled(), empty(cells, ["Y", "X"])
    copy_all(source, destination, empty=EMPTY)
    before, after = contents(source), contents(destination)
    for (axis, name), values in before["vectors"].items():
        expected = [
            values[CELLS.index(cell)] if cell in CELLS else EMPTY[axis, name] for cell in cells
        ]
        assert after["vectors"][axis, name] == expected
    for name in ("UMIs", "sparse", "text"):
        values = before["matrices"]["cell", "gene", name]
        key = ("gene", "cell", name) if name == "sparse" else ("cell", "gene", name)
        fill: Any = EMPTY[key]
        expected = [
            values[CELLS.index(cell)][::-1] if cell in CELLS else [fill] * 2 for cell in cells
        ]
        assert after["matrices"]["cell", "gene", name] == expected
        assert (("gene", "cell", name) in after["matrices"]) == (name != "sparse")
    assert destination.vector_info("cell", "flag").is_sparse
    assert destination.matrix_info("cell", "gene", "sparse").is_sparse
    assert destination.vector_info("cell", "word").empty_is_missing
    assert destination.scalar_type("n") is StorageType.INT16
    assert destination.vector_info("cell", "age").storage_type is StorageType.UINT8


def test_what_cannot_be_copied_is_refused_before_anything_is_written() -> None:
    """With the entry, the property, and the argument that helps."""
    source = filled()
    cases: list[tuple[DafWriter, dict[str, Any], str]] = [
        (empty([*CELLS, "D"]), {}, r"'D', which axis 'cell' .*\('cell', 'age'\): VALUE"),
        (empty(["A", "D"]), {"empty": EMPTY}, "has the entry 'D' and lacks 'B', .* lacks 'D'"),
        (empty([*CELLS, "D"]), {"empty": {1: 2}}, r"the key 1; a key is a scalar"),
    ]
    for destination, options, message in cases:
        with pytest.raises(errors.InvalidInputError, match=message):
            copy_all(source, destination, **options)
        assert destination.scalars_set() == set()
        assert destination.vectors_set("cell") == set()


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda daf: daf.set_scalar("n", 1), "scalar 'n'"),
        (lambda daf: daf.set_vector("cell", "age", [7, 7, 7]), "vector 'age'"),
        (lambda daf: daf.set_matrix("gene", "cell", "UMIs", UMIS.T * 2), "matrix 'UMIs'"),
    ],
)
def test_what_is_there(make: Any, what: str) -> None:
    """It is an error, or kept, or replaced."""
    source, destination = filled(), empty(CELLS)
    make(destination)
    before = contents(destination)
    with pytest.raises(errors.ExistsError, match=f"{what} .*exists already; pass .*'skip'"):
        copy_all(source, destination)
    assert contents(destination) == before
    with pytest.raises(errors.InvalidInputError, match="pass 'error', 'replace' or 'skip'"):
        copy_all(source, destination, if_exists="no")  # type: ignore[arg-type] # wrong on purpose
    copy_all(source, destination, if_exists="skip")
    for group, values in before.items():
        assert values.items() <= contents(destination)[group].items()
    copy_all(source, destination, if_exists="replace")
    assert contents(destination) == contents(source)


def test_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each property can be converted, exactly; the values of missing entries are of that type.

    Pointers are of one that holds the last of them, 5, where the usual one ends at 4.
    """
    index_type = seams.real(seams.INDEX_TYPE)
    monkeypatch.setattr(
        seams.INDEX_TYPE, lambda largest, *usual: index_type(largest + 2**32 - 5, *usual)
    )
    source, destination = filled(), empty([*CELLS, "D"])
    dtypes = {("cell", "age"): "f4", ("cell", "gene", "UMIs"): "i8", "n": "f8"}
    copy_all(source, destination, empty={**EMPTY, ("cell", "age"): np.nan}, dtypes=dtypes)
    assert np.isnan(destination.get_np_vector("cell", "age")[3])
    assert destination.matrix_info("gene", "cell", "UMIs").storage_type is StorageType.INT64
    assert destination.scalar_type("n") is StorageType.FLOAT64
    assert csc_parts(destination, "cell", "gene", "sparse").colptr.dtype == np.uint64
    other = empty([*CELLS, "D"])
    copy_vector(source, other, "cell", "flag", empty=True)
    assert other.get_np_vector("cell", "flag").tolist() == [True, False, True, True]
    for value in (1.5, 300, "x"):
        with pytest.raises(errors.InvalidInputError, match="of type uint8, and .* is none"):
            copy_vector(source, other, "cell", "age", empty=value)
    with pytest.raises(errors.InvalidInputError, match="has strings, and empty=1 is none"):
        copy_vector(source, other, "cell", "word", empty=1)
    with pytest.raises(errors.InvalidInputError, match="has strings, and empty=1 is none"):
        copy_matrix(source, other, "cell", "gene", "text", empty=1)
    with open_daf(tmp_path / "x.h5df", "w") as daf:
        copy_all(source, daf, packed=True, dtypes={("cell", "age"): "f4"})
        assert daf.vector_info("cell", "age").storage_type is StorageType.FLOAT32


def test_single_properties_under_other_names() -> None:
    """Names, axes and defaults; what exists is skipped, replaced, or an error."""
    source, other = filled(), MemoryDaf()
    copy_scalar(source, other, "n", rename="m")
    copy_scalar(source, other, "nope", default=None)
    copy_scalar(source, other, "nope", default=3)
    copy_axis(source, other, "cell", rename="obs")
    copy_axis(source, other, "cell", rename="obs", if_exists="skip")
    copy_axis(source, other, "nope", default=None)
    copy_axis(source, other, "gene")
    copy_vector(source, other, "cell", "age", reaxis="obs", rename="years")
    copy_vector(source, other, "cell", "nope", reaxis="obs", default=None)
    copy_vector(source, other, "cell", "nope", reaxis="obs", default=1.5)
    copy_matrix(source, other, "cell", "gene", "UMIs", rows_reaxis="obs", relayout=False)
    copy_matrix(source, other, "gene", "cell", "sparse", columns_reaxis="obs", rename="s")
    copy_matrix(source, other, "cell", "gene", "nope", rows_reaxis="obs", default=None)
    copy_matrix(source, other, "cell", "gene", "twos", rows_reaxis="obs", default=2.0)
    assert other.scalars_set() == {"m", "nope"}
    assert other.vectors_set("obs") == {"years", "nope"}
    assert other.matrices_set("obs", "gene", relayout=False) == {"UMIs", "s", "twos"}
    assert np.all(other.get_np_matrix("obs", "gene", "twos") == 2.0)
    assert other.matrices_set("gene", "obs", relayout=False) == {"s", "twos"}
    for copy, names, error in (
        (copy_scalar, ("x",), errors.ScalarNotFoundError),
        (copy_axis, ("x",), errors.AxisNotFoundError),
        (copy_vector, ("gene", "x"), errors.VectorNotFoundError),
        (copy_matrix, ("gene", "gene", "x"), errors.MatrixNotFoundError),
        (copy_axis, ("gene",), errors.ExistsError),
    ):
        with pytest.raises(error):
            copy(source, other, *names)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.csc_array])
def test_a_matrix_of_an_axis_with_itself_is_copied_to_two_axes_in_both_orientations(
    kind: Any,
) -> None:
    """The other orientation is its transpose, not the same elements again."""
    values = np.arange(9).reshape(3, 3)
    source, other = MemoryDaf(), MemoryDaf()
    data_set(source, cell=CELLS, matrices={("cell", "cell", "links"): kind(values)})
    other.add_axis("from", CELLS)
    other.add_axis("to", CELLS)
    copy_matrix(source, other, "cell", "cell", "links", rows_reaxis="from", columns_reaxis="to")
    for axes, expected in ((("from", "to"), values), (("to", "from"), values.T)):
        found = other.get_np_matrix(*axes, "links")
        np.testing.assert_array_equal(found.toarray() if sp.issparse(found) else found, expected)


def test_recorded_relations_are_kept_where_they_hold() -> None:
    """That values are entries of an axis is recorded only if the destination has them."""
    source = data_set(filled(), type=["a", "c"])
    source.set_vector("cell", "type", ["a", "", "c"], entries_of="type")
    same, other = empty(CELLS[::-1]), empty(CELLS[::-1])
    copy_axis(source, same, "type")
    other.add_axis("type", ["a"])
    for daf, expected in ((same, "type"), (other, None)):
        copy_vector(source, daf, "cell", "type")
        assert daf.vector_info("cell", "type").entries_of == expected
        assert daf.get_np_vector("cell", "type").tolist() == ["c", "", "a"]


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("axes", [("cell",), ("cell", "gene"), ("gene", "cell")])
def test_what_is_left_out_need_not_fit_the_type_of_a_copy(kind: Any, axes: tuple[str, ...]) -> None:
    """A value of an entry that the destination lacks is no error; another is, without a place."""
    source, other = empty(CELLS), empty(["C", "B"])
    copy: Any = copy_vector if len(axes) == 1 else copy_matrix
    source.set_vector("cell", "n", kind(np.array([300, 0, 5])))
    source.set_matrix("cell", "gene", "n", kind(np.array([[1, 300], [2, 0], [4, 5]])))
    copy(source, other, *axes, "n", dtype="uint8")
    if len(axes) == 1:
        found: Any = other.get_np_vector("cell", "n")
        assert (found.tolist(), found.dtype) == ([5, 0], np.uint8)
    else:
        found = other.get_np_matrix("cell", "gene", "n")
        assert dense(found).tolist() == [[4, 5], [2, 0]]
    with pytest.raises(errors.UnsupportedInputError, match="holds 300, which does not fit"):
        copy(source, empty(["B", "A"]), *axes, "n", dtype="uint8")
