"""The parts of ``uns`` that are no scalars, as JSON and back, exactly.

Dictionaries, lists, numbers, strings, and numpy arrays (also structured ones, which scanpy uses for
ranked genes) are represented with their dtypes.  Everything else is refused by name.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from daf_storage.errors import UnsupportedInputError

_MAX_ELEMENTS = 2_000_000
_TYPE = "type"


def encode(value: Any) -> Any:
    """Return a JSON value from which `decode` restores ``value``.

    Raises
    ------
    UnsupportedInputError
        Something in it has no representation; the message says what.

    Examples
    --------
    >>> decode(encode({"k": np.array([1.5, np.nan], dtype="f4")}))
    {'k': array([1.5, nan], dtype=float32)}
    """
    if isinstance(value, np.ndarray):
        return _encode_array(value)
    if isinstance(value, np.generic):
        return {_TYPE: "scalar", "dtype": value.dtype.str, "value": _plain(value.item())}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return _plain(value)
    if isinstance(value, dict):
        return {_TYPE: "dict", "items": [[_key(k), encode(v)] for k, v in value.items()]}
    if isinstance(value, list):
        return {_TYPE: "list", "items": [encode(item) for item in value]}
    raise UnsupportedInputError(f"{type(value).__module__}.{type(value).__name__} objects")


def decode(document: Any) -> Any:
    """Return the value that `encode` was given."""
    if not isinstance(document, dict):
        return document
    match document[_TYPE]:
        case "dict":
            return {key: decode(value) for key, value in document["items"]}
        case "list":
            return [decode(item) for item in document["items"]]
        case "float":
            return float(document["value"])
        case "scalar":
            return np.dtype(document["dtype"]).type(decode(document["value"]))
        case _:
            return _decode_array(document)


def _encode_array(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    if array.size > _MAX_ELEMENTS:
        raise UnsupportedInputError(f"an array of {array.size:,} elements, which is too large")
    if array.dtype.names is not None:
        fields = [[name, encode(np.ascontiguousarray(array[name]))] for name in array.dtype.names]
        return {_TYPE: "records", "fields": fields}
    if array.dtype.kind not in "biufOUST":
        raise UnsupportedInputError(f"an array of dtype {array.dtype}")
    values = array.reshape(-1).tolist()
    if array.dtype.kind in "OUT" and not all(isinstance(v, str) for v in values):
        raise UnsupportedInputError("an array of Python objects that are not all strings")
    if array.dtype.kind == "S":
        raise UnsupportedInputError("an array of byte strings")
    kind = "O" if array.dtype.kind == "T" else array.dtype.str
    return {
        _TYPE: "array",
        "dtype": kind,
        "shape": array.shape,
        "values": [_plain(v) for v in values],
    }


def _decode_array(document: dict[str, Any]) -> np.ndarray[Any, Any]:
    if document[_TYPE] == "records":
        fields = {name: decode(field) for name, field in document["fields"]}
        dtype = [(name, field.dtype) for name, field in fields.items()]
        first = next(iter(fields.values()))
        records = np.empty(first.shape, dtype=dtype)
        for name, field in fields.items():
            records[name] = field
        return records
    values = [decode(value) for value in document["values"]]
    return np.array(values, dtype=document["dtype"]).reshape(document["shape"])


def _plain(value: Any) -> Any:
    """Keep NaN and the infinities out of JSON, which has none."""
    if isinstance(value, float) and not math.isfinite(value):
        return {_TYPE: "float", "value": repr(value)}
    return value


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise UnsupportedInputError(f"a dictionary with the key {key!r}")
    return key
