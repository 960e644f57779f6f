"""Any group of aligned one-dimensional Zarr arrays as a table.

The convention is that of zarr-datafusion-search: the arrays of the group ``meta`` are the columns
of a table, an array of the same name in the sibling group ``indexes`` is the index of one.
zarr-python reads the arrays, chunk by chunk.  Consolidated metadata are not looked at where a group
can be listed: one array whose metadata are malformed would take all others with it.

R-trees over geometries are checked before they are used, once for each state.  Other tools write
only the bytes of the library geo-index.  Those that are built here have an attribute beside them:
the checksum of the bytes, and the checksum and the state of the chunk files of the column that they
were made of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np
import zarr

from daf_query.index import RTree, UnfitIndexError, warn_once
from daf_query.table._columns import (
    META,
    BrokenColumns,
    TableColumn,
    TableColumns,
    warn_of_problems,
)
from daf_query.table._dataset import TableDataset
from daf_query.table._zarr_columns import (
    ZarrColumn,
    column_field,
    reason_of,
    register_raw_bits,
    snapshot_of,
)
from daf_storage import errors
from daf_storage.opening import remote_directory
from daf_storage.stores import (
    DirectoryStore,
    MmapZipStore,
    ReadableStore,
    SnapshotZarrStore,
    is_remote,
    shown_url,
)

ATTRIBUTE: Final = "daf_index"
"""The attribute of an index that says what it was made of."""
INDEXES: Final = "indexes"
PENDING: Final = "daf_append"
"""Attribute of a group, while rows are being added: the lengths before and after."""
_MAX_ROWS: Final = 1 << 40
_MAX_CHUNK_BYTES: Final = 1 << 28


def _store_of(path: str | Path, location: str) -> ReadableStore:
    """Return where the files of a directory, an archive, or what is on a server are.

    Parameters
    ----------
    location
        The path as messages name it.

    Raises
    ------
    SourceNotFoundError
        There is nothing.
    """
    if is_remote(path):
        return remote_directory(str(path))
    if not Path(location).exists():
        raise errors.SourceNotFoundError(f"no such file or directory: {location}")
    return MmapZipStore(location) if location.endswith(".zip") else DirectoryStore(location)


def _root_of(store: ReadableStore, location: str) -> Any:
    """Return the root group; `FormatError` if there is something else."""
    register_raw_bits()
    try:
        files = SnapshotZarrStore(snapshot_of(store, "", location))
        return zarr.open_group(files, mode="r", use_consolidated=False)
    except Exception as error:  # zarr raises many kinds for what is no group
        raise errors.FormatError(f"{location}: not a zarr group ({reason_of(error)})") from error


def groups_of(group: Any) -> list[str]:
    """Return the names of the groups directly below a group; what is malformed is none."""
    try:
        return sorted(group.group_keys())
    except Exception:  # noqa: BLE001 - zarr raises many kinds for malformed metadata
        return []


def zarr_table(path: str | Path, group: str = META) -> ZarrTable:
    """Return a group of aligned one-dimensional Zarr arrays as a table.

    Parameters
    ----------
    path
        A directory, a ZIP archive (``.zip``), or the URL of a directory with consolidated metadata;
        Zarr v3 or v2.
    group
        The group whose arrays are the columns.

    Returns
    -------
    ZarrTable
        A pyarrow Dataset, for `DafSession.register`, DataFusion, DuckDB and polars.  The types are
        those of the arrays: Bool, integers, floats, ``string_view`` for strings, ``binary_view``
        for bytes and raw bits, timestamps; ``bbox`` is WKB in EPSG:4326.  NaN and NaT are null.

    Raises
    ------
    SourceNotFoundError
        There is no such group.
    FormatError
        The arrays have different lengths, or none can be a column.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> meta = zarr.open_group(folder, mode="w").create_group("meta")
    >>> _ = meta.create_array("cloud", data=np.array([0.1, 0.9, 0.5]), chunks=(2,))
    >>> import pyarrow.compute as pc
    >>> zarr_table(folder).to_table(filter=pc.field("cloud") > 0.4).to_pydict()
    {'cloud': [0.9, 0.5]}
    """
    location = shown_url(str(path)) if is_remote(path) else str(path)
    store = _store_of(path, location)
    root = _root_of(store, location)
    arrays_group = _arrays_group(root, group, location)
    columns, problems = _columns_of(store, root, group, location)
    length = _common_length(columns, group, location)
    if PENDING in arrays_group.attrs:
        raise errors.FormatError(
            f"{location}: rows are being added to the group {group!r}, or that was interrupted: "
            "the last of them may lack values; try again, or call append_rows, which begins with "
            "undoing what was not completed"
        )
    broken = BrokenColumns()
    guarded = {name: TableColumn(column, broken) for name, column in columns.items()}
    table = TableColumns(group, length, guarded, problems, broken=broken)
    warn_of_problems(table, broken.warned)
    absolute = str(path) if is_remote(path) else str(Path(path).absolute())
    return ZarrTable(table, location, (absolute, group))


def _arrays_group(root: Any, group: str, location: str) -> Any:
    """Return the group whose arrays are the columns."""
    try:
        arrays_group = root.get(group) if group else root
    except Exception as error:  # zarr raises many kinds for malformed metadata
        raise errors.CorruptDataError(
            f"{location}: the metadata of the group {group!r} cannot be read ({reason_of(error)})"
        ) from error
    if isinstance(arrays_group, zarr.Group):
        return arrays_group
    has = errors.shown_names(groups_of(root), none="no groups")
    raise errors.SourceNotFoundError(f"{location}: there is no group {group!r}; it has {has}")


def _columns_of(
    store: ReadableStore, root: Any, group: str, location: str
) -> tuple[dict[str, ZarrColumn], dict[str, str]]:
    """Return the arrays that can be columns, of which there is one, and why others cannot."""
    columns: dict[str, ZarrColumn] = {}
    problems: dict[str, str] = {}
    files = snapshot_of(store, group.strip("/"), location)
    for name in files.names():
        what = f"{location}: {group}/{name}"
        try:
            array = root.get(f"{group}/{name}".strip("/")) if files.names(name) else None
        except Exception as error:  # noqa: BLE001 - zarr raises many kinds for malformed metadata
            problems[name] = (
                f"{what}: its metadata cannot be read ({reason_of(error)}); "
                "the other columns can be used"
            )
            continue
        if not isinstance(array, zarr.Array):
            continue
        field = column_field(name, array)
        if field is None or array.ndim != 1:
            shape_or_type = array.dtype if array.ndim == 1 else f"{array.ndim} dimensions"
            problems[name] = (
                f"{location}: the array {group}/{name} has {shape_or_type}, which no column can "
                "have; the other columns can be used"
            )
        elif (claim := _absurd_claim(array)) is not None:
            problems[name] = f"{location}: the array {group}/{name} {claim}"
        else:
            columns[name] = ZarrColumn(store, array, field, what)
    if not columns:
        raise errors.FormatError(
            f"{location}: the group {group!r} has no array that can be a column; "
            f"{'; '.join(problems.values()) or 'it has none at all'}"
        )
    return columns, problems


def _common_length(columns: Mapping[str, ZarrColumn], group: str, location: str) -> int:
    """Return the number of rows, which has to be that of each column."""
    lengths = {name: column.length for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {length:,}" for name, length in lengths.items())
        raise errors.FormatError(
            f"{location}: the arrays of the group {group!r} are not aligned, they have different "
            f"lengths ({listed}); append to all of them, or delete the odd one"
        )
    return next(iter(lengths.values()))


def _absurd_claim(array: Any) -> str | None:
    """Return what is absurd about the shape of an array; ``None`` if nothing is."""
    length, chunk_rows = int(array.shape[0]), int(array.chunks[0])
    item_bytes = max(int(array.dtype.itemsize), 1)
    if length > _MAX_ROWS:
        return f"is said to have {length:,} rows"
    if chunk_rows * item_bytes > max(length * item_bytes, _MAX_CHUNK_BYTES):
        return f"is said to have chunks of {chunk_rows:,} rows, and has {length:,} altogether"
    return None


class ZarrTable(TableDataset):
    """A table of Zarr arrays; `zarr_table` makes one."""

    def __init__(
        self,
        columns: TableColumns,
        location: str,
        path_and_group: tuple[str, str],
    ) -> None:
        super().__init__(columns, location=location)
        self._path_and_group = path_and_group

    def _place(self) -> tuple[Callable[..., TableDataset], tuple[Any, ...]]:
        return zarr_table, self._path_and_group

    def source_of(self, column: str) -> dict[str, Any]:
        """Return what is noted of a column beside its index: checksum and state of its files."""
        array = self._array(column)
        files = array.snapshot()
        state = _state_of(files.version())
        noted = {"source": array.checksum(files)} if files.is_local else {}
        return noted if state is None else {**noted, "files": state}

    def rtree(self, column: str) -> RTree | None:
        """Return the R-tree of a column, checked; None without one that fits, with a warning."""
        if column not in self.table_columns.columns or not self.options.indexes:
            return None
        array = self._array(column)
        index = array.store.snapshot(f"{INDEXES}/{column}")
        if index is None:
            return None
        identity = (index.identity(), array.snapshot().identity())
        try:
            key = (self.location, "rtree", column)
            tree: RTree = self.view.cache.get(key, identity, lambda: self._tree(column, array))
        except UnfitIndexError as error:
            what = f"of {column!r}"
            warn_once(self.view.cache, self.location, what, str(error), "build it again")
            return None
        return tree

    def _array(self, column: str) -> ZarrColumn:
        """Return the array of a column."""
        found = self.table_columns.columns[column]
        assert isinstance(found, TableColumn) and isinstance(found.stored, ZarrColumn)  # noqa: S101, PT018 - as `zarr_table` makes them
        return found.stored

    def _tree(self, column: str, array: ZarrColumn) -> RTree:
        """Return the R-tree of a column after checking all of it."""
        try:
            index = _root_of(array.store, self.location)[f"{INDEXES}/{column}"]
        except Exception as error:  # zarr raises many kinds for broken metadata
            raise UnfitIndexError(f"it cannot be opened ({reason_of(error)})") from error
        if not isinstance(index, zarr.Array) or index.dtype != np.uint8 or index.ndim != 1:
            raise UnfitIndexError("it is no R-tree: it is not a list of bytes")
        try:
            data = np.ascontiguousarray(np.asarray(index[:]))
        except Exception as error:  # zarr raises many kinds for data that it cannot read
            raise UnfitIndexError(f"it cannot be read ({reason_of(error)})") from error
        noted = index.attrs.get(ATTRIBUTE, {})
        if not isinstance(noted, Mapping):
            raise UnfitIndexError(f"its attribute {ATTRIBUTE!r} is malformed")
        if noted.get("checksum", crc32(data.data)) != crc32(data.data):
            raise UnfitIndexError("its checksum is wrong")
        tree = RTree.open(data, self.table_columns.length)
        if "source" in noted and not _is_of_now(array, noted):
            raise UnfitIndexError("the geometries were changed since it was built")
        return tree


def _is_of_now(array: ZarrColumn, noted: Mapping[str, Any]) -> bool:
    """Return whether an index was made of what is stored now; a server is not asked."""
    files = array.snapshot()
    state = _state_of(files.version())
    is_same = not files.is_local or (state is not None and noted.get("files") == state)
    return is_same or bool(noted["source"] == array.checksum(files))


def _state_of(version: Any) -> str | None:
    """Return what tells files from later ones, as JSON has it; None if nothing does."""
    return None if version is None else hashlib.sha256(repr(version).encode()).hexdigest()
