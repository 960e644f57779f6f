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

import os
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt
import zarr
from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype

from daf_query.index import RTree, UnfitIndexError, warn_once
from daf_query.table._columns import (
    META,
    BrokenColumns,
    TableColumn,
    TableColumns,
    warn_of_problems,
)
from daf_query.table._dataset import TableDataset, TableView
from daf_query.table._raw_bits import register_raw_bits
from daf_query.table._zarr_columns import ChunkFiles, ZarrColumn, column_field, reason_of
from daf_storage import errors
from daf_storage.stores import ZarrArchiveStore, is_remote, open_access, open_regular, shown_url

ATTRIBUTE: Final = "daf_index"
"""The attribute of an index that says what it was made of."""


def attributes_of(data: npt.NDArray[np.uint8], column: Any) -> dict[str, Any]:
    """Return what is noted beside an index: its checksum, and what it was made of."""
    checksum = crc32(np.ascontiguousarray(data).data)
    return {ATTRIBUTE: {"checksum": checksum, **source_of(column)}}


def source_of(column: Any) -> dict[str, Any]:
    """Return checksum and state of the chunk files of a column; nothing of other stores."""
    files = ChunkFiles.of(column)
    if files is None:
        return {}
    state = files.state()
    return {"source": files.checksum(), **({} if state is None else {"files": state})}


def identity_of(index: Any, column: Any) -> Hashable:
    """Return a value that changes with an index or its column; None if undetectable."""
    if not isinstance(index, zarr.Array):
        return None
    if isinstance(index.store, ZarrArchiveStore):
        return (index.path, index.store.archive.file_state())
    files = [ChunkFiles.of(array) for array in (index, column)]
    states = [None if one is None else one.state() for one in files]
    return None if None in states else tuple(states)


def _checked(index: Any, column: Any, n_rows: int) -> RTree:
    """Return an index after checking all of it."""
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
    tree = RTree.open(data, n_rows)
    if "source" in noted and not _is_of_now(noted, column):
        raise UnfitIndexError("the geometries were changed since it was built")
    return tree


def _is_of_now(noted: Mapping[str, Any], column: Any) -> bool:
    """Return whether an index was made of what is stored now; on a server, that is not asked."""
    files = ChunkFiles.of(column)
    if files is None:
        return True
    state = files.state()
    is_same = state is not None and noted.get("files") == state
    return is_same or bool(noted["source"] == files.checksum())


INDEXES: Final = "indexes"
_MAX_ROWS: Final = 1 << 40
_MAX_CHUNK_BYTES: Final = 1 << 28
PENDING: Final = "daf_append"
"""Attribute of a group, while rows are being added: the lengths before and after."""


_MAX_DOCUMENT_BYTES: Final = 1 << 24
_DOCUMENTS: Final = ("zarr.json", ".zarray", ".zgroup", ".zattrs")


class RegularFilesStore(zarr.storage.LocalStore):
    """A directory as a store of zarr-python, of which only regular files are opened."""

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the bytes of a key.

        Raises
        ------
        CorruptDataError
            It is a named pipe or a device, or metadata that are larger than any are.
        """
        path = self.root / key
        descriptor = open_regular(path, what=str(path))
        if descriptor is None:
            return None
        try:
            size_bytes = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        if path.name in _DOCUMENTS and size_bytes > _MAX_DOCUMENT_BYTES:
            raise errors.CorruptDataError(
                f"{path}: it has {size_bytes:,} bytes, and metadata have no more than "
                f"{_MAX_DOCUMENT_BYTES:,}"
            )
        return await super().get(key, prototype, byte_range)


def open_group(path: str | Path, location: str) -> Any:
    """Return the root group of a directory, an archive, or what is on a server.

    Parameters
    ----------
    location
        The path as messages name it.

    Raises
    ------
    SourceNotFoundError
        There is nothing.
    FormatError
        There is something else.
    """
    register_raw_bits()
    if is_remote(path):
        return _open_remote(str(path), location)
    if not Path(location).exists():
        raise errors.SourceNotFoundError(f"no such file or directory: {location}")
    try:
        store: Any
        if location.endswith(".zip"):
            store = ZarrArchiveStore(location, read_only=True)
        else:
            store = RegularFilesStore(location, read_only=True)
        return zarr.open_group(store, mode="r", use_consolidated=False)
    except Exception as error:  # zarr raises many kinds for what is no group
        raise errors.FormatError(f"{location}: not a zarr group ({reason_of(error)})") from error


def _open_remote(url: str, location: str) -> Any:
    """Open a group on a server; its own errors have the whole URL in them, secrets too."""
    try:
        store = zarr.storage.ObjectStore(open_access(url), read_only=True)
        return zarr.open_group(store, mode="r")
    except errors.DafError:
        raise
    except Exception as error:  # noqa: BLE001 - zarr and obstore raise many kinds
        raise errors.FormatError(
            f"{location}: no zarr group can be opened there ({type(error).__name__})"
        ) from None


def arrays_of(group: Any, what: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the arrays directly below a group, and why others cannot be opened.

    Parameters
    ----------
    what
        The group as messages name it.
    """
    arrays: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for name in _names_below(group):
        try:
            found = group.get(name)
        except Exception as error:  # noqa: BLE001 - zarr raises many kinds for malformed metadata
            problems[name] = (
                f"{what}/{name}: its metadata cannot be read ({reason_of(error)}); "
                "the other columns can be used"
            )
            continue
        if isinstance(found, zarr.Array):
            arrays[name] = found
    return arrays, problems


def groups_of(group: Any) -> list[str]:
    """Return the names of the groups directly below a group; what is malformed is none."""
    try:
        return sorted(group.group_keys())
    except Exception:  # noqa: BLE001 - zarr raises many kinds for malformed metadata
        return []


def _names_below(group: Any) -> list[str]:
    """Return the names of what may be arrays below a group."""
    store = group.store
    if isinstance(store, ZarrArchiveStore):
        return store.archive.subdirs(group.path)
    if isinstance(store, RegularFilesStore):
        with os.scandir(store.root / group.path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    return sorted(name for name, _ in group.arrays())  # of a server, that is consolidated


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
    root = open_group(path, location)
    arrays_group = _arrays_group(root, group, location)
    columns, problems = _columns_of(arrays_group, group, location)
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
    arrays = {name: column.array for name, column in columns.items()}
    return ZarrTable(table, location, _indexes_of(root), arrays, path_and_group=(absolute, group))


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
    known = errors.known_names(groups_of(root), none="no groups")
    raise errors.SourceNotFoundError(f"{location}: there is no group {group!r}; it has {known}")


def _columns_of(
    arrays_group: Any, group: str, location: str
) -> tuple[dict[str, ZarrColumn], dict[str, str]]:
    """Return the arrays that can be columns, of which there is one, and why others cannot."""
    columns: dict[str, ZarrColumn] = {}
    arrays, problems = arrays_of(arrays_group, f"{location}: {group}")
    for name, array in arrays.items():
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
            columns[name] = ZarrColumn(array, field, f"{location}: {group}/{name}")
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


def _indexes_of(root: Any) -> Any:
    """Return the group of the indexes; None without one, or if its metadata are malformed."""
    try:
        return root.get(INDEXES)
    except Exception:  # noqa: BLE001 - zarr raises many kinds
        return None


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
        indexes: Any,
        arrays: Mapping[str, Any],
        *,
        path_and_group: tuple[str, str] | None = None,
        view: TableView | None = None,
    ) -> None:
        super().__init__(columns, location=location, view=view)
        self._indexes = indexes
        self._arrays = arrays
        self._path_and_group = path_and_group

    def _with(self, columns: TableColumns, view: TableView) -> Self:
        return type(self)(
            columns,
            self._location,
            self._indexes,
            self._arrays,
            path_and_group=self._path_and_group,
            view=view,
        )

    def _place(self) -> tuple[Callable[..., TableDataset], tuple[Any, ...]]:
        return (
            super()._place() if self._path_and_group is None else (zarr_table, self._path_and_group)
        )

    def spatial_index(self, column: str) -> npt.NDArray[np.uint8] | None:
        """Return the R-tree of a column, as the library geo-index stores it; None without one."""
        try:
            index = None if self._indexes is None else self._indexes.get(column)
        except Exception:  # noqa: BLE001 - as below
            return None
        if not isinstance(index, zarr.Array) or index.dtype != np.uint8 or index.ndim != 1:
            return None
        try:
            return np.asarray(index[:])
        except Exception:  # noqa: BLE001 - zarr raises many kinds; without an index, all is read
            return None

    def rtree(self, column: str) -> RTree | None:
        """Return the R-tree of a column, checked; None without one that fits, with a warning."""
        array = self._arrays.get(column)
        if self._indexes is None or array is None or not self.options.indexes:
            return None
        try:
            return self._tree(column, array)
        except UnfitIndexError as error:
            what = f"of {column!r}"
            warn_once(self.cache, self._location, what, str(error), "build it again")
            return None

    def _tree(self, column: str, array: Any) -> RTree | None:
        try:
            index = self._indexes.get(column)
        except Exception as error:  # zarr raises many kinds for broken metadata
            raise UnfitIndexError(f"it cannot be opened ({reason_of(error)})") from error
        if index is None:
            return None
        load = partial(_checked, index, array, self.row_count)
        identity = identity_of(index, array)
        key = (self._location, "rtree", column)
        tree: RTree = load() if identity is None else self.cache.get(key, identity, load)
        return tree

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return self._columns.length
