"""Copy the stored elements of a sparse matrix into their place, on all cores.

Indices and values are copied apart, each in ranges that end where its own chunks end: each chunk is
read and decoded once.  A range that is mapped is first touched by the thread that copies it, and
chunks are decoded in threads; while HDF5 decodes some, others are copied.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from daf_storage.base import AnyArray, Progress, Span
from daf_storage.data import EmptySparse, changed_by, largest_number
from daf_storage.errors import CorruptDataError
from daf_storage.stores import put_values
from daf_storage.trees import THREADS, StoredArray, dataset_array, passing_over, run_all

_BLOCK_ELEMENTS: Final = 1 << 20
_CACHED_ELEMENTS: Final = 1 << 16
"""So many indices are looked at, and written, while they are in the cache of a core."""


class RefusedElement(Exception):  # noqa: N818 - a signal, not an error
    """A value that cannot be stored exactly: its place among the stored elements, and itself."""

    def __init__(self, place: int, value: Any) -> None:
        super().__init__(place, value)
        self.place = place
        self.value = value


class ElementReader:
    """All indices or all values of a matrix, read in ranges.

    Parameters
    ----------
    values
        An array in memory, a dataset of an HDF5 file, or anything else that can be sliced.
    """

    def __init__(self, values: Any) -> None:
        self._values = values
        chunks = getattr(values, "chunks", None)
        self._chunk_length: int | None = int(chunks[0]) if chunks else None
        is_array = isinstance(values, np.ndarray)
        self._array: StoredArray | None = None if is_array else dataset_array(values)
        self._item_bytes = int(values.dtype.itemsize)

    def spans(self, nnz: int, *, memory_bytes: int) -> Iterator[Span]:
        """Yield ranges of the elements; those that wait or are copied fit the memory."""
        most = memory_bytes // (self._item_bytes * (4 * THREADS + 2))
        size = max(min(_BLOCK_ELEMENTS, most), 1)
        if self._chunk_length is not None:
            size = max(size // self._chunk_length, 1) * self._chunk_length
        for start in range(0, nnz, size):
            yield Span(start, min(start + size, nnz))

    def read(self, span: Span) -> AnyArray:
        """Return a range."""
        if self._array is not None:
            return self._array.read_rows(span)
        return np.asarray(self._values[span.slice])


class ElementCopy:
    """Copies the elements of a matrix; notes whether indices ascend in each compressed row.

    Parameters
    ----------
    indptr
        Where each compressed row begins, from 0.
    n_minor
        How many indices there are; one that is not below is an error.
    what
        The matrix as messages name it.
    """

    def __init__(
        self,
        indptr: AnyArray,
        out: EmptySparse,
        n_minor: int,
        progress: Progress,
        *,
        what: str,
    ) -> None:
        self._indptr = indptr
        self._out = out
        self._n_minor = n_minor
        self._progress = progress
        self._what = what
        self._lock = threading.Lock()
        self._starts: list[int] = []
        self._ascends = True

    def check_lengths(self, indices: Any, values: Any) -> None:
        """Raise unless there are as many of both as the pointers say."""
        nnz = self._out.rowval.size
        for name, stored in (("indices", indices), ("data", values)):
            if stored.shape[0] < nnz:
                raise CorruptDataError(
                    f"{self._what}: {name} has {stored.shape[0]:,} elements, and indptr ends at "
                    f"{nnz:,}"
                )

    def copy_indices(self, indices: Any, *, memory_bytes: int) -> None:
        """Copy all indices, counting from 1."""
        self._run(self._copy_indices, indices, memory_bytes)

    def copy_values(self, values: Any, *, memory_bytes: int, is_exact: bool) -> None:
        """Copy all values.

        Raises
        ------
        RefusedElement
            ``is_exact``, and the type in which they are stored changes one, the first of which
            this is.
        """
        self._run(self._copy_exactly if is_exact else self._copy_values, values, memory_bytes)

    def _run(
        self, copy: Callable[[Span, AnyArray], None], elements: Any, memory_bytes: int
    ) -> None:
        reader = ElementReader(elements)
        spans = reader.spans(self._out.rowval.size, memory_bytes=memory_bytes)
        with passing_over():
            run_all(functools.partial(copy, span, reader.read(span)) for span in spans)

    @property
    def ascends(self) -> bool:
        """Whether the indices of each compressed row ascend, now that all are copied."""
        starts = np.array([start for start in self._starts if start], dtype=np.int64)
        rowval = self._out.rowval
        falls = starts[rowval[starts] <= rowval[starts - 1]] if starts.size else starts
        return self._ascends and self._are_starts(falls)

    def _copy_indices(self, span: Span, indices: AnyArray) -> None:
        ascends = True
        for start in range(0, indices.size, _CACHED_ELEMENTS):
            part = indices[start : start + _CACHED_ELEMENTS + 1]  # with the first of the next
            falls = np.flatnonzero(part[1:] <= part[:-1]) + (span.start + start + 1)
            ascends = ascends and self._are_starts(falls)
            self._put_indices(span.start + start, part[:_CACHED_ELEMENTS])
        with self._lock:
            self._starts.append(span.start)
            self._ascends &= ascends
            self._progress.add(indices.nbytes)

    def _put_indices(self, start: int, indices: AnyArray) -> None:
        if largest_number(indices) >= self._n_minor:
            raise CorruptDataError(
                f"{self._what}: a column index is outside 0 to {self._n_minor - 1:,}"
            )
        target = self._out.rowval[start : start + indices.size]
        from_one = np.empty(indices.size, target.dtype)
        np.add(indices, 1, out=from_one, dtype=target.dtype, casting="unsafe")
        put_values(target, from_one)

    def _copy_exactly(self, span: Span, values: AnyArray) -> None:
        cast, place = changed_by(values, self._out.nzval.dtype)
        if place is not None:
            raise RefusedElement(span.start + place, values[place])
        self._copy_values(span, cast)

    def _copy_values(self, span: Span, values: AnyArray) -> None:
        put_values(self._out.nzval[span.slice], values)
        with self._lock:
            self._progress.add(values.nbytes)

    def _are_starts(self, places: AnyArray) -> bool:
        """Return whether each of these elements is the first of a compressed row."""
        return bool(np.all(self._indptr[np.searchsorted(self._indptr, places)] == places))
