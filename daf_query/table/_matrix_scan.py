"""The columns of the elements of a matrix: its two axes, and the values.

What a filter says of one axis alone is evaluated on its entries, once each, and becomes a
selection: of the majors of a layout only the selected ones are read, elements of other minors are
dropped by their codes.  All else is evaluated element by element, block by block.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.matrix import ElementBlock, Elements, Selection
from daf_query.scan import (
    Codes,
    LastOfThreads,
    Mask,
    Predicate,
    Rows,
    ScanOptions,
    Values,
    evaluate,
    number_array,
    numpy_type,
)
from daf_query.table._matrix_columns import entry_names
from daf_storage import DafReader, errors
from daf_storage.base import DecodedCache, ForkLock, Span

_WIDE: Final = 8


class AxisEntries:
    """The entries of an axis, decoded when they are first needed."""

    def __init__(
        self,
        daf: DafReader,
        axis: str,
        length: int,
        selection: Selection | None,
        cache: DecodedCache,
        options: ScanOptions,
    ) -> None:
        self._daf = daf
        self._axis = axis
        self._length = length
        self._cache = cache
        self._options = options
        self._lock = ForkLock()
        self._strings: pa.Array | None = None
        self._tables: dict[Predicate, Mask] = {}
        self._chosen: Mask = np.full(length, selection is None)
        if selection is not None:
            self._chosen[selection.positions] = True

    @property
    def selection(self) -> Selection:
        """The entries that are left."""
        if self._chosen.all():
            return Selection.all(self._length)
        return Selection.of(np.flatnonzero(self._chosen), self._length)

    def leave(self, predicate: Predicate) -> None:
        """Leave only the entries for which a predicate is true."""
        self._chosen &= self.table(predicate)

    @property
    def strings(self) -> pa.Array:
        """The entries, in their order."""
        with self._lock:
            if self._strings is None:
                self._strings = self._decoded()
            return self._strings

    def _decoded(self) -> pa.Array:
        daf, axis = self._daf, self._axis
        strings = entry_names(daf, axis, self._cache, self._options)
        if len(strings) != self._length:
            raise errors.FormatError(
                f"{daf.location}: the axis {axis!r} was replaced while a matrix of it was being "
                "queried; run the query again"
            )
        return strings if strings.type == pa.string() else strings.cast(pa.string())

    def table(self, predicate: Predicate) -> Mask:
        """Return for which of the entries that are left a predicate is true."""
        table = self._tables.get(predicate)
        if table is None:
            strings = self.strings
            table = evaluate(predicate, lambda _: strings, len(strings)) & self._chosen
            self._tables[predicate] = table
        return table

    def encoded(self, codes: npt.NDArray[np.int32]) -> pa.DictionaryArray:
        """Return positions as a dictionary of the entries; the codes are not copied."""
        indices = pa.Array.from_buffers(pa.int32(), codes.size, [None, pa.py_buffer(codes)])
        return pa.DictionaryArray.from_arrays(indices, self.strings, safe=False)


class ElementBlocks:
    """The blocks of a scan; the last one of each thread is kept for its other columns."""

    def __init__(self, elements: Elements) -> None:
        self._elements = elements
        self._last: LastOfThreads = {}

    def at(self, span: Span) -> ElementBlock:
        """Return the block of a span."""
        thread = threading.get_ident()
        last = self._last.get(thread)
        if last is None or last[0] != span:
            last = self._last[thread] = (span, self._elements.block(span))
        block: ElementBlock = last[1]
        return block


@dataclass(frozen=True, eq=False)
class ElementColumn:
    """A part of each element; it is its own open column."""

    field: pa.Field
    part: Literal["majors", "minors", "values"]
    blocks: ElementBlocks
    entries: AxisEntries | None = None
    """The entries of its axis; None for values."""
    is_string = False
    chunk_rows = 0
    zones = None

    def open(self, cache: DecodedCache, options: ScanOptions) -> ElementColumn:  # noqa: ARG002 - its blocks are of one state
        """Open it for reading."""
        return self

    def row_index(self) -> None:
        """Return nothing: what an index would find are entries, which are chosen before."""
        return

    def values(self, rows: Rows) -> Values:
        """Return codes of the entries, or stored values, small integers as they are."""
        read = self._read(rows)
        if self.entries is not None:
            return Codes(read, self.entries.strings, self.entries.table)
        return read if _is_small_integer(read) else self._converted(read)

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return a dictionary of the entries, or values."""
        read = self._read(rows)
        if self.entries is not None:
            return self.entries.encoded(read)
        values = self._converted(read)
        return values if isinstance(values, pa.Array) else number_array(values)

    def _read(self, rows: Rows) -> Any:
        return getattr(self.blocks.at(rows.span), self.part)(rows.offsets)

    def _converted(self, values: Any) -> Any:
        is_text = isinstance(values, pa.Array)
        return values if is_text else values.astype(numpy_type(self.field.type), copy=False)


def _is_small_integer(values: Any) -> bool:
    """Return whether values are compared with a wider constant exactly as they are."""
    return isinstance(values, np.ndarray) and values.dtype.kind in "iu" and values.itemsize < _WIDE
