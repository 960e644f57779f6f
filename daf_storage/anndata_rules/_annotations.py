"""One rule per kind of ``obsm`` and ``varm`` value, in both directions.

Encoding turns a value into a matrix, the labels of its columns and a *note*, a small JSON object
from which decoding restores the value.  What would not come back as it was is refused.  Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from daf_storage._lazy import lazy_module
from daf_storage.anndata_rules import _columns
from daf_storage.base import StorageType, pandas
from daf_storage.errors import UnsupportedInputError

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

Note = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EncodedAnnotation:
    """A value of ``obsm`` or ``varm`` as Daf stores it."""

    matrix: Any
    """Numpy or scipy sparse, of two dimensions."""
    labels: list[str]
    """Entries of the axis of its columns."""
    note: Note
    """What decoding needs besides."""


def encode_annotation(value: Any) -> EncodedAnnotation:
    """Return a value as a matrix.

    Raises
    ------
    UnsupportedInputError
        Daf has no matrix that says all of it; the message says why.
    """
    if hasattr(value, "columns") and hasattr(value, "iloc"):
        return _encode_frame(value)
    if not (isinstance(value, np.ndarray) or sp.issparse(value)):
        raise UnsupportedInputError(f"Daf has no matrices of the kind {type(value).__name__}")
    if len(value.shape) != 2:
        raise UnsupportedInputError(f"it has {len(value.shape)} dimensions; matrices have two")
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise UnsupportedInputError("Daf has no masks")
    kind = StorageType.from_numpy(value.dtype) if value.dtype.kind in "biuf" else None
    if kind is None and value.dtype != np.float16:
        raise UnsupportedInputError(f"Daf has no matrices of dtype {value.dtype}")
    note: Note = {"format": getattr(value, "format", "dense"), "dtype": str(value.dtype)}
    if isinstance(value, sp.sparray):
        note["is_array"] = True
    if value.dtype == np.float16:
        value = value.astype(np.float32)
    return EncodedAnnotation(value, [str(i) for i in range(value.shape[1])], note)


def decode_annotation(values: Any, note: Note, *, index: Any, columns: Any) -> Any:
    """Return a stored matrix as the value that it was.

    Parameters
    ----------
    index, columns
        The entries of its two axes; a value without a note becomes a DataFrame of them.
    """
    if sp.issparse(values):
        kind = note.get("format", "csr")
        kind = kind if kind in {"csr", "csc", "coo"} else "csr"
        matrix = getattr(sp, f"{kind}_{'array' if note.get('is_array') else 'matrix'}")(values)
        return (
            matrix.astype(_columns.narrowed(matrix.data, note["dtype"]).dtype) if note else matrix
        )
    values = np.array(values, order="C")
    if "format" in note:
        return _columns.narrowed(values, note["dtype"]) if "dtype" in note else values
    frame = pandas().DataFrame(values, index=index, columns=note.get("frame", columns))
    for position, dtype in enumerate(note.get("dtypes", [])[: frame.shape[1]]):
        narrow = _columns.narrowed(frame.iloc[:, position].to_numpy(), dtype)
        frame.isetitem(position, narrow)
    return frame


def _encode_frame(frame: Any) -> EncodedAnnotation:
    """Encode a DataFrame, if a matrix of one type says all of it."""
    problem = "a DataFrame of which a matrix of numbers does not say all"
    if not all(isinstance(d, np.dtype) and d.kind in "biuf" for d in frame.dtypes):
        raise UnsupportedInputError(problem)
    note = {"dtypes": [str(d) for d in frame.dtypes], "frame": [str(c) for c in frame.columns]}
    values = frame.to_numpy()
    if values.dtype == np.float16:
        values = values.astype(np.float32)
    if values.dtype.kind not in "biuf" or StorageType.from_numpy(values.dtype) is None:
        raise UnsupportedInputError(problem)
    labels = note["frame"]
    restored = decode_annotation(values, note, index=frame.index, columns=labels)
    if not (_is_same(restored, frame) and values.shape[1]):
        raise UnsupportedInputError(problem)
    is_unique = len(set(labels)) == len(labels)
    return EncodedAnnotation(
        values, labels if is_unique else list(map(str, range(len(labels)))), note
    )


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two frames have the same labels, types and values; NaN equals itself."""
    return bool(
        one.equals(other)
        and list(one.columns) == list(other.columns)
        and other.columns.name is None
        and list(one.dtypes) == list(other.dtypes)
    )
