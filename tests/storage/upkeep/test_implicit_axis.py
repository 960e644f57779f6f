"""Tests of `reconstruct_axis`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daf_storage import DafWriter, Relation, reconstruct_axis
from daf_storage.errors import ExistsError
from tests.support import data_set


def _cells(batch: Any = ("X", "X", "Y", "")) -> DafWriter:
    vectors = {"age": [1, 1, 2, 3], "score": [0.0, 0.5, 1.0, 2.0], "batch": list(batch)}
    return data_set(cell={"name": ["A", "B", "C", "D"], **vectors})


def _reconstruct(daf: DafWriter, **options: Any) -> dict[str, Any]:
    return reconstruct_axis(daf, existing_axis="cell", implicit_axis="batch", **options)


def test_the_reference_default() -> None:
    """What depends on the batch moves to it; the value of cells of no batch is returned."""
    daf = _cells()
    assert _reconstruct(daf) == {"age": 3}
    assert daf.axis_entries("batch").tolist() == ["X", "Y"]
    assert daf.get_np_vector("batch", "age").tolist() == [1, 2]
    assert daf.vectors_set("cell") == {"batch", "score"}
    assert daf.get_np_vector("cell", "batch").tolist() == ["X", "X", "Y", ""]


def test_the_reference_numbers() -> None:
    """Numbers become strings, and the one that stands for none the empty string."""
    daf = _cells([10, 10, 9, 0])
    assert _reconstruct(daf, empty_implicit=0) == {"age": 3}
    assert daf.axis_entries("batch").tolist() == ["9", "10"]
    assert daf.get_np_vector("batch", "age").tolist() == [2, 1]
    assert daf.get_np_vector("cell", "batch").tolist() == ["10", "10", "9", ""]
    assert daf.vector_info("cell", "batch").empty_is_missing
    assert daf.relations() == [Relation("cell", "batch", "batch", "import")]


def test_an_axis_that_exists() -> None:
    """It must have all values, and defaults for what the cells do not use."""
    daf = _cells()
    daf.add_axis("batch", ["X", "Y", "Z"])
    assert _reconstruct(daf, properties_defaults={"age": 4}) == {"age": 3}
    assert daf.get_np_vector("batch", "age").tolist() == [1, 2, 4]
    daf.set_vector("cell", "age", [1, 1, 2, 3])
    with pytest.raises(ExistsError, match="vector 'age' of axis 'batch' exists already"):
        _reconstruct(daf, properties_defaults={"age": 4})
    daf.delete_vector("batch", "age")
    daf.set_vector("cell", "age", ["1", "1", "2", "3"], if_exists="replace")
    assert _reconstruct(daf, properties_defaults={"age": "old"}) == {"age": "3"}
    assert daf.get_np_vector("batch", "age").tolist() == ["1", "2", "old"]


def test_only_what_is_asked_for_moves() -> None:
    """Whatever else depends on the batch stays."""
    daf = _cells()
    daf.set_vector("cell", "other", [1, 1, 2, 3])
    assert _reconstruct(daf, implicit_properties=["age"]) == {"age": 3}
    assert daf.vectors_set("cell") == {"batch", "other", "score"}


def test_strings_nan_bool_and_sparse_vectors() -> None:
    """Each type of vector moves with its values; NaN is equal to itself."""
    daf = _cells(["q", "q", "p", "p"])
    moving: dict[str, Any] = {
        "city": ["Ulm", "Ulm", "", ""],
        "ratio": [np.nan, np.nan, 2.5, 2.5],
        "is_old": [True, True, False, False],
    }
    for name, values in moving.items():
        daf.set_vector("cell", name, values, empty_is_missing=name == "city")
    daf.set_vector("cell", "count", sp.csc_array(np.array([[7, 7, 0, 0]], np.uint8)))
    daf.set_vector("cell", "half", [np.nan, 1.0, 1.0, 1.0])
    results = _reconstruct(daf, rename_axis="lot", skipped_properties=["is_old"])
    assert results == {"city": None, "ratio": None, "count": None}
    assert daf.axis_entries("lot").tolist() == ["p", "q"]
    assert daf.get_np_vector("lot", "city").tolist() == ["", "Ulm"]
    assert daf.vector_info("lot", "city").empty_is_missing
    np.testing.assert_array_equal(daf.get_np_vector("lot", "ratio"), [2.5, np.nan])
    count = daf.get_np_vector("lot", "count")
    assert (count.tolist(), count.dtype) == ([0, 7], np.uint8)
    assert daf.vectors_set("cell") == {"age", "score", "batch", "half", "is_old"}


def test_a_string_that_stands_for_none() -> None:
    """It becomes the empty string, and cells of either belong together."""
    daf = _cells(["X", "NA", "Y", ""])
    daf.set_vector("cell", "age", [1, 5, 2, 5], if_exists="replace")
    assert _reconstruct(daf, empty_implicit="NA", skipped_properties=["score"]) == {"age": 5}
    assert daf.get_np_vector("cell", "batch").tolist() == ["X", "", "Y", ""]
    assert daf.axis_entries("batch").tolist() == ["X", "Y"]


def test_cells_of_no_batch_leave_an_axis_that_exists_as_it_is() -> None:
    """There is no value that it would have to have."""
    daf = _cells(["", "", "", ""])
    daf.add_axis("batch", ["X"])
    assert _reconstruct(daf, implicit_properties=[]) == {}
    assert daf.axis_entries("batch").tolist() == ["X"]
