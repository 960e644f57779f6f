"""The faces of ``pyarrow.dataset``: what a table and its fragments answer, or refuse.

Some functions of pyarrow hand a dataset to C++, which knows nothing of Python: `UnionDataset`,
`Scanner.from_dataset`, the right side of a join.  Without a C++ dataset they would crash the
interpreter; the one behind a table has the schema, and refuses to be scanned by an error that says
what to pass instead.

Engines read tables in threads of their own, and go on for a moment after their consumer has all
that it wants (``LIMIT 3``).  A thread that asks for Python while the interpreter is torn down is
ended by it in the middle of native code, which aborts the process.  So the end of the interpreter
waits until no batch is being made, and none is made after that.
"""

from __future__ import annotations

import atexit
import functools
import os
import time
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, Final, NoReturn, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds

from daf_query.scan import NAME
from daf_storage import errors
from daf_storage._lazy import pc
from daf_storage.base import ForkLock

_T = TypeVar("_T")

_QUIET_SECONDS: Final = 0.02
_QUIET_WHILE_OPEN_SECONDS: Final = 0.1
_POLL_SECONDS: Final = 0.002


class _Readers:
    """Which batches are being made, by any thread; single steps are atomic as they are."""

    def __init__(self) -> None:
        self.is_ending = False
        self.opened: set[object] = set()
        self.running: set[object] = set()
        self.last_step = float("-inf")

    def end(self) -> None:
        """Let no more batches be made, and wait for those that are being made.

        A reader that nobody asks for more stays open; one that is asked again is at its end.
        """
        self.is_ending = True
        while self.running or self._is_recent():
            time.sleep(_POLL_SECONDS)

    def _is_recent(self) -> bool:
        quiet = _QUIET_WHILE_OPEN_SECONDS if self.opened else _QUIET_SECONDS
        return time.monotonic() - self.last_step < quiet

    def forget(self) -> None:
        """Forget the readers of the process that was forked: their threads are not here."""
        self.opened.clear()
        self.running.clear()


_readers = _Readers()
atexit.register(_readers.end)
os.register_at_fork(after_in_child=_readers.forget)


def until_interpreter_ends(batches: Iterator[_T]) -> Iterator[_T]:
    """Yield what an engine reads; the end of the interpreter waits for it, and stops it.

    Raises
    ------
    InUseError
        The interpreter is ending.

    Examples
    --------
    >>> list(until_interpreter_ends(iter([1, 2])))
    [1, 2]
    """
    reader = object()
    end: Any = object()
    _readers.opened.add(reader)
    try:
        while True:
            _readers.running.add(reader)
            try:
                if _readers.is_ending:
                    raise errors.InUseError(
                        "the interpreter is ending, so this query is not read to its end"
                    )
                batch = next(batches, end)
            finally:
                _readers.last_step = time.monotonic()
                _readers.running.discard(reader)
            if batch is end:
                return
            yield batch
    finally:
        _readers.opened.discard(reader)


class _RefusingFile:
    """A file that cannot be read."""

    closed = False

    def close(self) -> None:
        """Do nothing."""

    def read(self, *_: object) -> NoReturn:
        """Refuse."""
        raise errors.InvalidInputError(
            "a table of a data set cannot be scanned by pyarrow's C++ code; pass its to_table(), "
            "its scanner() or pyarrow.RecordBatchReader.from_stream(table) instead"
        )

    seek = tell = read


_FORMAT: Final = ds.IpcFileFormat()
_FRAGMENT: Final = _FORMAT.make_fragment(_RefusingFile())


@functools.lru_cache(maxsize=64)
def unscannable(schema: pa.Schema) -> ds.Dataset:
    """Return a C++ dataset with a schema, of which no row can be read; that of equal ones is one.

    >>> unscannable(pa.schema([("n", pa.int64())])).schema.names
    ['n']
    """
    return ds.FileSystemDataset([_FRAGMENT], schema, _FORMAT)


BATCH_ROWS: Final = 1 << 17
"""The most rows of a batch, unless fewer are asked for."""


class TableScanner:
    """Batches that are filtered and projected already, read as they are asked for.

    All else that engines ask of a ``ds.Scanner`` is asked of one over them, which reads ahead in
    threads of its own.
    """

    def __init__(
        self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], batch_rows: int
    ) -> None:
        self.projected_schema = schema
        self._batches = batches
        self._batch_rows = batch_rows

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches, none of them with more rows than was asked for."""
        for batch in self._batches:
            for start in range(0, batch.num_rows, self._batch_rows):
                yield batch.slice(start, self._batch_rows)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the batches as a stream."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows as an Arrow stream."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_table(self) -> pa.Table:
        """Return all rows; Ctrl-C ends it between two batches, as it would not end pyarrow's."""
        batches, schema = self.to_batches(), self.projected_schema
        if len(schema):
            return pa.Table.from_batches(batches, schema)
        return pa.table({"none": pa.nulls(self.count_rows())}).select([])

    def count_rows(self) -> int:
        """Return how many rows there are; Ctrl-C ends it as well."""
        return sum(batch.num_rows for batch in self._batches)

    def __getattr__(self, name: str) -> Any:
        """Return a method of pyarrow's scanner: ``head``, ``take``, ``scan_batches``."""
        if name.startswith("_") or not hasattr(ds.Scanner, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        rows = ds.Scanner.from_batches(self.to_batches(), schema=self.projected_schema)
        return getattr(rows, name)


def nullable(schema: pa.Schema) -> pa.Schema:
    """Return a schema whose columns may all be NULL."""
    fields = [pa.field(f.name, f.type, nullable=True, metadata=f.metadata) for f in schema]
    return pa.schema(fields, schema.metadata)


def engine_schema(schema: pa.Schema, strings: pa.DataType) -> pa.Schema:
    """Return a schema as the engine sees it: columns may be NULL, and strings are of some type.

    Names stay as they are: all of them are different, so to make views of them brings nothing.
    """
    fields = [
        field.with_type(strings) if field.type == pa.string() and field.name != NAME else field
        for field in schema
    ]
    return nullable(pa.schema(fields, schema.metadata))


class EngineTable(ds.UnionDataset):
    """A Dataset in name: it has a schema, and no rows in C++."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        # A C++ dataset behind this object, lest pyarrow follow a null pointer.
        ds.UnionDataset.__init__(self, schema, [unscannable(schema)])

    # Not a line of Python: of a Ctrl-C at one the engine would die here.
    schema = property(attrgetter("_schema"), doc="The Arrow schema.")


class FileRows(ds.FileSystemDataset):
    """Rows of Parquet or Arrow files as they are when a query begins.

    A dataset of pyarrow remembers of each file how many rows it has, and where they begin.

    Parameters
    ----------
    path
        A file, or a folder of files, of which names such as ``key=value`` are columns.
    file_format
        ``parquet`` or ``ipc``.
    """

    def __init__(self, path: str, file_format: str) -> None:
        self._opening = (os.path.abspath(path), file_format)
        rows = self._opened()
        super().__init__([*rows.get_fragments()], rows.schema, rows.format, rows.filesystem)

    def __reduce__(self) -> Any:
        """Pickle where the files are."""
        return FileRows, self._opening

    def _opened(self, schema: pa.Schema | None = None) -> ds.Dataset:
        path, file_format = self._opening
        return ds.dataset(path, schema, format=file_format, partitioning="hive")

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Any]:
        """Yield the parts of the files, of which nothing is known so far.

        Raises
        ------
        InvalidInputError
            The file lacks a column that it had, or has one of another type.
        """
        try:
            rows, of_now = self._opened(self.schema), self._opened()
        except (OSError, pa.ArrowException):  # a scan of what there was says what is wrong
            return iter(super().get_fragments(filter))
        before, now = ({(f.name, f.type) for f in each.schema} for each in (self, of_now))
        is_one = of_now.files == [self._opening[0]]  # in a folder, files may lack some
        if is_one and not before <= now:
            other = ", ".join(sorted(f"{name!r} ({kind})" for name, kind in before - now))
            raise errors.InvalidInputError(
                f"{of_now.files[0]}: it was replaced by a file without {other}; register it again"
            )
        return iter(rows.get_fragments(filter))


class ComputedDataset(EngineTable):
    """Rows that a function returns, once; for an engine that evaluates filters itself.

    Parameters
    ----------
    schema
        The names and types of the columns, which are known before.
    compute
        Returns the rows.
    """

    def __init__(self, schema: pa.Schema, compute: Callable[[], pa.Table]) -> None:
        super().__init__(nullable(schema))
        self._compute = compute
        self._table: pa.Table | None = None
        self._lock = ForkLock()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        with self._lock:
            if self._table is None:
                self._table = self._compute().cast(self._schema)
        yield from self._table.to_batches()

    def get_fragments(
        self,
        filter: pc.Expression | None = None,  # noqa: ARG002 - pyarrow's signature
    ) -> Iterator[Any]:
        """Yield one fragment, which has all rows; nothing is computed so far."""
        yield self

    def scanner(
        self,
        schema: pa.Schema | None = None,  # noqa: ARG002 - that of a fragment
        columns: Any = None,
        filter: pc.Expression | None = None,
        **_: Any,
    ) -> Any:
        """Return a scanner of all rows; nothing is computed until it is consumed."""
        return ds.Scanner.from_batches(
            until_interpreter_ends(self._batches()),
            schema=self._schema,
            columns=self._schema.names if columns is None else columns,
            filter=filter,
        )
