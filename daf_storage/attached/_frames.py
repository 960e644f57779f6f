"""obs, var and raw.var as they lie in a file: the names of an axis, and its columns as vectors.

Vectors have the names of their columns, if these can be names.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from daf_storage import errors
from daf_storage.anndata_rules import AnnDataWarning, free_name
from daf_storage.anndata_rules import columns as rules
from daf_storage.attached import _elements as elements
from daf_storage.attached._columns import (
    BrokenColumn,
    Column,
    MaskedStrings,
    PlainColumn,
    SeriesColumn,
    column_at,
)
from daf_storage.attached._virtual import MadeOf, Nodes, node_at
from daf_storage.base import (
    RESERVED_VECTORS,
    StorageType,
    first_duplicate,
    name_problem,
    optional_import,
    pandas,
)
from daf_storage.data import strings_input
from daf_storage.trees import MemoryArray, StoredArray, Tree


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
        nodes = tuple(node_at(self._tree, source) for source in self.index_sources)
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


@dataclass(frozen=True, slots=True)
class FrameVector:
    """A vector of a frame, and the column that it is."""

    column_name: str
    column: Column
    name: str
    """The name of the vector; empty if Daf has no such vector."""
    companion: str = ""
    """The name of the vector that says what is missing, if there is one."""
    problem: str = ""
    """Why there is no such vector."""
    state: Hashable | None = None
    """The identity of the column before it was looked at; None if nothing is kept of it."""


class FrameVectors:
    """The vectors of a frame; their columns are looked at when they are first asked for.

    The name of a vector may depend on the columns before it.  Nearly always it does not: then a
    vector is found by its name without a look at the other columns.
    """

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._names = frame.column_names()
        self._found: dict[int, FrameVector] = {}

    @functools.cached_property
    def every(self) -> tuple[FrameVector, ...]:
        """Those of all columns, in their order."""
        if self._positions is not None:
            return tuple(map(self._plainly_named, self._positions.values()))
        return tuple(self._named_in_order())

    def find(self, name: str) -> FrameVector | None:
        """Return the vector of this name, or whose companion has it; None if there is none."""
        if self._positions is None:
            named = (vector for vector in self.every if name in (vector.name, vector.companion))
            return next(named, None) if name else None
        owner = name if name in self._positions else name.removesuffix(rules.MISSING_SUFFIX)
        position = self._positions.get(owner)
        vector = None if position is None else self._plainly_named(position)
        return vector if vector is not None and name in (vector.name, vector.companion) else None

    @functools.cached_property
    def _positions(self) -> Mapping[str, int] | None:
        """Where each column is, by its name, if all vectors have the names of their columns.

        None if a name cannot be one of a vector, occurs twice, or may be one of a companion.
        """
        names = self._names
        positions = {name: position for position, name in enumerate(names)}
        is_plain = len(positions) == len(names) and not any(map(_is_unusual, names))
        return positions if is_plain else None

    def _plainly_named(self, position: int) -> FrameVector:
        if position not in self._found:
            self._found[position] = self._vector(position, set(RESERVED_VECTORS))
        return self._found[position]

    def _named_in_order(self) -> Iterator[FrameVector]:
        taken = set(RESERVED_VECTORS)
        for position in range(len(self._names)):
            vector = self._vector(position, taken)
            taken |= {vector.name, vector.companion} if vector.name else set()
            yield vector

    def _vector(self, position: int, taken: set[str]) -> FrameVector:
        """Return the vector of a column, by a name that is not taken.

        A column whose metadata cannot be read is a vector that raises when it is used.
        """
        column_name = self._names[position]
        column: Column
        try:
            column = self._frame.column(position)
            problem = column.problem
            has_companion = not problem and column.has_companion()
        except errors.FormatError as error:
            column, problem, has_companion = BrokenColumn(error), "", False
        if problem:
            return FrameVector(column_name, column, "", problem=problem)
        name = free_name(column_name, taken)
        companion = ""
        if has_companion:
            companion = free_name(f"{name}{rules.MISSING_SUFFIX}", {*taken, name})
        return FrameVector(column_name, column, name, companion, state=self._frame.state(position))


def _is_unusual(column_name: Any) -> bool:
    """Return whether the vector of a column, or another one, may have another name for it."""
    return (
        name_problem(column_name) is not None
        or column_name in RESERVED_VECTORS
        or rules.MISSING_SUFFIX in column_name
        or name_problem(f"{column_name}{rules.MISSING_SUFFIX}") is not None
    )
