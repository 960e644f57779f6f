"""Arrays in memory that stand among stored ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from daf_storage.base import AnyArray, Span, StorageType
from daf_storage.trees._array_bases import NotFileBacked
from daf_storage.trees._protocol import ArrayInfo, StoredArray


class MemoryArray(NotFileBacked):
    """An array whose elements are in memory, or are made when they are first asked for.

    Parameters
    ----------
    make
        Returns numpy, or Arrow strings.
    shape, storage_type
        If they are known before.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        *,
        shape: tuple[int, ...] | None = None,
        storage_type: StorageType | None = None,
        sources: tuple[StoredArray, ...] = (),
    ) -> None:
        self._make = make
        self._made: Any = None
        self._known = (shape, storage_type)
        self._sources = sources

    @property
    def _values(self) -> Any:
        if self._made is None:
            self._made = self._make()
        return self._made

    @property
    def info(self) -> ArrayInfo:  # type: ignore[override]  # computed, where others have it ready
        """Its metadata."""
        shape, kind = self._known
        if shape is None or kind is None:
            values = self._values
            is_numpy = isinstance(values, np.ndarray)
            shape = values.shape if is_numpy else (len(values),)
            kind = StorageType.of(values.dtype) if is_numpy else StorageType.STRING
            self._known = shape, kind
        return ArrayInfo(shape, kind, shape, is_mappable=False)

    def fingerprint(self) -> list[int] | None:
        """Return numbers that change with what it is made of."""
        return joined_fingerprints(self._sources)

    def read(self) -> AnyArray:
        """Return all elements."""
        kind = self.info.storage_type
        if kind.is_string:
            strings: AnyArray = self._values.to_numpy(zero_copy_only=False)
            return strings.reshape(self.info.shape)
        values: AnyArray = np.ascontiguousarray(self._values, kind.dtype).reshape(self.info.shape)
        values = values.view()
        values.flags.writeable = False
        return values

    def read_rows(self, span: Span) -> AnyArray:
        """Return a range of the first dimension."""
        return self.read()[span.slice]

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return several ranges of the first dimension."""
        values = self.read() if within is None else self.read()[:, within.slice]
        return [values[span.slice] for span in spans]

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings."""
        return self._values


def memory_array(values: AnyArray) -> MemoryArray:
    """Return values in memory as an array among stored ones."""
    kind = StorageType.of(values.dtype)
    return MemoryArray(lambda: values, shape=values.shape, storage_type=kind)


def joined_fingerprints(arrays: tuple[StoredArray, ...]) -> list[int] | None:
    """Return the numbers of all arrays; None if changes of one of them cannot be detected."""
    prints = [array.fingerprint() for array in arrays]
    if not prints or None in prints:
        return None
    return [number for each in prints for number in each or ()]
