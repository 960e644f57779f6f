"""Rows of a query as text or as files; batches are written as they come."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from daf_query.export import replacing
from daf_storage import errors

_SUFFIXES = {
    ".csv": "csv",
    ".json": "json",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".txt": "table",
}
_BINARY = ("parquet", "arrow")
_TERMINAL_ROWS = 40
_MAX_CELL = 60


def format_of(output: str | None) -> str:
    """Return the format that a file name asks for; a table for standard output."""
    if output is None:
        return "table"
    suffix = Path(output).suffix
    if suffix not in _SUFFIXES:
        raise errors.InvalidInputError(
            f"cannot tell the format of {output!r} from its suffix; "
            f"use one of {', '.join(_SUFFIXES)}, or say it with --format"
        )
    return _SUFFIXES[suffix]


def to_stdout(frame: Any, kind: str, *, max_rows: int | None) -> None:
    """Print the rows of a query."""
    if kind in _BINARY:
        if sys.stdout.isatty():
            raise errors.InvalidInputError(
                f"{kind} is binary; write it to a file with -o FILE, or into a pipe"
            )
        _write(frame, kind, sys.stdout.buffer)
    elif kind == "csv":
        sys.stdout.flush()
        _write(frame, kind, sys.stdout.buffer)
    elif kind == "table":
        limit = _TERMINAL_ROWS if max_rows is None and sys.stdout.isatty() else max_rows or None
        print(as_table(frame, max_rows=limit))
    else:
        for line in _json_lines(frame, kind):
            print(line)


def to_file(frame: Any, kind: str, path: Path) -> None:
    """Write the rows of a query; the file appears when it is complete."""
    if not path.parent.is_dir():
        raise errors.SourceNotFoundError(f"cannot write {str(path)!r}: no such directory")
    replacing(path, partial(_write_path, frame, kind))


def _write_path(frame: Any, kind: str, path: Path) -> None:
    if kind in (*_BINARY, "csv"):
        with path.open("wb") as file:
            _write(frame, kind, file)
        return
    with path.open("w", encoding="utf-8") as file:
        lines = [as_table(frame, max_rows=None)] if kind == "table" else _json_lines(frame, kind)
        file.writelines(f"{line}\n" for line in lines)


def _write(frame: Any, kind: str, file: IO[bytes]) -> None:
    """Write batches in a binary format, or as CSV."""
    schema = _plain_schema(frame.schema())
    sink = pa.PythonFile(file, mode="w")
    if kind == "csv":
        writer: Any = pacsv.CSVWriter(sink, schema)
    elif kind == "parquet":
        writer = pq.ParquetWriter(sink, schema)
    else:
        writer = pa.ipc.new_file(sink, schema)
    with writer:
        for batch in _batches(frame, schema):
            writer.write_batch(batch)


def _batches(frame: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in frame.execute_stream():
        arrow = batch.to_pyarrow()
        columns = [c.cast(f.type) for c, f in zip(arrow.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema without views and dictionaries, which few readers know."""
    fields = []
    for field in schema:
        kind = field.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if kind == pa.string_view():
            kind = pa.string()
        elif kind == pa.binary_view():
            kind = pa.binary()
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def _rows(batch: pa.RecordBatch) -> Iterator[list[Any]]:
    columns = [column.to_pylist() for column in batch.columns]
    for position in range(batch.num_rows):
        yield [column[position] for column in columns]


def _json_lines(frame: Any, kind: str) -> Iterator[str]:
    schema = _plain_schema(frame.schema())
    batches = _batches(frame, schema)
    objects = (_json_object(schema.names, row) for batch in batches for row in _rows(batch))
    if kind == "ndjson":
        yield from objects
        return
    yield "["
    previous = None
    for line in objects:
        if previous is not None:
            yield f"  {previous},"
        previous = line
    if previous is not None:
        yield f"  {previous}"
    yield "]"


def _json_object(names: Sequence[str], row: Sequence[Any]) -> str:
    values = {name: _json_value(value) for name, value in zip(names, row, strict=True)}
    return json.dumps(values, ensure_ascii=False, default=str)


def _json_value(value: Any) -> Any:
    """JSON has neither NaN nor the infinities."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_table(frame: Any, *, max_rows: int | None) -> str:
    """Return rows as an aligned table; numbers to the right, at most ``max_rows`` of them."""
    schema = _plain_schema(frame.schema())
    shown: list[list[str]] = []
    total = 0
    for batch in _batches(frame, schema):
        total += batch.num_rows
        wanted = batch if max_rows is None else batch.slice(0, max_rows - len(shown))
        shown.extend([_cell(value) for value in row] for row in _rows(wanted))
    is_number = [_is_number(field.type) for field in schema]
    lines = aligned(schema.names, shown, is_number)
    if total > len(shown):
        lines.append(f"... {total:,} rows; {len(shown)} shown, --max-rows 0 shows all")
    elif not shown:
        lines.append("(no rows)")
    return "\n".join(lines)


def aligned(
    names: Sequence[str], rows: Iterable[Sequence[str]], is_number: Sequence[bool]
) -> list[str]:
    """Return the lines of a table.

    >>> aligned(["type", "n"], [["B", "12"]], [False, True])
    ['type   n', '----  --', 'B     12']
    """
    listed = [list(names), *map(list, rows)]
    widths = [max(len(row[i]) for row in listed) for i in range(len(names))]
    lines = []
    for row in [listed[0], ["-" * width for width in widths], *listed[1:]]:
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        )
        lines.append("  ".join(cells).rstrip())
    return lines


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        is_large = 1e6 <= abs(value) < 1e15
        return f"{value:.1f}" if is_large else f"{value:.6g}"
    text = " ".join(str(value).split("\n"))
    return text if len(text) <= _MAX_CELL else f"{text[: _MAX_CELL - 1]}…"


def human_bytes(size: float) -> str:
    """Return a size for people.

    >>> human_bytes(1536)
    '1.5 KiB'
    """
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
