"""The cases of the reference's own tests of concatenation, with their results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daf_storage import DafWriter
from daf_storage.errors import (
    DuplicateEntriesError,
    InvalidInputError,
    MatrixNotFoundError,
    VectorNotFoundError,
)
from tests.storage.concat.test_concatenate import concatenated
from tests.support import data_set

Sources = tuple[DafWriter, DafWriter]
NAMES = ["source.1!", "source.2!"]
OF_CELLS = ["source.1!"] * 2 + ["source.2!"] * 3


@pytest.fixture
def sources() -> Sources:
    """Return two data sets of two and three cells, and of two genes."""
    cells, genes = (["A", "B"], ["C", "D", "E"]), ["X", "Y"]
    first, second = (
        data_set(name=n, cell=c, gene=genes) for n, c in zip(NAMES, cells, strict=True)
    )
    return first, second


def test_axes_and_datasets(sources: Sources) -> None:
    """The axis, the axis of the data sets, and the vector that says which; each may be left out."""
    daf = concatenated(sources)
    assert daf.axis_entries("cell").tolist() == ["A", "B", "C", "D", "E"]
    assert daf.axis_entries("dataset").tolist() == NAMES
    assert daf.get_np_vector("cell", "dataset").tolist() == OF_CELLS
    daf = concatenated(sources, dataset_axis=None)
    assert daf.axes_set() == {"cell", "gene"}
    assert not daf.has_vector("cell", "dataset")
    daf = concatenated(sources, dataset_property=False)
    assert daf.axes_set() == {"cell", "dataset", "gene"}
    assert not daf.has_vector("cell", "dataset")


def test_missing_vectors(sources: Sources) -> None:
    """They need a value that stands for them; zeros are stored sparse if that saves enough."""
    sources[0].set_vector("cell", "color", ["red", "green"])
    with pytest.raises(VectorNotFoundError, match=r"'source.2!' has no vector 'color'.*empty="):
        concatenated(sources)
    with pytest.raises(VectorNotFoundError):
        concatenated(sources, empty={"version": 0})
    daf = concatenated(sources, empty={("cell", "color"): "black"})
    assert daf.get_np_vector("cell", "color").tolist() == ["red", "green"] + ["black"] * 3
    sources[0].delete_vector("cell", "color")
    cases: Any = (
        ([1, 2], 0, True),
        ([1, 0], 2, False),
        ([1, 2], False, True),
        ([True, False], 0, False),
    )
    for values, empty, is_sparse in cases:
        sources[0].set_vector("cell", "age", values, if_exists="replace")
        daf = concatenated(sources, empty={("cell", "age"): empty})
        assert daf.get_np_vector("cell", "age").tolist() == [*values, empty, empty, empty]
        assert daf.vector_info("cell", "age").is_sparse is is_sparse


def test_sparse_vectors(sources: Sources) -> None:
    """The result is sparse where that saves a quarter of the space."""
    for first, second, is_sparse in (([1, 2], [3, 4, 5], False), ([1, 0], [0, 0, 2], True)):
        for source, values in zip(sources, (first, second), strict=True):
            source.set_vector("cell", "age", sp.csc_array([values]), if_exists="replace")
        daf = concatenated(sources)
        assert daf.get_np_vector("cell", "age").tolist() == [*first, *second]
        assert daf.vector_info("cell", "age").is_sparse is is_sparse


def test_missing_matrices(sources: Sources) -> None:
    """They need a value that stands for them, under either order of the axes."""
    umis = sp.csc_array([[1, 2], [0, 0]])
    sources[0].set_matrix("cell", "gene", "UMIs", umis)
    for empty in (None, {"version": 0}):
        with pytest.raises(MatrixNotFoundError, match="'source.2!' has no matrix 'UMIs'.*join="):
            concatenated(sources, empty=empty)
    daf = concatenated(sources, empty={("cell", "gene", "UMIs"): 0})
    found = daf.get_np_matrix("cell", "gene", "UMIs")
    assert sp.issparse(found)
    assert found.toarray().tolist() == [[1, 2], [0, 0], [0, 0], [0, 0], [0, 0]]
    daf = concatenated(sources, empty={("gene", "cell", "UMIs"): 5})
    found = daf.get_np_matrix("cell", "gene", "UMIs")
    assert not sp.issparse(found)
    assert found.tolist() == [[1, 2], [0, 0], [5, 5], [5, 5], [5, 5]]


def test_prefixes(sources: Sources) -> None:
    """Entries of a second axis get a prefix, and so do the vectors that hold them."""
    for source, entries, values in zip(
        sources, (["M1"], ["M1", "M2"]), (["M1", "M1"], ["M1", "M2", "M1"]), strict=True
    ):
        source.add_axis("metacell", entries)
        source.set_vector("cell", "metacell", values)
        source.set_vector("cell", "!metacell", values)
    axes = ["cell", "metacell"]
    with pytest.raises(
        DuplicateEntriesError, match="'M1' of axis 'metacell' occurs more than once"
    ):
        concatenated(sources, axes)
    plain = ["M1", "M1", "M1", "M2", "M1"]
    for names, options in (
        (NAMES, {}),
        (["D1", "D2"], {"names": ["D1", "D2"]}),
        (NAMES, {"prefixed": [{"metacell", "!metacell"}, set()]}),
    ):
        daf = concatenated(sources, axes, prefix=[False, True], **options)
        first, second = names
        assert daf.axis_entries("cell").tolist() == ["A", "B", "C", "D", "E"]
        entries = [f"{first}.M1", f"{second}.M1", f"{second}.M2"]
        assert daf.axis_entries("metacell").tolist() == entries
        assert daf.axis_entries("dataset").tolist() == names
        assert daf.get_np_vector("metacell", "dataset").tolist() == [first, second, second]
        prefixed = [f"{n}.{m}" for n, m in zip([first] * 2 + [second] * 3, plain, strict=True)]
        assert daf.get_np_vector("cell", "metacell").tolist() == prefixed
        is_named = "prefixed" in options
        assert daf.get_np_vector("cell", "!metacell").tolist() == (prefixed if is_named else plain)


def test_merged_scalars(sources: Sources) -> None:
    """Skipped, the last one, or collected along the axis of the data sets."""
    for number, source in enumerate(sources, 1):
        source.set_scalar("version", number)
    daf = concatenated(sources, merge=[(("*", "*"), "last")])
    assert not daf.scalars_set()
    assert concatenated(sources, merge={"version": "last"}).get_scalar("version") == 2
    daf = concatenated(sources, merge=[("*", "collect")])
    assert not daf.scalars_set()
    assert daf.get_np_vector("dataset", "version").tolist() == [1, 2]
    with pytest.raises(InvalidInputError, match="'version' cannot be collected, since there is no"):
        concatenated(sources, merge=[("*", "collect")], dataset_axis=None)
    with pytest.raises(InvalidInputError, match=r"merge: the matrices .* cannot be collected"):
        concatenated(sources, merge=[(("gene", "gene", "x"), "collect")])


def test_merged_vectors(sources: Sources) -> None:
    """Skipped, the last one, or collected into a matrix of the wider type."""
    sources[0].set_vector("gene", "weight", np.array([1, 2], np.uint8))
    sources[1].set_vector("gene", "weight", np.array([3, 4], np.uint16))
    daf = concatenated(sources, merge=[("*", "last")])
    assert not daf.vectors_set("gene")
    daf = concatenated(sources, merge=[(("gene", "weight"), "last")])
    assert daf.get_np_vector("gene", "weight").tolist() == [3, 4]
    assert not daf.has_matrix("dataset", "gene", "weight")
    daf = concatenated(sources, merge=[(("*", "*"), "collect")])
    assert not daf.has_vector("gene", "weight")
    found = daf.get_np_matrix("dataset", "gene", "weight")
    assert (found.tolist(), found.dtype) == ([[1, 2], [3, 4]], np.uint16)
    with pytest.raises(InvalidInputError, match="'weight' of axis 'gene' cannot be collected"):
        concatenated(sources, merge=[(("*", "*"), "collect")], dataset_axis=None)
    sources[1].delete_vector("gene", "weight")
    for empty, expected, dtype, is_sparse in (
        (np.float64(0), [[1, 2], [0, 0]], np.float64, True),
        (np.int32(3), [[1, 2], [3, 3]], np.int32, False),
    ):
        options: Any = {"merge": [(("*", "*"), "collect")], "empty": {("gene", "weight"): empty}}
        found = concatenated(sources, **options).get_np_matrix("dataset", "gene", "weight")
        assert sp.issparse(found) is is_sparse
        assert found.dtype == dtype
        assert sp.csc_array(found).toarray().tolist() == expected
    for source, values in zip(sources, ([1, 0], [0, 2]), strict=True):
        source.set_vector("gene", "weight", sp.csc_array([values]), if_exists="replace")
    found = concatenated(sources, merge="collect").get_np_matrix("dataset", "gene", "weight")
    assert sp.issparse(found)
    assert found.toarray().tolist() == [[1, 0], [0, 2]]
    for source in sources:  # dense ones count as having no zeros, and keep the sign of theirs
        source.set_vector("gene", "weight", np.array([-0.0, 0.0]), if_exists="replace")
    found = concatenated(sources, merge="collect").get_np_matrix("dataset", "gene", "weight")
    assert np.signbit(found).tolist() == [[True, False], [True, False]]
