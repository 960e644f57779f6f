"""The part of a reader without vectors and matrices: names, scalars and axes."""

from __future__ import annotations

import enum
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.base import (
    DecodedCache,
    StorageType,
    name_problem,
)
from daf_storage.data import _layout as layout
from daf_storage.data._conversions import (
    arrow_strings,
    check_unique,
    integer_positions,
    objects,
    positions_among,
    sample,
)
from daf_storage.trees import Node, StoredArray, Tree, names_identity, release_kept

if TYPE_CHECKING:
    import pyarrow.compute as pc
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")
    pc = lazy_module("pyarrow.compute")


class _Required(enum.Enum):
    """The type of the default that says: it must exist."""

    REQUIRED = "required"

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required.REQUIRED
"""Default of every ``default=``: the property must exist."""


_MAX_ENTRIES: Final = 1 << 40


class AxisReader:
    """A data set that is open: its scalars and its axes; see `DafReader`."""

    def __init__(
        self, tree: Tree, *, name: str, on_close: Callable[[], None] | None = None
    ) -> None:
        self._tree = tree
        self._name = name
        self._is_closed = False
        self._decoded = DecodedCache()
        self._counters: Counter[str] = Counter()
        self._unique: dict[str, Hashable] = {}
        self._release = None if on_close is None else weakref.finalize(self, on_close)

    @property
    def name(self) -> str:
        """The name of the data set: as given, else its scalar ``name``, else its full path."""
        return self._name

    @property
    def tree(self) -> Tree:
        """The groups and arrays in which the data set is stored."""
        return self._tree

    @property
    def location(self) -> str:
        """The path or other place that messages name."""
        return self._tree.location

    @property
    def is_writable(self) -> bool:
        """Whether this object can change the data set."""
        return False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def rename(self, name: str) -> None:
        """Call this object by another name; the stored data does not change."""
        self._name = name

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Refuse further use; arrays handed out earlier stay valid.  May be called twice."""
        self._is_closed = True
        self._decoded.clear()
        release_kept(self._tree)
        if self._release is not None:
            self._release()

    def scalars_set(self) -> set[str]:
        """Return the names of the scalars."""
        return self._names(layout.SCALARS)

    def has_scalar(self, name: str) -> bool:
        """Return whether there is a scalar of this name."""
        return self._kind(layout.scalar_path, name) is not None

    def scalar_type(self, name: str) -> StorageType:
        """Return the stored type of a scalar."""
        return self._scalar_array(name).info.storage_type

    def get_scalar(self, name: str, *, default: Any = REQUIRED) -> Any:
        """Return a scalar as ``bool``, ``int``, ``float`` or ``str``.

        Raises
        ------
        ScalarNotFoundError
            There is none and no ``default`` was given.
        """
        array = self._find_scalar(name)
        if array is None and default is not REQUIRED:
            return default
        if array is None:
            raise errors.scalar_not_found(self.location, name, self.scalars_set())
        if array.info.size != 1:
            raise errors.CorruptDataError(
                f"{self.location}: scalar {name!r} has {array.info.size} elements instead of one"
            )
        if array.info.storage_type.is_string:
            return array.read_strings()[0].as_py()
        return array.read().reshape(-1)[0].item()

    def axes_set(self) -> set[str]:
        """Return the names of the axes."""
        return self._names(layout.AXES)

    def has_axis(self, axis: str) -> bool:
        """Return whether there is an axis of this name."""
        return self._kind(layout.axis_path, axis) is not None

    def axis_length(self, axis: str) -> int:
        """Return the number of entries of an axis; reads metadata only."""
        return self._axis_array(axis, self._axis_node(axis)).info.shape[0]

    def axis_state(self, axis: str) -> tuple[int, Hashable]:
        """Return the number of entries of an axis, and what changes whenever they do; one look."""
        node = self._axis_node(axis)
        return self._axis_array(axis, node).info.shape[0], node.identity

    def axis_entries(
        self, axis: str, indices: Any = None, *, allow_empty: bool = False
    ) -> npt.NDArray[np.object_]:
        """Return the entries of an axis as an array of ``str`` objects.

        ``get_pa_vector(axis, "name")`` is the fast way for large axes.

        Parameters
        ----------
        indices
            The 0-based positions of the entries to return, in any order; by default all.
        allow_empty
            Negative positions, which `axis_indices` gives for "no entry", become empty strings
            instead of an error.

        Raises
        ------
        EntryNotFoundError
            A position is outside of the axis.
        InvalidInputError
            They are not integers; a mask is not taken for positions 0 and 1.
        """
        own = self._entries(axis)
        if indices is None:
            return objects(own)
        positions = integer_positions(indices, f"{self.location}: indices= of axis {axis!r}")
        is_empty = positions < 0
        is_outside = (positions >= len(own)) | (is_empty & (not allow_empty))
        if bool(is_outside.any()):
            raise errors.EntryNotFoundError(
                f"{self.location}: axis {axis!r} has no entry at position "
                f"{int(positions[is_outside][0])}; it has {len(own):,} entries, counted from 0"
            )
        found = objects(own.take(pa.array(np.where(is_empty, 0, positions)))) if len(own) else None
        if found is None:
            return np.full(positions.shape, "", dtype=object)
        found[is_empty] = ""
        return found

    def axis_dict(self, axis: str) -> dict[str, int]:
        """Return the 0-based position of each entry of an axis.

        It has a Python object per entry; `axis_indices` looks up many entries without.
        """
        return {entry: i for i, entry in enumerate(self._entries(axis).to_pylist())}

    def axis_version_counter(self, axis: str) -> int:
        """Return how often an axis was set, reordered or deleted through this object."""
        return self._counters[layout.axis_path(axis)]

    def axis_indices(
        self,
        axis: str,
        entries: Iterable[str],
        *,
        allow_empty: bool = False,
        allow_missing: bool = False,
    ) -> npt.NDArray[np.int64]:
        """Return the 0-based positions of entries, in the order given; duplicates are kept.

        Parameters
        ----------
        allow_empty
            Empty strings, which by convention mean "no entry", become -1 instead of an error.
        allow_missing
            So do other strings that are not entries of the axis.

        Raises
        ------
        EntryNotFoundError
            A string is not an entry of the axis.
        """
        own = self._entries(axis)
        asked = arrow_strings(entries)
        asked = asked if asked.type == own.type else asked.cast(own.type)
        positions = positions_among(asked, own)
        is_missing = positions < 0
        if is_missing.any():
            missing = asked.filter(pa.array(is_missing)).to_pylist()
            bad = [e for e in missing if not (allow_empty if e == "" else allow_missing)]
            if bad:
                raise errors.entry_not_found(self.location, axis, str(bad[0]), sample(own))
        return positions

    def axis_identity(self, axis: str, vectors: frozenset[str] | None = None) -> Hashable:
        """Return a value that changes whenever a vector of the axis is set or deleted.

        Or its metadata, or the entries, are rewritten in place by another program.

        Parameters
        ----------
        vectors
            The only vectors whose metadata are looked at, where each costs a look; by default all.
        """
        self._check_open()
        path = layout.vectors_path(axis)
        return (
            self._tree.identity(layout.axis_path(axis)),
            self._tree.listing_identity(path)
            if vectors is None
            else names_identity(self._tree, path, vectors),
        )

    def _names(self, path: str) -> set[str]:
        self._check_open()
        return set(self._tree.children(path))

    def _kind(self, path_of: Any, name: str) -> str | None:
        self._check_open()
        return None if name_problem(name) else self._tree.kind(path_of(name))

    def _check_open(self) -> None:
        if self._is_closed:
            raise errors.InvalidInputError(
                f"{self.location}: the data set was closed; open it again"
            )

    def _require_axis(self, axis: str) -> None:
        if not self.has_axis(axis):
            raise errors.axis_not_found(self.location, axis, self.axes_set())

    def _scalar_array(self, name: str) -> StoredArray:
        array = self._find_scalar(name)
        if array is None:
            raise errors.scalar_not_found(self.location, name, self.scalars_set())
        return array

    def _find_scalar(self, name: str) -> StoredArray | None:
        self._check_open()
        return (
            None if name_problem(name) else layout.open_array(self._tree, layout.scalar_path(name))
        )

    def _axis_node(self, axis: str) -> Node:
        self._check_open()
        node = None if name_problem(axis) else self._tree.node(layout.axis_path(axis))
        if node is None:
            raise errors.axis_not_found(self.location, axis, self.axes_set())
        return node

    def _axis_array(self, axis: str, node: Node) -> StoredArray:
        array = node.array()
        if array is None:
            raise errors.CorruptDataError(
                f"{self.location}: axis {axis!r} is not stored as an array"
            )
        if len(array.info.shape) != 1 or not array.info.storage_type.is_string:
            raise errors.CorruptDataError(
                f"{self.location}: axis {axis!r} is not stored as a list of strings"
            )
        if array.info.size > _MAX_ENTRIES:
            raise errors.CorruptDataError(
                f"{self.location}: axis {axis!r} is said to have {array.info.size:,} entries"
            )
        array.check_stored(is_complete=True)
        return array

    def _entries(self, axis: str) -> Any:
        node = self._axis_node(axis)
        entries = self._decode_entries(axis, node)
        if self._unique.get(axis) != node.identity:
            if not getattr(self._axis_array(axis, node), "has_unique_strings", False):
                check_unique(self.location, axis, entries)
            self._unique[axis] = node.identity
        return entries

    def _decode_entries(self, axis: str, node: Node) -> Any:
        return self._decoded.get(
            (axis,), node.identity, lambda: self._axis_array(axis, node).read_strings()
        )

    def known_entries(self, axis: str) -> Any:
        """Return the entries of an axis if they are remembered, or None."""
        return self._decoded.peek((axis,), self._axis_node(axis).identity)

    def check_labels(self, axis: str, labels: Any, what: str) -> None:
        """Raise ``LabelsError`` if a pandas index is given and is not the axis entries.

        A plain ``RangeIndex`` counts as no labels.
        """
        check_labels(self.location, axis, lambda: self._entries(axis), labels, what)


def check_labels(
    location: str, axis: str, entries_of: Callable[[], pa.Array], labels: Any, what: str
) -> None:
    """Raise unless a pandas index has just these entries; no index, or a plain one, may pass."""
    if labels is None or callable(labels) or type(labels).__name__ == "RangeIndex":
        return
    entries = entries_of()
    is_long = len(labels) == len(entries)
    if not (is_long and arrow_strings(labels).cast(entries.type).equals(entries)):
        raise errors.wrong_labels(location, what, axis)
