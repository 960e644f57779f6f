"""Tables that a user brings: data frames, Arrow, and Parquet, Arrow or CSV files.

A frame becomes an Arrow table that shares its memory where it can; a CSV file is read into one;
Parquet and Arrow files stay where they are.  Must not know the engine.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from daf_query import scan
from daf_storage import errors
from daf_storage._lazy import ds, lazy_module, pacsv, pc
from daf_storage.stores import os_errors

dataset: Any = lazy_module("daf_query.table._dataset")
columns: Any = lazy_module("daf_query.table._columns")

_FILE: Final = re.compile(
    r"\.(?P<format>parquet|arrow|feather|csv|tsv)(?P<gzip>\.gz)?$", re.IGNORECASE
)
_STREAMED: Final = {"parquet": "parquet", "arrow": "ipc", "feather": "ipc"}
_UNREADABLE: Final = (
    pa.lib.Type_LIST_VIEW,
    pa.lib.Type_LARGE_LIST_VIEW,
    pa.lib.Type_RUN_END_ENCODED,
)
_MISSING_NUMBERS: Final = ("", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL")


@dataclass(frozen=True)
class UserTable:
    """Rows that belong to no data set."""

    rows: pa.Table | ds.Dataset
    """In memory, or in files that are read when a query asks for them."""
    location: str
    """A file, or the type of the object, for messages."""


def is_user_table(source: object) -> bool:
    """Return whether an object is a frame, or the path of a file of rows.

    >>> is_user_table("samples.csv.gz"), is_user_table("pbmc.daf.zarr")
    (True, False)
    """
    if isinstance(source, str | Path):
        return table_format(source) is not None
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "to_arrow_table"):
        return True
    is_arrow = isinstance(source, ds.Dataset | ds.Scanner | pa.RecordBatch)
    return is_arrow or bool(_library_of(source))


def table_format(path: str | Path) -> str | None:
    """Return ``parquet``, ``arrow``, ``feather``, ``csv`` or ``tsv`` by the suffix, or None."""
    match = _FILE.search(str(path))
    if match is None or (match["gzip"] and match["format"].lower() in _STREAMED):
        return None
    return match["format"].lower()


def table_name(path: str | Path) -> str:
    """Return the name of a file without its suffix.

    >>> table_name("data/samples.csv.gz")
    'samples'
    """
    return _FILE.sub("", Path(path).name)


def user_table(source: Any, *, strings: Collection[str] = ()) -> UserTable:
    """Return the rows of a frame or a file.

    Parameters
    ----------
    strings
        Columns of a text file whose values are strings, also where they look like numbers.

    Raises
    ------
    SourceNotFoundError
        There is no such file.
    CorruptDataError
        The file cannot be read as what its suffix says.
    InvalidInputError
        The object is not a table, or has two columns of one name.
    """
    if isinstance(source, str | Path):
        return _of_file(Path(source), strings)
    location = _described(source)
    if isinstance(source, ds.Dataset):
        _check_schema(source.schema, location)
        return UserTable(source, location)
    return UserTable(arrow_table(source), location)


def arrow_table(frame: Any) -> pa.Table:
    """Return a frame as an Arrow table: of pandas, polars, DuckDB, Arrow, or a query result.

    An index of pandas becomes a column by its name; one that has no name, and is not just the
    positions, becomes the column ``name``.

    Raises
    ------
    InvalidInputError
        It is not a table; a column holds values of mixed types; or two have one name.
    """
    location = _described(frame)
    try:
        table = _converted(frame)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, errors.DafError):
            raise
        reason = "; ".join(str(part) for part in error.args) or type(error).__name__
        raise errors.InvalidInputError(
            f"{location} cannot be used as a table: {reason}; give each column values of one type"
        ) from error
    _check_schema(table.schema, location)
    return _plain(table)


def _described(source: object) -> str:
    """Return the type of an object, for messages."""
    return f"a {type(source).__module__.partition('.')[0]} {type(source).__name__}"


def _library_of(source: object) -> str:
    """Return of which library a frame is that Arrow does not take as it is; empty for others."""
    for name, kind in (("pandas", "DataFrame"), ("polars", "LazyFrame")):
        library = sys.modules.get(name)  # an object of a module that is not loaded is none of its
        if library is not None and isinstance(source, getattr(library, kind)):
            return name
    return ""


def _converted(frame: Any) -> pa.Table:
    library = _library_of(frame)
    if library == "pandas":
        return _of_pandas(frame)
    if hasattr(frame, "to_arrow_table"):
        found: pa.Table = frame.to_arrow_table()
        return found
    return pa.table(frame.collect() if library else frame)


def _of_pandas(frame: Any) -> pa.Table:
    index = frame.index
    names = [str(name) for name in frame.columns]
    frame = frame.set_axis(names, axis=1)
    is_positions = type(index).__name__ == "RangeIndex" and index.name is None
    if not is_positions:
        if index.nlevels == 1 and index.name is None:
            frame = frame.rename_axis(scan.NAME if scan.NAME not in names else scan.INDEX)
        taken = sorted({str(level) for level in frame.index.names} & set(names))
        if taken:
            raise errors.InvalidInputError(
                f"the index of a pandas DataFrame has the name of a column, {taken[0]!r}; rename "
                "it with rename_axis(), or leave it out with reset_index(drop=True)"
            )
    _check_columns(names, "a pandas DataFrame")
    table = pa.Table.from_pandas(frame, preserve_index=not is_positions)
    for place, field in enumerate(table.schema):
        if _has_extension_codes(field.type):  # intervals of cut(), and periods
            coded = table.column(place).combine_chunks()
            strings, is_ordered = coded.dictionary.to_pandas().astype(str), field.type.ordered
            shown = pa.DictionaryArray.from_arrays(coded.indices, strings, ordered=is_ordered)
            table = table.set_column(place, field.name, shown)
    return table


def _has_extension_codes(kind: pa.DataType) -> bool:
    """Return whether categories have the type of an extension, which the engine reads wrongly."""
    return pa.types.is_dictionary(kind) and isinstance(kind.value_type, pa.BaseExtensionType)


def _check_columns(names: list[str], location: str) -> None:
    if len(set(names)) < len(names):
        twice = min(name for name in names if names.count(name) > 1)
        raise errors.InvalidInputError(f"{location} has two columns {twice!r}; rename one of them")
    if not names:
        raise errors.InvalidInputError(f"{location} has no columns")
    columns.check_column_names(names, location, "another name")


def _check_schema(schema: pa.Schema, location: str) -> None:
    _check_columns(schema.names, location)
    for field in schema:
        if _is_unreadable(field.type):
            raise errors.InvalidInputError(
                f"{location} has a column {field.name!r} of the type {field.type}, which the query "
                "engine does not read; make it one of plain values, or of lists"
            )


def _is_unreadable(kind: pa.DataType) -> bool:
    """Return whether a type has list views or codes of extensions, handed over wrongly, or runs."""
    parts = (kind.field(number).type for number in range(kind.num_fields))
    is_one = kind.id in _UNREADABLE or _has_extension_codes(kind)
    return is_one or any(map(_is_unreadable, parts))


def _plain(table: pa.Table) -> pa.Table:
    """Return a table with strings in the layouts that every engine reads, without notes."""
    fields = [each.with_type(_plain_type(each.type)).remove_metadata() for each in table.schema]
    batches = (scan.converted(each, pa.schema(fields)) for each in table.to_batches())
    return pa.Table.from_batches(batches, pa.schema(fields)).unify_dictionaries()


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column; the engine groups no codes of some, and nested have none."""
    if pa.types.is_dictionary(kind):
        values = pa.string() if pa.types.is_large_string(kind.value_type) else kind.value_type
        values = _plain_type(values)
        is_nested = pa.types.is_nested(values) or pa.types.is_duration(values)
        is_coded = not is_nested and values not in (pa.null(), pa.bool_())
        return pa.dictionary(pa.int32(), values, kind.ordered) if is_coded else values
    return pa.string() if kind == pa.string_view() else kind


def _of_file(path: Path, strings: Collection[str]) -> UserTable:
    with os_errors(str(path)):
        is_there = path.exists()
    if not is_there:
        raise errors.SourceNotFoundError(f"no such file: {path}")
    kind = table_format(path)
    if kind is None:
        raise errors.InvalidInputError(
            f"{path}: the suffix is none of a table; there are .parquet, .arrow, .feather, .csv, "
            ".tsv, .csv.gz and .tsv.gz"
        )
    try:
        if kind in _STREAMED:
            rows = dataset.FileRows(str(path), _STREAMED[kind])
        else:
            rows = _read_csv(path, kind, strings)
    except pa.ArrowException as error:
        reason = " ".join(str(error).split())
        raise errors.CorruptDataError(f"{path}: this is not a {kind} file: {reason}") from error
    except (OSError, EOFError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise errors.from_os_error(error, str(path)) from error
        raise errors.CorruptDataError(f"{path}: this is not a {kind} file: {error}") from error
    _check_schema(rows.schema, str(path))
    return UserTable(rows, str(path))


def _read_csv(path: Path, kind: str, strings: Collection[str]) -> pa.Table:
    """Read a text file: types by the values; an empty text is missing, of a number also NA."""
    table = pacsv.read_csv(
        str(path),
        parse_options=pacsv.ParseOptions(
            delimiter="\t" if kind == "tsv" else ",", newlines_in_values=True
        ),
        convert_options=pacsv.ConvertOptions(
            null_values=list(_MISSING_NUMBERS), column_types=dict.fromkeys(strings, pa.string())
        ),
    )
    for place, field in enumerate(table.schema):
        if pa.types.is_binary(field.type):
            raise errors.CorruptDataError(
                f"{path}: the column {field.name!r} is not UTF-8 text; save the file as UTF-8"
            )
        column = table.column(place)
        if pa.types.is_null(field.type):
            table = table.set_column(place, field.name, column.cast(pa.string()))
        elif pa.types.is_string(field.type):
            missing = pa.scalar(None, pa.string())
            table = table.set_column(
                place, field.name, pc.if_else(pc.equal(column, ""), missing, column)
            )
    return table
