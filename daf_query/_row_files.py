"""Write rows to files batch by batch: Parquet, Arrow, CSV, TSV and JSON."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import pyarrow as pa

from daf_query._formats import COMPRESSED, ROW_FORMATS, ROW_SUFFIXES
from daf_query._provenance import Record, with_record
from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.stores import open_output

if TYPE_CHECKING:
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq
else:
    pq = lazy_module("pyarrow.parquet")
    pacsv = lazy_module("pyarrow.csv")

Format: TypeAlias = Literal["parquet", "arrow", "csv", "tsv", "json", "ndjson"]
"""How rows are written."""

_GROUP_ROWS: Final = 1 << 19
_GROUP_BYTES: Final = 1 << 24

_LEVEL: Final = 6


@dataclass(frozen=True)
class Rows:
    """Rows that come in batches, once."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]

    def with_record(self, record: Record) -> Rows:
        """Return the rows with a schema that says where they come from."""
        return Rows(with_record(self.schema, record), self.batches)

    def plain(self) -> Rows:
        """Return the rows without views and dictionaries, which few readers know."""
        schema = plain_schema(self.schema)
        if schema == self.schema:
            return self
        return Rows(schema, (_cast(batch, schema) for batch in self.batches))


def format_of(path: Path) -> Format:
    """Return the format that a file name asks for."""
    is_compressed = path.suffix == COMPRESSED
    found = ROW_SUFFIXES.get(Path(path.stem).suffix if is_compressed else path.suffix)
    if found is None or (is_compressed and not ROW_FORMATS[found].is_text):
        raise errors.InvalidInputError(
            f"cannot tell the format of {str(path)!r} from its suffix; use one of "
            f"{', '.join(ROW_SUFFIXES)} (those of text also with {COMPRESSED}), or say which format"
        )
    return cast("Format", found)


def save_rows(rows: Rows, path: Path, file_format: Format) -> None:
    """Write rows to a file; it appears, or is replaced, when it is complete.

    A pipe or a device gets them as they come.
    """
    if path.suffix == COMPRESSED and not ROW_FORMATS[file_format].is_text:
        raise errors.InvalidInputError(
            f"cannot write {str(path)!r}: {file_format} is compressed inside; "
            f"leave {COMPRESSED} out"
        )
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


def write_rows(rows: Rows, file_format: Format, file: IO[bytes]) -> None:
    """Write rows as they come."""
    rows = rows.plain()
    _check_types(rows.schema, file_format)
    if file_format in ("json", "ndjson"):
        for line in json_lines(rows, file_format):
            file.write(f"{line}\n".encode())
        return
    sink = pa.PythonFile(file, mode="w")
    writers: dict[str, Callable[..., Any]] = {
        "csv": pacsv.CSVWriter,
        "tsv": _tsv_writer,
        "parquet": pq.ParquetWriter,
        "arrow": pa.ipc.new_file,
    }
    with writers[file_format](sink, rows.schema) as writer:
        if file_format == "parquet":  # the writer alone holds a million rows or more in memory
            for table in _groups(rows):
                writer.write_table(table)
            return
        for batch in rows.batches:
            writer.write_batch(batch)


def _check_types(schema: pa.Schema, file_format: Format) -> None:
    """Refuse columns that a format has no values for, before anything is written."""
    types = pa.types
    for field in schema:
        kind = field.type
        is_binary = types.is_binary(kind) or types.is_large_binary(kind)
        is_refused = types.is_interval(kind)
        if file_format in ("csv", "tsv"):
            is_refused |= types.is_nested(kind) or is_binary or types.is_fixed_size_binary(kind)
        if is_refused and file_format in ("csv", "tsv", "parquet"):
            raise errors.UnsupportedInputError(
                f"column {field.name!r} is {kind}, which {file_format} has no values for; leave it "
                f"out, or make a string of it in the query: CAST(... AS VARCHAR)"
            )


def _tsv_writer(sink: Any, schema: pa.Schema) -> Any:
    return pacsv.CSVWriter(sink, schema, write_options=pacsv.WriteOptions(delimiter="\t"))


def _groups(rows: Rows) -> Iterator[pa.Table]:
    """Yield rows in tables that make good row groups, and take a bounded part of memory."""
    few: list[pa.RecordBatch] = []
    count = size = 0
    for batch in rows.batches:
        few.append(batch)
        count, size = count + batch.num_rows, size + batch.nbytes
        if count >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield _table(few, rows.schema)
            few, count, size = [], 0, 0
    if few:
        yield _table(few, rows.schema)


def _table(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Return batches as a table; the engine's may differ in whether items of lists are nullable."""
    return pa.Table.from_batches(batches).cast(schema)


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema without views and dictionaries."""
    fields = []
    for field in schema:
        data_type = field.type
        if pa.types.is_dictionary(data_type):
            data_type = data_type.value_type
        if data_type == pa.string_view():
            data_type = pa.string()
        elif data_type == pa.binary_view():
            data_type = pa.binary()
        fields.append(pa.field(field.name, data_type))
    return pa.schema(fields, metadata=schema.metadata)


def lists_of(batch: pa.RecordBatch) -> Iterator[list[Any]]:
    """Yield the rows of a batch as Python values."""
    columns = [column.to_pylist() for column in batch.columns]
    for position in range(batch.num_rows):
        yield [column[position] for column in columns]


def json_lines(rows: Rows, file_format: Format) -> Iterator[str]:
    """Yield the lines of a JSON array, or of an object per line."""
    names = rows.schema.names
    objects = (_json_object(names, row) for batch in rows.batches for row in lists_of(batch))
    if file_format == "ndjson":
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
