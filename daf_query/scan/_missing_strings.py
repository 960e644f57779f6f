"""Empty strings that stand for missing values, as Arrow nulls.  Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def nulls_for_empty(strings: Any) -> Any:
    """Return strings with a null for each empty one; shares their memory.

    >>> nulls_for_empty(pa.array(["a", "", "b"])).to_pylist()
    ['a', None, 'b']
    """
    offsets = offsets_of(strings)
    is_valid = offsets[1:] != offsets[:-1]
    null_count = len(strings) - int(np.count_nonzero(is_valid))
    if not null_count:
        return strings
    start = strings.offset
    validity = np.packbits(np.concatenate([np.zeros(start, bool), is_valid]), bitorder="little")
    buffers = [pa.py_buffer(validity), *strings.buffers()[1:]]
    return pa.Array.from_buffers(strings.type, len(strings), buffers, null_count, start)


def offsets_of(strings: Any) -> npt.NDArray[np.int64]:
    """Return where each string of an Arrow array begins in its buffer, and where the last ends."""
    dtype: Any = np.int64 if pa.types.is_large_string(strings.type) else np.int32
    offsets = np.frombuffer(strings.buffers()[1], dtype)
    return offsets[strings.offset : strings.offset + len(strings) + 1].astype(np.int64)
