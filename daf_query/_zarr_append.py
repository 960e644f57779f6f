"""Append rows to a group of aligned Zarr arrays, and build its spatial indexes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import zarr

from daf_query.index import rtree_of
from daf_query.sql import BOX_SIDES, geometry_boxes
from daf_query.table import (
    ATTRIBUTE,
    GEOMETRY,
    INDEXES,
    META,
    PENDING,
    register_raw_bits,
    zarr_table,
)
from daf_storage import errors
from daf_storage._lazy import pc
from daf_storage.base import StorageType, optional_import
from daf_storage.data import plain_values, stored_numbers
from daf_storage.stores import output_directory


def append_rows(path: str | Path, rows: Mapping[str, Any] | pa.Table, group: str = META) -> int:
    """Add rows to all arrays of a table in one step; return how many rows it has then.

    If something fails half-way, all arrays get back the length that they had.  A crash leaves a
    note of it, and the next call begins with that.  Readers see arrays of different lengths
    meanwhile, and refuse.  An index of the table does not fit any more until it is built again.

    Parameters
    ----------
    path
        A directory.
    rows
        The values of each column, all of one length.

    Raises
    ------
    InvalidInputError, LengthError
        A column is missing or unknown, the lengths differ, or the array of a column cannot hold
        one of its numbers as it is; nothing was changed.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> meta = zarr.open_group(folder, mode="w").create_group("meta")
    >>> _ = meta.create_array("cloud", data=np.array([0.1, 0.9]), chunks=(2,))
    >>> append_rows(folder, {"cloud": [0.5]})
    3
    """
    found = _writable(path, group)
    _recover(found)
    arrays = dict(found.arrays())
    names = rows.column_names if isinstance(rows, pa.Table) else list(rows)
    if set(names) != arrays.keys():
        has = errors.shown_names(arrays)
        raise errors.InvalidInputError(
            f"{path}: rows need exactly the columns of the group {group!r}, {has}; got "
            f"{errors.shown_names(names)}"
        )
    columns = {
        name: _values(rows[name], array.dtype, f"{path}: column {name!r}")
        for name, array in arrays.items()
    }
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise errors.LengthError(f"{path}: the columns of the rows have lengths {sorted(lengths)}")
    start = min((array.shape[0] for array in arrays.values()), default=0)
    if any(array.shape[0] != start for array in arrays.values()):
        zarr_table(path, group)  # says which has which length
    found.attrs[PENDING] = [start, start + sum(lengths)]
    try:
        for name, array in arrays.items():
            array.resize((start + len(columns[name]),))
            array[start:] = columns[name]
    except BaseException:
        _recover(found)
        raise
    del found.attrs[PENDING]
    return int(start + sum(lengths))


def build_spatial_index(path: str | Path, column: str = GEOMETRY, group: str = META) -> int:
    """Build the R-tree of a column of geometries; return how many rows it covers.

    It is stored beside the group, in ``indexes``, as the library geo-index has it; see
    `zarr_table`.  Needs the extra ``spatial``.

    Parameters
    ----------
    path
        A directory.
    column
        A column of WKB.

    Raises
    ------
    NotFoundError
        There is no such column.
    InUseError
        The column was changed meanwhile; nothing was stored.
    """
    optional_import("geoindex_rs.rtree", extra="spatial")  # before anything is read
    table = zarr_table(path, group)
    if column not in table.schema.names:
        raise table.column_not_found(column)
    if not table.table_columns.length:  # the library has no trees without boxes
        return 0
    source = table.source_of(column)
    parts = [geometry_boxes(batch) for batch in table.scanner(columns=[column]).to_batches()]
    data = rtree_of(list(np.concatenate([np.empty((len(BOX_SIDES), 0)), *parts], axis=1)))
    if source.get("source") != table.source_of(column).get("source"):
        raise errors.InUseError(
            f"{path}: the column {column!r} changed while its index was being built; build it again"
        )
    attributes = {ATTRIBUTE: {"checksum": crc32(data.data), **source}}
    _replace_array(Path(path), column, data, attributes)
    return table.table_columns.length


def _replace_array(root: Path, column: str, data: Any, attributes: dict[str, Any]) -> None:
    """Write the index aside and rename it into its place."""
    group = zarr.open_group(str(root), mode="r+", use_consolidated=False)
    group.require_group(INDEXES)
    with output_directory(root / INDEXES / column) as prepared:
        made = zarr.create_array(
            str(prepared),
            data=data,
            chunks=(max(len(data), 1),),
            compressors=None,
            zarr_format=group.metadata.zarr_format,
        )
        made.attrs.update(attributes)


def _writable(path: str | Path, group: str) -> Any:
    if not Path(path).is_dir():
        raise errors.SourceNotFoundError(
            f"{path}: there is no such directory; rows are added to directories only"
        )
    register_raw_bits()
    cause: Exception | None = None
    try:
        found = zarr.open_group(str(path), mode="r+", use_consolidated=False)[group]
    except Exception as error:  # noqa: BLE001 - zarr raises many kinds
        found, cause = None, error
    if not isinstance(found, zarr.Group):
        raise errors.SourceNotFoundError(f"{path}: there is no group {group!r}") from cause
    return found


def _recover(group: Any) -> None:
    """Give all arrays the length back that they had before rows were being added."""
    pending = group.attrs.get(PENDING)
    if pending is None:
        return
    start, stop = (int(length) for length in pending)
    lengths = {name: int(array.shape[0]) for name, array in group.arrays()}
    if not set(lengths.values()) <= {start, stop}:
        raise errors.FormatError(
            f"{group.path}: adding rows was interrupted between {start:,} and {stop:,} of them, "
            f"and the arrays have other lengths by now ({lengths}): another program has changed "
            f"them; see to it that all of them are whole, and delete the attribute {PENDING!r}"
        )
    for _, array in group.arrays():
        array.resize((start,))
    del group.attrs[PENDING]


def _values(column: Any, dtype: np.dtype[Any], what: str) -> Any:
    """Return the values of a column, only what its array can hold as it is."""
    kind = None if dtype.kind == "S" else StorageType.from_numpy(dtype)
    if kind is not None:
        is_arrow = isinstance(column, pa.Array | pa.ChunkedArray)
        if is_arrow and pa.types.is_floating(column.type):
            column = pc.fill_null(column, float("nan"))  # tables have NULL for it
        column = plain_values(column, what=what)
        if isinstance(column, np.ndarray) == kind.is_string and (len(column) or not kind.is_string):
            has = "no strings" if kind.is_string else "strings"
            raise errors.UnsupportedInputError(f"{what} holds {has}; its array holds {kind.value}")
        if not kind.is_string:
            return stored_numbers(column, dtype, what=what)
    if dtype.kind == "V" and dtype.names is None:
        return _raw_bytes(column, dtype, what)
    values: Any = np.asarray(column)
    items = values.tolist() if dtype.kind in "OS" else []  # bytes, of which none can be missing
    if None in items:
        place = items.index(None)
        raise errors.UnsupportedInputError(f"{what} has a missing value at position {place:,}")
    is_fixed = dtype.kind in "US" and values.size > 0
    if is_fixed and values.astype(dtype.kind).dtype.itemsize > dtype.itemsize:
        raise errors.UnsupportedInputError(f"{what} holds strings longer than {dtype} of its array")
    return np.array(column, dtype=object) if values.dtype.kind in "US" else values


def _raw_bytes(column: Any, dtype: np.dtype[Any], what: str) -> Any:
    """Return items of raw bytes, each of the size that the array has."""
    if isinstance(column, pa.ChunkedArray | pa.Array):
        column = column.to_pylist()
    items = [item.tobytes() if isinstance(item, np.void) else item for item in column]
    for place, item in enumerate(items):
        if not isinstance(item, bytes) or len(item) != dtype.itemsize:
            raise errors.InvalidInputError(
                f"{what} needs items of {dtype.itemsize} bytes each; the item {place:,} is {item!r}"
            )
    return np.frombuffer(b"".join(items), dtype)
