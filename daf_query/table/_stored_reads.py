"""Reads of whole vectors of small data sets: those of strings are decoded many at a time."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from daf_query.scan import Column, VectorColumn, nulls_for_empty
from daf_query.table._columns import reader_of, vector_of
from daf_storage.spi import decode_vlen_chunks

_BATCH_BYTES: Final = 1 << 20
"""About how many stored bytes of strings are decoded together."""


@dataclass(frozen=True, slots=True, eq=False)
class _Chunk:
    """The stored strings of a column."""

    data: memoryview
    column: Column
    vector: VectorColumn


class StringBatches:
    """The strings of many columns, one after the other."""

    def __init__(self) -> None:
        self._decoded: list[pa.Array] = []
        self._waiting: list[_Chunk] = []
        self._waiting_bytes = 0

    def add_stored(self, column: Column, identity: Hashable = None) -> bool:
        """Add the vector of a column, decoded sooner or later; False if it cannot be read at once.

        All that are added agree on whether an empty string is a missing value.

        Parameters
        ----------
        identity
            That of the vector, if it has just been looked at.
        """
        read_chunk = reader_of(column, partial(VectorColumn.string_chunk, identity=identity))
        vector = vector_of(column)
        if read_chunk is None or vector is None:
            return False
        data = read_chunk()
        if data is None:
            self.add(_all_of(column))
            return True
        self._waiting.append(_Chunk(data, column, vector))
        self._waiting_bytes += len(data)
        if self._waiting_bytes >= _BATCH_BYTES:
            self._decode()
        return True

    def add(self, strings: pa.Array) -> None:
        """Add strings."""
        self._decode()
        self._decoded.append(strings)

    def finished(self) -> list[pa.Array]:
        """Return all strings that were added."""
        self._decode()
        return self._decoded or [pa.array([], pa.string())]

    def _decode(self) -> None:
        """Decode what waits: together, or, where one is damaged, one by one, which says so."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not waiting:
            return
        counts = [chunk.vector.info.length for chunk in waiting]
        strings = decode_vlen_chunks([chunk.data for chunk in waiting], counts)
        if strings is None:
            self._decoded += [_all_of(chunk.column) for chunk in waiting]
            return
        strings = strings if strings.type == pa.string() else strings.cast(pa.string())
        is_missing = waiting[0].vector.info.empty_is_missing
        self._decoded.append(nulls_for_empty(strings) if is_missing else strings)


def _all_of(column: Column) -> pa.Array:
    read_all = reader_of(column, VectorColumn.read_all)
    if read_all is None:
        raise TypeError(f"{column!r} is not of a vector")
    return read_all()
