"""Rows as they leave, batch by batch: written to files, and in messages to other programs."""

from __future__ import annotations

import gzip
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeAlias, cast

import pyarrow as pa

from daf_query._formats import COMPRESSED, ROW_FORMATS, FileFormat
from daf_query.scan import converted, plain_schema, show_pandas_for
from daf_storage import errors
from daf_storage._lazy import pacsv, pq
from daf_storage.stores import open_output

Format: TypeAlias = Literal["parquet", "arrow", "csv", "tsv", "json", "ndjson"]
"""How rows are written."""

_GROUP_ROWS: Final = 1 << 19
_GROUP_BYTES: Final = 1 << 24

_LEVEL: Final = 6

_MESSAGE_BYTES: Final = 2 << 20
"""About how large a message is; Go's client of Flight takes 16 MiB."""
_MESSAGE_ROWS: Final = 1 << 16
_FEW_ROWS: Final = 4096
_FEW_BYTES: Final = 1 << 16
_JOINING_SECONDS: Final = 0.1
"""How long rows wait for others."""


@dataclass(frozen=True)
class Rows:
    """Rows that come in batches, once."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]

    def plain(self) -> Rows:
        """Return the rows without views and dictionaries, which few readers know."""
        schema = plain_schema(self.schema)
        if schema == self.schema:
            return self
        return Rows(schema, (converted(batch, schema) for batch in self.batches))


def format_of(
    path: Path,
    given: str | None = None,
    among: Mapping[str, FileFormat] = ROW_FORMATS,
    *,
    hint: str = ", or say which format",
) -> Any:
    """Return the format of a file that is written: what is given, or what its suffix asks for."""
    suffixes = {suffix: each.name for each in among.values() for suffix in each.suffixes}
    is_compressed = path.suffix == COMPRESSED
    found = suffixes.get(Path(path.stem).suffix if is_compressed else path.suffix)
    chosen = found if given is None else given
    if chosen is None:
        raise errors.InvalidInputError(
            f"cannot tell the format of {str(path)!r} from its suffix; use one of "
            f"{', '.join(suffixes)} (those of text also with {COMPRESSED}){hint}"
        )
    if chosen not in among:
        has = ", ".join(among)
        raise errors.InvalidInputError(
            f"cannot write {str(path)!r}: there is no format {given!r}; there are {has}"
        )
    if is_compressed and not among[chosen].is_text:
        raise errors.InvalidInputError(
            f"cannot write {str(path)!r}: {chosen} is compressed inside; leave {COMPRESSED} out"
        )
    return chosen


def save_rows(rows: Rows, path: Path, file_format: str) -> None:
    """Write rows to a file; it appears, or is replaced, when it is complete.

    A pipe or a device gets them as they come.
    """
    with open_output(path) as file, compressed(file, path) as sink:
        write_rows(rows, file_format, sink)


@contextmanager
def compressed(file: IO[bytes], path: Path) -> Iterator[IO[bytes]]:
    """Compress what is written, if the suffix of the path says so."""
    if path.suffix != COMPRESSED:
        yield file
        return
    with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
        yield cast("IO[bytes]", packed)


def write_rows(rows: Rows, file_format: str, file: IO[bytes]) -> None:
    """Write rows as they come, without views and dictionaries."""
    write_batches(rows.plain(), file_format, file)


def write_batches(rows: Rows, file_format: str, file: IO[bytes]) -> None:
    """Write rows as they come, in the types that they have."""
    _check_types(rows.schema, file_format)
    if file_format in ("json", "ndjson"):
        names = rows.schema.names
        lists = (values for batch in rows.batches for values in lists_of(batch))
        objects = (dict(zip(names, values, strict=True)) for values in lists)
        for line in json_lines(objects, file_format):
            file.write(f"{line}\n".encode())
        return
    sink = pa.PythonFile(file, mode="w")
    writers: dict[str, Callable[..., Any]] = {
        "csv": pacsv.CSVWriter,
        "tsv": partial(pacsv.CSVWriter, write_options=pacsv.WriteOptions(delimiter="\t")),
        "parquet": pq.ParquetWriter,
        "arrow": pa.ipc.new_file if file.seekable() else pa.ipc.new_stream,  # as in a pipe
    }
    with writers[file_format](sink, rows.schema) as writer:
        if file_format == "parquet":  # the writer alone holds a million rows or more in memory
            for group in _groups(rows.batches, _GROUP_ROWS, _GROUP_BYTES):
                writer.write_table(_table(group, rows.schema))
            return
        for batch in rows.batches:
            is_same = batch.schema.equals(rows.schema)
            writer.write(batch if is_same else _table([batch], rows.schema))


def _check_types(schema: pa.Schema, file_format: str) -> None:
    """Refuse columns that a format has no values for, before anything is written."""
    of_text = ("is_nested", "is_binary", "is_large_binary", "is_fixed_size_binary", "is_interval")
    refused = {"csv": of_text, "tsv": of_text, "parquet": ("is_interval",)}.get(file_format, ())
    for field in schema:
        if any(getattr(pa.types, name)(field.type) for name in refused):
            raise _without_values(field, file_format)


def _without_values(field: pa.Field, what: str) -> errors.UnsupportedInputError:
    return errors.UnsupportedInputError(
        f"column {field.name!r} is {field.type}, which {what} has no values for; leave it out, or "
        f"make a string of it in the query: CAST(... AS VARCHAR)"
    )


def handed_over(table: pa.Table, library: str, convert: Callable[[pa.Table], Any]) -> Any:
    """Return what a library makes of a table, or refuse the column that it cannot hold."""
    try:
        return convert(table)
    except BaseException as error:
        is_panic = type(error).__name__ == "PanicException"  # of Rust
        if isinstance(error, MemoryError) or not (is_panic or isinstance(error, Exception)):
            raise
        convert(pa.table({"n": [0]}))  # if that fails too, it says why
        if table.num_columns == 1:
            raise _without_values(table.schema.field(0), library) from None
        for position in range(table.num_columns):
            handed_over(table.select([position]), library, convert)
        raise


def _table(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Return batches as a table; the engine's may differ in whether items of lists are nullable."""
    return pa.Table.from_batches(batches).cast(schema)


def lists_of(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a batch as Python values; times of day and intervals as SQL writes them."""
    for kind in batch.schema.types:
        show_pandas_for(kind)
    yield from zip(*map(_values, batch.columns), strict=True)


def _values(column: pa.Array) -> list[Any]:
    """Return Python's values, and strings of times of day and intervals: it has no nanoseconds."""
    kind = column.type
    if pa.types.is_duration(kind):
        second = 10 ** (3 * ("s", "ms", "us", "ns").index(kind.unit))
        counts = column.cast(pa.int64()).to_pylist()
        return [None if n is None else _duration(n, second) for n in counts]
    if pa.types.is_time(kind):
        column = column.cast(pa.string())
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):  # beyond the year 9999
        return _values(column.cast(pa.string()))
    if pa.types.is_interval(kind):
        return [None if each is None else _interval(*each) for each in values]
    return values


def _duration(count: int, second: int) -> str:
    """Return a number of parts of a second as an interval.

    >>> _duration(-7_200, 1), _duration(90_000, 1)
    ('-2 hours', '1 days 1 hours')
    """
    sign, (days, rest) = -1 if count < 0 else 1, divmod(abs(count), 86_400 * second)
    return _interval(0, sign * days, sign * rest, second)


def _interval(months: int, days: int, count: int, second: int = 10**9) -> str:
    """Return an interval in the units of SQL; ``count`` is of parts of a second.

    >>> _interval(1, -2, -5_400_500_000_000), _interval(0, 0, 90_000, 1), _interval(0, 0, 0)
    ('1 mons -2 days -1 hours -30 mins -0.5 secs', '25 hours', '0 secs')
    """
    sign, (whole, rest) = -1 if count < 0 else 1, divmod(abs(count), second)
    clock = whole // 3600, whole // 60 % 60, whole % 60 + Decimal(rest) / second
    numbers = months, days, *(sign * each for each in clock)
    named = zip(numbers, ("mons", "days", "hours", "mins", "secs"), strict=True)
    return " ".join(f"{Decimal(each):f} {unit}" for each, unit in named if each) or "0 secs"


def json_lines(objects: Iterable[Mapping[str, Any]], file_format: str) -> Iterator[str]:
    """Yield the lines of a JSON array, or of an object per line.

    >>> list(json_lines([{"x": float("nan"), "y": [1.5, float("inf")]}], "ndjson"))
    ['{"x": null, "y": [1.5, null]}']
    """
    lines = (json.dumps(_with_nulls(each), ensure_ascii=False, default=str) for each in objects)
    if file_format == "ndjson":
        yield from lines
        return
    yield "["
    previous = next(lines, None)
    for line in lines:
        yield f"  {previous},"
        previous = line
    if previous is not None:
        yield f"  {previous}"
    yield "]"


def _with_nulls(value: Any) -> Any:
    """Return a value for JSON, which has neither NaN nor the infinities, also within others."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {name: _with_nulls(each) for name, each in value.items()}
        case list() | tuple():
            return [_with_nulls(each) for each in value]
    return value


def wire_parts(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows in parts of a few megabytes, in the types of a schema."""
    for batch in batches:
        for start in range(0, batch.num_rows, _MESSAGE_ROWS):
            yield from _parts(converted(batch.slice(start, _MESSAGE_ROWS), schema))


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows with small batches put together that come soon after others.

    A cross join has batches of a few rows, each of which would be a message.

    >>> [each.num_rows for each in joined([pa.record_batch({"x": [1]})] * 3)]
    [1, 2]
    """
    for each in _groups(batches, _FEW_ROWS, _FEW_BYTES, _JOINING_SECONDS):
        yield each[0] if len(each) == 1 else pa.concat_batches(each)


def _groups(
    batches: Iterable[pa.RecordBatch], rows: int, size_bytes: int, seconds: float = math.inf
) -> Iterator[list[pa.RecordBatch]]:
    """Yield groups of so many rows or bytes, or of what comes soon; even before an error.

    >>> two = [pa.record_batch({"x": [1, 2]})] * 5
    >>> [[len(each) for each in _groups(two, *least)] for least in ((4, 1000), (1000, 32))]
    [[2, 2, 1], [2, 2, 1]]
    """
    waiting: list[pa.RecordBatch] = []
    count, size, since = 0, 0, -math.inf
    try:
        for batch in batches:
            waiting.append(batch)
            count, size = count + batch.num_rows, size + batch.nbytes
            is_enough = count >= rows or size >= size_bytes
            if is_enough or time.monotonic() - since > seconds:
                ready, waiting, count, size = waiting, [], 0, 0
                yield ready
                since = time.monotonic()
    except Exception:
        yield from [waiting] * bool(waiting)
        raise
    yield from [waiting] * bool(waiting)


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts that fit into a message each; a row is never cut."""
    if batch.num_rows < 2 or batch.nbytes <= _MESSAGE_BYTES:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _parts(batch.slice(0, middle))
    yield from _parts(batch.slice(middle))
