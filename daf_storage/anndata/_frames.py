"""obs, var and raw.var: the names of an axis, and columns as vectors by their names."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

import pyarrow as pa

from daf_storage import errors
from daf_storage.anndata import _elements as elements
from daf_storage.anndata._columns import Column, MaskedStrings, SeriesColumn, column_at
from daf_storage.anndata._report import AnnDataWarning, free_name
from daf_storage.anndata._virtual import MadeOf, Nodes, node_at
from daf_storage.base import (
    RESERVED_VECTORS,
    StorageType,
    first_duplicate,
    optional_import,
    pandas,
)
from daf_storage.data import strings_input
from daf_storage.trees import ArrayInfo, Hdf5Tree, MemoryArray, StoredArray, Tree

MISSING_SUFFIX: Final = "_is_missing"
"""Ends the name of the Bool vector that tells a missing entry from an empty string."""


class StoredFrame:
    """A DataFrame whose columns lie in a file, each by itself.

    Parameters
    ----------
    path
        The group whose children decide which columns there are.
    index_path
        Where its names are.
    columns
        Where each column is, by its name, in order.
    is_old
        Whether byte strings are text, as in the frames of AnnData 0.7.
    """

    def __init__(
        self,
        tree: Tree,
        path: str,
        index_path: str,
        columns: Iterable[tuple[str, str]],
        *,
        index_name: str | None = None,
        is_old: bool = True,
    ) -> None:
        self._tree = tree
        self._path = path
        self.index_name = index_name
        self._is_old = is_old
        if tree.kind(index_path) is None:
            raise errors.CorruptDataError(f"{tree.location}: the index {index_path!r} is missing")
        self._index = column_at(tree, index_path, is_old=True)
        self.index_sources = self._index.sources
        self.sources: tuple[str, ...] = (path,)
        listed = list(columns)
        self.column_names = [name for name, _ in listed]
        """The names of its columns, in order."""
        self._column_paths = [where for _, where in listed]
        self._columns: dict[int, Column] = {}
        self.renewals = 0
        """How often a column was looked at again, since it had been changed in place."""

    @property
    def length(self) -> int:
        """How many rows it has."""
        nodes = tuple(node_at(self._tree, source) for source in self.index_sources)
        return int(self._index.array(nodes).info.shape[0])

    def column(self, position: int) -> Column:
        """Return a column; what it says of itself is kept until it is changed.

        In a file of HDF5 that is noticed for all of it; elsewhere the column is looked at: that an
        array within it was written to does not show in the group around it.
        """
        known = self._columns.get(position)
        if known is not None and (known.state is None or known.state == self._state(known)):
            return known
        self.renewals += known is not None
        path = self._column_paths[position]
        is_hdf5 = isinstance(self._tree, Hdf5Tree)
        before = None if is_hdf5 else self._tree.identity(path)
        try:
            column = column_at(self._tree, path, is_old=self._is_old)
        except errors.FormatError as error:
            column = Column((), error=error)
        self._columns[position] = column
        if not is_hdf5 and column.error is None:
            state = self._state(column)
            column.state = state if state[0] == before else (before,)
        return column

    def _state(self, column: Column) -> tuple[Any, ...]:
        return tuple(map(self._tree.identity, column.sources))

    def names(self, nodes: Nodes) -> StoredArray:
        """Return the index as entries of an axis."""
        what = f"{self._tree.location}: {self._path} names"
        if self._index.problem:
            raise errors.UnsupportedDataError(f"{what}: {self._index.problem}")
        return EntryNames(self._index.array(nodes), what=what)


def stored_frame(tree: Tree, path: str) -> StoredFrame:
    """Return the DataFrame that anndata wrote into a group."""
    node = node_at(tree, path)
    index = elements.text_of(node.attribute("_index")) or "_index"
    names = elements.names_of(node.attribute("column-order"))
    return StoredFrame(
        tree,
        path,
        f"{path}/{index}",
        [(name, f"{path}/{name}") for name in names],
        index_name=None if index == "_index" else index,
        is_old=elements.text_of(node.attribute("encoding-version")) == "0.1.0",
    )


class MemoryFrame:
    """A DataFrame in memory; maybe since only anndata understands how it is stored.

    Parameters
    ----------
    path
        Where it was in its file.
    part
        What messages call it.
    """

    renewals = 0

    def __init__(self, frame: Any, path: str, *, part: str) -> None:
        self._frame = frame
        self._part = part
        self.index_sources = self.sources = (path,)
        name = frame.index.name
        self.index_name = None if name is None else str(name)
        self.length = len(frame)
        self.column_names = [str(name) for name in frame.columns]
        self._columns: dict[int, Column] = {}

    def column(self, position: int) -> Column:
        """Return a column."""
        if position not in self._columns:
            series = functools.partial(self._series, position)
            self._columns[position] = SeriesColumn(self.sources, series)
        return self._columns[position]

    def _series(self, position: int) -> Any:
        return self._frame.iloc[:, position]

    def names(self, nodes: Nodes) -> StoredArray:  # noqa: ARG002 - it was read
        """Return the index as entries of an axis."""
        index, what = self._frame.index, f"{self._part} names"
        is_text = all(issubclass(found, str) for found in set(map(type, index)))
        strings = index if is_text else index.map(str)
        return EntryNames(
            MemoryArray(lambda: strings_input(strings, what=what)), what=what, is_text=is_text
        )


Frame: TypeAlias = StoredFrame | MemoryFrame
"""A DataFrame of an AnnData."""


class EntryNames(MadeOf):
    """Names of observations or variables as entries: strings, each of which occurs once.

    Names that occur more than once get anndata's suffixes, with a warning.
    """

    has_unique_strings = True
    """Whether who reads them need not look for duplicates again."""

    def __init__(self, stored: StoredArray, *, what: str, is_text: bool = True) -> None:
        self._parts = (stored,)
        self._what = what
        info = stored.info
        self.is_text = is_text and info.storage_type.is_string
        """Whether they were text before."""
        self.info = ArrayInfo(info.shape, StorageType.STRING, info.shape, is_mappable=False)

    def read_strings(self) -> Any:
        """Return all names."""
        names = self.given()
        twice = first_duplicate(names)
        return names if twice is None else self._unique(names, twice)

    def given(self) -> Any:
        """Return all names as they are, of which some may occur more than once."""
        stored = self._parts[0]
        if isinstance(stored, MaskedStrings):
            return stored.filled("<NA>")  # as AnnData calls what has no name
        if stored.info.storage_type.is_string:
            return stored.read_strings()
        index = pandas(extra="anndata").Index(stored.read()).map(str)  # as AnnData has them
        return strings_input(index, what=self._what)

    def _unique(self, names: pa.Array, twice: str) -> pa.Array:
        warnings.warn(
            f"{self._what} are not unique: {twice!r} occurs more than once; they are made unique "
            f"as AnnData does it, such as {twice + '-1'!r}",
            AnnDataWarning,
            stacklevel=2,
        )
        make_unique = optional_import("anndata.utils", extra="anndata").make_index_unique
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            unique = make_unique(pandas(extra="anndata").Index(names.to_pylist(), dtype=object))
        return pa.array(unique.tolist(), pa.string())


class FrameVectors:
    """The columns of a frame by the names of their vectors, which follow from theirs alone.

    Parameters
    ----------
    part
        What messages call the frame: ``obs``, ``var`` or ``raw.var``.
    """

    def __init__(self, frame: Frame, part: str) -> None:
        self.frame = frame
        self.part = part
        taken = set(RESERVED_VECTORS)
        self._positions: dict[str, int] = {}
        for position, column_name in enumerate(frame.column_names):
            name = free_name(column_name, taken)
            taken.add(name)
            self._positions[name] = position
        self._owners: dict[str, str] = {}
        for name in self._positions:
            companion = free_name(f"{name}{MISSING_SUFFIX}", taken)
            taken.add(companion)
            self._owners[companion] = name
        self._companions = {name: companion for companion, name in self._owners.items()}

    def find(self, name: str) -> FrameVector | None:
        """Return the vector of this name, or that whose companion has it; None if there is none."""
        if name in self._positions:
            return self._vector(name)
        owner = self._owners.get(name)
        vector = None if owner is None else self._vector(owner)
        return vector if vector is not None and vector.companion == name else None

    def every(self) -> Iterator[FrameVector]:
        """Yield those of all columns, in their order."""
        yield from map(self._vector, self._positions)

    def of_column(self, column_name: str) -> FrameVector:
        """Return the vector of the first column of this name."""
        position = self.frame.column_names.index(column_name)
        return self._vector(list(self._positions)[position])

    def _vector(self, name: str) -> FrameVector:
        position = self._positions[name]
        column_name, column = self.frame.column_names[position], self.frame.column(position)
        return FrameVector(column_name, column, name, self._companions[name])


class FrameVector:
    """The vector of a column; of a damaged one, it raises when it is used."""

    def __init__(self, column_name: str, column: Column, name: str, companion: str) -> None:
        self.column_name = column_name
        self.column = column
        self.name = name
        """The name of the vector, if Daf has such a vector."""
        self._companion = companion
        self.error = column.error
        """What is wrong with its metadata."""
        self.problem = ""
        """Why there is no such vector."""
        try:
            self.problem = column.problem
        except errors.FormatError as error:
            self.error = error

    @functools.cached_property
    def companion(self) -> str:
        """The name of the vector that says what is missing; empty if there is none."""
        try:
            has_one = not self.error and not self.problem and self.column.has_companion()
        except errors.FormatError as error:
            self.error, has_one = error, False
        return self._companion if has_one else ""
