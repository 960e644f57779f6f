"""Tests of the value objects."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from daf_storage import errors
from daf_storage.base import Span, StorageType


def test_storage_types_and_numpy_dtypes_correspond() -> None:
    """Each numeric type has one dtype, in either byte order; the others have none."""
    for kind in StorageType:
        if not kind.is_string:
            assert StorageType.from_numpy(kind.dtype) is kind
            assert StorageType.from_numpy(kind.dtype.newbyteorder(">")) is kind
    for dtype in ("f2", "c8", "M8[s]", "V4", "O", "m8[s]"):
        assert StorageType.from_numpy(np.dtype(dtype)) is None
    for dtype in ("U3", "S3"):
        assert StorageType.from_numpy(np.dtype(dtype)) is StorageType.STRING
    with pytest.raises(TypeError, match="strings have no numpy dtype"):
        _ = StorageType.STRING.dtype


def test_spans_cannot_be_wrong() -> None:
    """A span that ends before it starts, or starts before zero, is refused."""
    assert Span(2, 2).size == 0
    for start, stop in ((-1, 2), (3, 2)):
        with pytest.raises(errors.InvalidInputError, match="a span needs"):
            Span(start, stop)


def test_errors_survive_copying_and_pickling() -> None:
    """Errors cross process borders whole, and are what handlers of builtins expect."""
    error = errors.vector_not_found("x.daf.zarr", "cell", "agee", ["age"])
    assert (
        str(error)
        == "x.daf.zarr: axis 'cell' has no vector 'agee'; it has age; did you mean 'age'?"
    )
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(twin), str(twin)) == (type(error), str(error))
    assert isinstance(error, LookupError)
    assert isinstance(errors.SourceNotFoundError(), FileNotFoundError)
    assert isinstance(errors.ReadOnlyError(), PermissionError)


def test_the_remedy_of_an_error_survives_and_can_be_said_otherwise() -> None:
    """The command line puts its option for the argument; pickled errors keep both."""
    error = pickle.loads(pickle.dumps(errors.path_exists("x.daf.zarr")))
    assert str(error) == (
        'x.daf.zarr exists already; pass if_exists="replace" to replace it, or name another path'
    )
    assert error.remedy == errors.Remedy(
        "pass ", 'if_exists="replace"', " to replace it, or name another path"
    )
    assert error.sentence(None) == "x.daf.zarr exists already"
