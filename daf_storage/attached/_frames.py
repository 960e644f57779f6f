"""obs, var and raw.var as they lie in a file: the names of an axis, and its columns."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Hashable
from typing import Any, Protocol

import pyarrow as pa

from daf_storage import errors
from daf_storage.anndata_rules import AnnDataWarning
from daf_storage.attached import _elements as elements
from daf_storage.attached._column_encodings import column_at
from daf_storage.attached._columns import (
    BrokenColumn,
    Column,
    Nodes,
    PlainColumn,
    SeriesColumn,
)
from daf_storage.attached._nullable_columns import MaskedStrings
from daf_storage.attached._virtual import MadeOf
from daf_storage.base import (
    StorageType,
    first_duplicate,
    optional_import,
    pandas,
)
from daf_storage.data import strings_input
from daf_storage.trees import MemoryArray, StoredArray, Tree


class Frame(Protocol):
    """A DataFrame of an AnnData."""

    @property
    def index_sources(self) -> tuple[str, ...]:
        """The paths of its index."""
        ...

    @property
    def sources(self) -> tuple[str, ...]:
        """The path of all of it."""
        ...

    @property
    def index_name(self) -> str | None:
        """What the index is called."""
        ...

    @property
    def length(self) -> int:
        """How many rows it has."""
        ...

    def column_names(self) -> list[str]:
        """Return the names of its columns, in order."""
        ...

    def column(self, position: int) -> Column:
        """Return a column."""
        ...

    def state(self, position: int) -> Hashable | None:
        """Return a column's identity before it was looked at; None if nothing is kept of it."""
        ...

    def names(self, nodes: Nodes) -> StoredArray:
        """Return the index as entries of an axis."""
        ...


class StoredFrame:
    """A DataFrame whose columns lie side by side in a group."""

    def __init__(self, tree: Tree, path: str) -> None:
        self._tree = tree
        self._path = path
        node = tree.node(path)
        if node is None:
            raise errors.CorruptDataError(f"{tree.location}: {path} is missing")
        index = elements.text_of(node.attribute("_index")) or "_index"
        self.index_name = None if index == "_index" else index
        self._is_old = elements.text_of(node.attribute("encoding-version")) == "0.1.0"
        self._index_path = f"{path}/{index}"
        self._index = _index_column(tree, self._index_path)
        self.index_sources = self._index.sources
        self.sources: tuple[str, ...] = (path,)
        self._order = elements.names_of(node.attribute("column-order"))
        self._columns: dict[int, Column] = {}
        self._states: dict[int, Hashable] = {}

    @property
    def length(self) -> int:
        """How many rows it has."""
        nodes = tuple(tree_node(self._tree, source) for source in self.index_sources)
        return int(self._index.array(nodes).info.shape[0])

    def column_names(self) -> list[str]:
        """Return the names of its columns, in order."""
        return self._order

    def column(self, position: int) -> Column:
        """Return a column; its metadata are read once."""
        if position not in self._columns:
            path = f"{self._path}/{self._order[position]}"
            column = column_at(self._tree, path, is_old=self._is_old)
            if not isinstance(column, PlainColumn | BrokenColumn):
                self._states[position] = tuple(map(self._tree.identity, column.sources))
            self._columns[position] = column
        return self._columns[position]

    def state(self, position: int) -> Hashable | None:
        """Return the identity of a column before it was looked at; None if nothing is kept of it.

        A column keeps its categories, and whether anything is missing.
        """
        return self._states.get(position)

    def names(self, nodes: Nodes) -> StoredArray:
        """Return the index as entries of an axis."""
        what = f"{self._tree.location}: {self._path} names"
        if self._index.problem:
            raise errors.UnsupportedDataError(f"{what}: {self._index.problem}")
        return EntryNames(self._index.array(nodes), what=what)


def _index_column(tree: Tree, path: str) -> Column:
    """Return an index; anndata writes an array, or a column of strings that may be missing."""
    if tree.kind(path) is None:
        raise errors.CorruptDataError(f"{tree.location}: the index {path!r} is missing")
    return column_at(tree, path, is_old=True)


def tree_node(tree: Tree, path: str) -> Any:
    """Return the node at a path.

    Raises
    ------
    CorruptDataError
        There is nothing.
    """
    node = tree.node(path)
    if node is None:
        raise errors.CorruptDataError(f"{tree.location}: {path} is missing")
    return node


class MemoryFrame:
    """A DataFrame in memory; maybe since only anndata understands how it is stored.

    Parameters
    ----------
    path
        Where it was in its file.
    part
        What messages call it; by default its path.
    """

    def __init__(self, frame: Any, path: str, *, part: str = "") -> None:
        self._frame = frame
        self._path = part or path
        self.index_sources = self.sources = (path,)
        name = frame.index.name
        self.index_name = None if name is None else str(name)
        self.length = len(frame)

    def column_names(self) -> list[str]:
        """Return the names of its columns, in order."""
        return [str(name) for name in self._frame.columns]

    def column(self, position: int) -> Column:
        """Return a column."""
        return self._columns[position]

    def state(self, position: int) -> Hashable | None:  # noqa: ARG002 - all were read at once
        """Return None: nothing tells one column from another."""
        return None

    @functools.cached_property
    def _columns(self) -> list[Column]:
        return [
            SeriesColumn(self.sources, functools.partial(self._series, position))
            for position in range(self._frame.shape[1])
        ]

    def _series(self, position: int) -> Any:
        return self._frame.iloc[:, position]

    def names(self, nodes: Nodes) -> StoredArray:  # noqa: ARG002 - it was read
        """Return the index as entries of an axis."""
        index, what = self._frame.index, f"{self._path} names"
        is_text = all(issubclass(found, str) for found in set(map(type, index)))
        strings = index if is_text else index.map(str)
        return EntryNames(
            MemoryArray(lambda: strings_input(strings, what=what)), what=what, is_text=is_text
        )


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
        self.info = MemoryArray(
            lambda: None, shape=info.shape, storage_type=StorageType.STRING
        ).info

    def read(self) -> Any:
        """Return all names as objects."""
        return self.read_strings().to_numpy(zero_copy_only=False)

    def read_rows(self, span: Any) -> Any:
        """Return a range of the names as objects."""
        return self.read()[span.slice]

    def read_spans(self, spans: Any, within: Any = None) -> Any:  # noqa: ARG002 - one dimension
        """Return several ranges of the names as objects."""
        values = self.read()
        return [values[span.slice] for span in spans]

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
