"""Any value of an AnnData as a JSON document and back, exactly.

Dictionaries, lists, numbers, strings and small numpy arrays are represented in the document itself,
with their dtypes.  Larger and other ones are *elements*: they are handed to whoever asked, who
writes them in anndata's own encoding, and the document refers to them by name.  What anndata's
encoding does not give back as it was (dates, masks, gaps in strings) is taken apart first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from daf_storage._lazy import lazy_module
from daf_storage.base import pandas
from daf_storage.errors import UnsupportedDataError, UnsupportedInputError

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

_MAX_ELEMENTS = 10_000
"""Larger arrays are elements: the document is read whole whenever a part of it is needed."""

_TYPE = "type"


class Elements(Protocol):
    """Where elements are written."""

    def add(self, value: Any) -> str:
        """Write a value in anndata's encoding and return its name.

        Raises
        ------
        UnsupportedInputError
            Anndata cannot write it.
        """
        ...

    def read(self, name: str) -> Any:
        """Return an element."""
        ...

    def remove(self, name: str) -> None:
        """Take an element away."""
        ...


ReadElement = Callable[[str], Any]
"""Returns the element of a name."""


def encode(value: Any, elements: Elements | None = None) -> Any:
    """Return a JSON value from which `decode` restores ``value``.

    Parameters
    ----------
    elements
        Where elements go; None if there is no place for them.

    Raises
    ------
    UnsupportedInputError
        Something in it has no representation; the message says what.

    Examples
    --------
    >>> decode(encode({"k": np.array([1.5, np.nan], dtype="f4")}))
    {'k': array([1.5, nan], dtype=float32)}
    """
    return _Encoder(elements).encode(value)


class _Encoder:
    def __init__(self, elements: Elements | None) -> None:
        self._elements = elements

    def encode(self, value: Any) -> Any:  # noqa: C901, PLR0912 - one line per kind of value
        if self._elements is None and _is_compound(value):
            return self._element(value)
        if isinstance(value, np.ma.MaskedArray):
            return self._masked(value)
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.generic):
            if _is_plain(value.dtype) and value.dtype.kind != "S":
                return {_TYPE: "scalar", "dtype": value.dtype.str, "value": _plain(value.item())}
            return {_TYPE: "item", "of": self.encode(np.asarray(value))}
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return _plain(value)
        if isinstance(value, complex):
            return {_TYPE: "complex", "parts": [_plain(value.real), _plain(value.imag)]}
        if isinstance(value, bytes):
            return {_TYPE: "bytes", "value": value.decode("latin-1")}
        if isinstance(value, dict):
            items = [[self.encode(key), self.encode(item)] for key, item in value.items()]
            return {_TYPE: "dict", "items": items}
        if isinstance(value, list | tuple):
            kind = "list" if isinstance(value, list) else "tuple"
            return {_TYPE: kind, "items": [self.encode(item) for item in value]}
        if sp.issparse(value):
            return self._sparse(value)
        if hasattr(value, "iloc") and hasattr(value, "columns"):
            return self._frame(value)
        if isinstance(value, pandas().api.extensions.ExtensionArray):
            return self._column(value)
        return self._element(value)

    def _element(self, value: Any, problem: str = "") -> dict[str, Any]:
        if self._elements is None:
            kind = f"{type(value).__module__}.{type(value).__name__} objects"
            raise UnsupportedInputError(problem or kind)
        return {_TYPE: "element", "name": self._elements.add(value)}

    def _array(self, array: np.ndarray[Any, Any]) -> dict[str, Any]:
        kind = array.dtype.kind
        if kind in "mM":
            counts = np.ascontiguousarray(array).view(np.int64).reshape(array.shape)
            return {_TYPE: "view", "dtype": array.dtype.str, "of": self.encode(counts)}
        if array.dtype.names is not None:
            return self._records(array)
        if not _is_plain(array.dtype):
            return self._element(array, f"an array of dtype {array.dtype}")
        if array.size > _MAX_ELEMENTS and not _has_gaps(array):
            return self._large(array)
        values = array.reshape(-1).tolist()
        if kind == "O" and not all(isinstance(v, str) for v in values):
            items = [self.encode(item) for item in values]
            return {_TYPE: "objects", "shape": list(array.shape), "items": items}
        if kind == "S":
            values = [v.decode("latin-1") for v in values]
        return {
            _TYPE: "array",
            "dtype": "O" if kind == "T" else array.dtype.str,
            "shape": array.shape,
            "values": [_plain(v) for v in values],
        }

    def _records(self, array: np.ndarray[Any, Any]) -> dict[str, Any]:
        """Represent a structured array field by field; anndata changes the strings in it."""
        names = array.dtype.names or ()
        fields = [
            [name, self.encode(np.array(array[name])), list(array.dtype[name].shape)]
            for name in names
        ]
        is_rec = isinstance(array, np.recarray)
        return {_TYPE: "records", "fields": fields, "shape": array.shape, "is_rec": is_rec}

    def _large(self, array: np.ndarray[Any, Any]) -> dict[str, Any]:
        """Represent an array as an element; anndata gives strings back as objects."""
        found = self._element(array, f"an array of {array.size:,} elements, which is too large")
        return found if array.dtype.kind != "U" else {**found, "dtype": array.dtype.str}

    def _masked(self, array: Any) -> dict[str, Any]:
        """Represent a masked array by its data and its mask; anndata drops the mask."""
        return {
            _TYPE: "masked",
            "data": self.encode(np.asarray(array.data)),
            "mask": self.encode(np.ma.getmaskarray(array)),
            "fill": self.encode(array.fill_value),
        }

    def _sparse(self, matrix: Any) -> dict[str, Any]:
        compressed = matrix if matrix.format in {"csr", "csc"} else matrix.tocsr()
        return {
            _TYPE: "sparse",
            "format": matrix.format,
            "is_array": isinstance(matrix, sp.sparray),
            "of": self._element(compressed),
        }

    def _frame(self, frame: Any) -> dict[str, Any]:
        """Represent a DataFrame as anndata does, or by its columns where that changes it."""
        if self._elements is not None:
            try:
                name = self._elements.add(frame)
            except UnsupportedInputError:
                pass  # anndata knows fewer kinds of columns than pandas has
            else:
                if _is_same_frame(self._elements.read(name), frame):
                    return {_TYPE: "element", "name": name}
                self._elements.remove(name)
        columns = [self._column(frame.iloc[:, n].array) for n in range(frame.shape[1])]
        return {
            _TYPE: "frame",
            "columns": columns,
            "names": self._index(frame.columns),
            "index": self._index(frame.index),
        }

    def _index(self, index: Any) -> dict[str, Any]:
        if isinstance(index, pandas().MultiIndex):
            raise UnsupportedInputError("a DataFrame with several levels of labels")
        if isinstance(index, pandas().RangeIndex):
            found: Any = {_TYPE: "range", "of": [index.start, index.stop, index.step]}
        else:
            found = self._column(index.array)
        return {"values": found, "name": self.encode(index.name)}

    def _column(self, values: Any) -> dict[str, Any]:
        """Represent a column: a pandas array of whatever kind."""
        dtype = values.dtype
        is_plain = type(values) is pandas().arrays.NumpyExtensionArray  # others derive from it
        if isinstance(dtype, np.dtype) or is_plain:
            found: dict[str, Any] = self.encode(np.asarray(values))
            return found
        name = {"dtype": str(dtype)}
        if isinstance(dtype, pandas().CategoricalDtype):
            return {
                _TYPE: "categorical",
                "codes": self.encode(np.asarray(values.codes)),
                "categories": self._index(values.categories),
                "ordered": bool(values.ordered),
            }
        if isinstance(dtype, pandas().DatetimeTZDtype | pandas().PeriodDtype):
            return {_TYPE: "moments", **name, "of": self.encode(values.asi8.copy())}
        if isinstance(dtype, pandas().SparseDtype):
            return {_TYPE: "fill_valued", **name, "of": self.encode(np.asarray(values))}
        if isinstance(dtype, pandas().IntervalDtype):
            ends = [self._index(values.left), self._index(values.right)]
            return {_TYPE: "intervals", "ends": ends, "closed": values.closed}
        if isinstance(dtype, pandas().StringDtype) and dtype.name == "string":
            name = {"dtype": f"string[{dtype.storage}]"}
        return {
            _TYPE: "gappy",
            **name,
            "of": self.encode(_filled(values)),
            "mask": self.encode(np.asarray(values.isna())),
        }


def decode(document: Any, element: ReadElement | None = None) -> Any:
    """Return the value that `encode` was given."""
    return _Decoder(element).decode(document)


class _Decoder:
    def __init__(self, element: ReadElement | None) -> None:
        self.element = element

    def decode(self, document: Any) -> Any:
        if not isinstance(document, dict):
            return document
        restore = getattr(self, f"_{document.get(_TYPE)}", None)
        if restore is None:
            raise UnsupportedDataError(
                f"a value of the kind {document.get(_TYPE)!r}; a newer release may read it"
            )
        return restore(document)

    def _dict(self, document: dict[str, Any]) -> Any:
        return {self.decode(key): self.decode(value) for key, value in document["items"]}

    def _list(self, document: dict[str, Any]) -> Any:
        return [self.decode(item) for item in document["items"]]

    def _tuple(self, document: dict[str, Any]) -> Any:
        return tuple(self._list(document))

    def _float(self, document: dict[str, Any]) -> Any:
        return float(document["value"])

    def _complex(self, document: dict[str, Any]) -> Any:
        return complex(*(self.decode(part) for part in document["parts"]))

    def _bytes(self, document: dict[str, Any]) -> Any:
        return str(document["value"]).encode("latin-1")

    def _scalar(self, document: dict[str, Any]) -> Any:
        return np.dtype(document["dtype"]).type(self.decode(document["value"]))

    def _item(self, document: dict[str, Any]) -> Any:
        return self.decode(document["of"])[()]

    def _view(self, document: dict[str, Any]) -> Any:
        return self.decode(document["of"]).view(document["dtype"])

    def _element(self, document: dict[str, Any]) -> Any:
        if self.element is None:
            raise UnsupportedInputError(f"an element {document['name']!r} that is not there")
        found = self.element(document["name"])
        return found.astype(document["dtype"]) if "dtype" in document else found

    def _masked(self, document: dict[str, Any]) -> Any:
        data, mask, fill = (self.decode(document[part]) for part in ("data", "mask", "fill"))
        return np.ma.MaskedArray(data, mask, fill_value=fill)

    def _sparse(self, document: dict[str, Any]) -> Any:
        found = self.decode(document["of"])
        kind = f"{document['format']}_{'array' if document['is_array'] else 'matrix'}"
        return getattr(sp, kind)(found)

    def _frame(self, document: dict[str, Any]) -> Any:
        index, names = self._index(document["index"]), self._index(document["names"])
        columns = {n: self.decode(column) for n, column in enumerate(document["columns"])}
        frame = pandas().DataFrame(columns, index=index, copy=False)
        frame.columns = names
        return frame

    def _index(self, document: dict[str, Any]) -> Any:
        values = self.decode(document["values"])
        name = self.decode(document["name"])
        if isinstance(values, range):
            return pandas().RangeIndex(values, name=name)
        dtype = values.dtype if values.dtype == object else None
        return pandas().Index(values, dtype=dtype, name=name)

    def _range(self, document: dict[str, Any]) -> Any:
        return range(*document["of"])

    def _categorical(self, document: dict[str, Any]) -> Any:
        return pandas().Categorical.from_codes(
            self.decode(document["codes"]),
            categories=self._index(document["categories"]),
            ordered=document["ordered"],
        )

    def _moments(self, document: dict[str, Any]) -> Any:
        counts, dtype = (
            self.decode(document["of"]),
            pandas().api.types.pandas_dtype(document["dtype"]),
        )
        if isinstance(dtype, pandas().PeriodDtype):
            return pandas().arrays.PeriodArray(counts, dtype=dtype)
        plain = pandas().Series(counts.view(f"M8[{dtype.unit}]"))
        return plain.dt.tz_localize("UTC").dt.tz_convert(dtype.tz).array

    def _fill_valued(self, document: dict[str, Any]) -> Any:
        return pandas().arrays.SparseArray(self.decode(document["of"]), dtype=document["dtype"])

    def _intervals(self, document: dict[str, Any]) -> Any:
        left, right = (self._index(end) for end in document["ends"])
        return pandas().arrays.IntervalArray.from_arrays(left, right, closed=document["closed"])

    def _gappy(self, document: dict[str, Any]) -> Any:
        values, mask = self.decode(document["of"]), self.decode(document["mask"])
        listed = pandas().array(values, dtype=document["dtype"])
        listed[mask] = pandas().NA
        return listed

    def _objects(self, document: dict[str, Any]) -> Any:
        found = np.empty(len(document["items"]), dtype=object)
        for position, item in enumerate(document["items"]):
            found[position] = self.decode(item)
        return found.reshape(document["shape"])

    def _records(self, document: dict[str, Any]) -> Any:
        fields = [(n, self.decode(field), tuple(inner)) for n, field, inner in document["fields"]]
        dtype: list[Any] = [(name, field.dtype, inner) for name, field, inner in fields]
        records = np.empty(document["shape"], dtype=dtype)
        for name, field, _ in fields:
            records[name] = field
        return records.view(np.recarray) if document["is_rec"] else records

    def _array(self, document: dict[str, Any]) -> Any:
        values = [self.decode(value) for value in document["values"]]
        if np.dtype(document["dtype"]).kind == "S":
            values = [value.encode("latin-1") for value in values]
        return np.array(values, dtype=document["dtype"]).reshape(document["shape"])


def _is_compound(value: Any) -> bool:
    """Return whether a value is for an image to hold, however small it is."""
    is_column = isinstance(value, pandas().api.extensions.ExtensionArray)
    return is_column or isinstance(value, np.ma.MaskedArray) or hasattr(value, "iloc")


def _has_gaps(array: np.ndarray[Any, Any]) -> bool:
    """Return whether an array of objects has other things in it than strings."""
    return array.dtype.kind == "O" and not all(isinstance(v, str) for v in array.reshape(-1))


def _is_plain(dtype: np.dtype[Any]) -> bool:
    """Return whether JSON has these elements: not complex, nor floats beyond 64 bits."""
    return dtype.kind in "biuOUST" or (
        dtype.kind == "f" and dtype.itemsize <= np.float64().itemsize
    )


def _is_same_frame(one: Any, other: Any) -> bool:
    try:
        pandas().testing.assert_frame_equal(one, other, check_exact=True, check_freq=False)
    except (AssertionError, AttributeError, TypeError, ValueError):
        return False
    return bool(one.columns.dtype == other.columns.dtype)


def _filled(values: Any) -> Any:
    """Return the values of a pandas array with gaps, as numpy, with something in the gaps."""
    types = pandas().api.types
    if types.is_bool_dtype(values.dtype):
        return values.to_numpy(dtype=bool, na_value=False)
    if types.is_numeric_dtype(values.dtype):
        plain = np.dtype(str(values.dtype).lower().split("[", 1)[0])
        return values.to_numpy(dtype=plain, na_value=plain.type(0))
    if types.is_string_dtype(values.dtype):
        return values.to_numpy(dtype=object, na_value="")
    raise UnsupportedInputError(f"a column of dtype {values.dtype}")


def _plain(value: Any) -> Any:
    """Keep NaN and the infinities out of JSON, which has none."""
    if isinstance(value, float) and not math.isfinite(value):
        return {_TYPE: "float", "value": repr(value)}
    return value
