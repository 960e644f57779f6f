"""Matrices of floats that an import, or a copy, stored as whole numbers."""

from __future__ import annotations

import numpy as np

from daf_storage.data import DafReader
from daf_storage.errors import FormatError, ReadOnlyError
from daf_storage.h5ad._aligned import matrix_note


def was_float(daf: DafReader, rows_axis: str, columns_axis: str, name: str) -> bool:
    """Return whether a matrix was one of floats, according to the notes of the import.

    The axes may be named in either order.  The notes are from a file: what makes no sense in them
    is ignored.
    """
    try:
        notes = [
            matrix_note(daf, *axes, name)
            for axes in ((rows_axis, columns_axis), (columns_axis, rows_axis))
        ]
        return any(np.dtype(str(note["dtype"])).kind == "f" for note in notes if "dtype" in note)
    except (FormatError, ReadOnlyError, AttributeError, TypeError, ValueError):
        return False
