"""Answers as JSON, by which processes of different libraries compare them."""

from __future__ import annotations

import hashlib
import math
from typing import Any, Final

import numpy as np

RELATIVE_TOLERANCE: Final = 1e-9
"""By how much floats of small answers may differ, as sums of doubles in another order do; all else is exact, bit by bit."""

SMALL: Final = 1_000
"""Up to how many values an answer is compared value by value, and not by its digest."""


def described(answer: Any) -> dict[str, Any]:
    """Return an answer as JSON: a sparse matrix, an array, an Arrow table, or a data frame of pandas.

    Sparse matrices are put into canonical CSR with 64-bit indices, so that only the elements count.
    """
    if hasattr(answer, "tocsr"):
        from scipy.sparse import csr_matrix

        matrix = csr_matrix(answer, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        parts = {"indptr": matrix.indptr, "indices": matrix.indices, "data": matrix.data}
        return {"shape": [*matrix.shape]} | {
            name: _array(part if name == "data" else part.astype("i8"))
            for name, part in parts.items()
        }
    if hasattr(answer, "to_pydict"):
        return {name: _values(values) for name, values in answer.to_pydict().items()}
    if hasattr(answer, "columns"):
        return {str(name): _values(answer[name].tolist()) for name in answer.columns}
    return {"array": _array(np.asarray(answer))}


def difference(answer: dict[str, Any], expected: dict[str, Any]) -> str | None:
    """Return where two described answers differ, or None."""
    if answer.keys() != expected.keys():
        return f"has {', '.join(answer)}, expected {', '.join(expected)}"
    for name, values in answer.items():
        if not _is_equal(values, expected[name]):
            return f"{name} is {str(values)[:60]}, expected {str(expected[name])[:60]}"
    return None


def _is_equal(value: Any, expected: Any) -> bool:
    if isinstance(value, list) and isinstance(expected, list):
        return len(value) == len(expected) and all(map(_is_equal, value, expected))
    if isinstance(value, float) and isinstance(expected, float):
        return math.isclose(value, expected, rel_tol=RELATIVE_TOLERANCE)
    return bool(value == expected)


def _values(values: list[Any]) -> list[Any]:
    return [value.item() if hasattr(value, "item") else value for value in values]


def _array(values: np.ndarray) -> Any:
    if values.size <= SMALL:
        return values.tolist()
    digest = hashlib.sha256(np.ascontiguousarray(values).data).hexdigest()
    return [str(values.dtype), [*values.shape], digest]
