"""Tests of `reconstruct_axis`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daf_storage import DafWriter, MemoryDaf, Relation, ZarrDaf, reconstruct_axis
from daf_storage.errors import (
    AppendOnlyError,
    DafError,
    EntryNotFoundError,
    ExistsError,
    InvalidInputError,
    UnsupportedInputError,
    VectorNotFoundError,
)


def _cells(batch: Any = ("X", "X", "Y", "")) -> DafWriter:
    daf = MemoryDaf()
    daf.add_axis("cell", ["A", "B", "C", "D"])
    daf.set_vector("cell", "age", [1, 1, 2, 3])
    daf.set_vector("cell", "score", [0.0, 0.5, 1.0, 2.0])
    daf.set_vector("cell", "batch", list(batch))
    return daf


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
    for entries, error, message in (
        (["X", "Z"], EntryNotFoundError, "axis 'batch' has no entry 'Y'"),
        (["X", "Y", "Z"], InvalidInputError, "entry 'Z' of axis 'batch' is not used"),
    ):
        daf = _cells()
        daf.add_axis("batch", entries)
        before = daf.description()
        with pytest.raises(error, match=message):
            _reconstruct(daf)
        assert daf.description() == before
    assert _reconstruct(daf, properties_defaults={"age": 4}) == {"age": 3}
    assert daf.get_np_vector("batch", "age").tolist() == [1, 2, 4]
    daf.set_vector("cell", "age", [1, 1, 2, 3])
    with pytest.raises(ExistsError, match="vector 'age' of axis 'batch' exists already"):
        _reconstruct(daf, properties_defaults={"age": 4})
    daf.delete_vector("batch", "age")
    daf.set_vector("cell", "age", ["1", "1", "2", "3"], if_exists="replace")
    assert _reconstruct(daf, properties_defaults={"age": "old"}) == {"age": "3"}
    assert daf.get_np_vector("batch", "age").tolist() == ["1", "2", "old"]


def test_what_is_asked_for_must_be_consistent() -> None:
    """The error names the first value that differs, and nothing is changed."""
    daf = _cells()
    with pytest.raises(InvalidInputError, match=r"'score' of axis 'cell' has 0.0 and 0.5 for 'X'"):
        _reconstruct(daf, implicit_properties=["age", "score"])
    assert not daf.has_axis("batch")
    assert _reconstruct(daf, implicit_properties=["age"]) == {"age": 3}


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


def test_bad_arguments(tmp_path: Path) -> None:
    """Unknown vectors, the vector itself, defaults that do not fit, and archives are refused."""
    cases: list[tuple[dict[str, Any], type[DafError], str]] = [
        ({"implicit_properties": ["agee"]}, VectorNotFoundError, "implicit_properties: .*agee"),
        ({"skipped_properties": ["batch"]}, InvalidInputError, "skipped_properties names 'batch'"),
        ({"skipped_properties": "age"}, InvalidInputError, "is a string"),
        ({"properties_defaults": {"x": 1}}, VectorNotFoundError, "properties_defaults: "),
        ({"properties_defaults": {"age": 0.5}}, UnsupportedInputError, "the default of 'age'"),
    ]
    for options, error, message in cases:
        daf = _cells()
        daf.add_axis("batch", ["X", "Y", "Z"])
        with pytest.raises(error, match=message):
            _reconstruct(daf, **options)
        assert daf.has_vector("cell", "age")
    with ZarrDaf(tmp_path / "x.daf.zarr.zip", "w") as archive:
        archive.add_axis("cell", ["A"], vectors={"batch": ["X"], "age": [1]})
        with pytest.raises(AppendOnlyError, match="work on a directory"):
            _reconstruct(archive)


def test_cells_of_no_batch_leave_an_axis_that_exists_as_it_is() -> None:
    """There is no value that it would have to have."""
    daf = _cells(["", "", "", ""])
    daf.add_axis("batch", ["X"])
    assert _reconstruct(daf, implicit_properties=[]) == {}
    assert daf.axis_entries("batch").tolist() == ["X"]
