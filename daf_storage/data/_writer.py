"""The writer of a Daf data set: every rule common to the formats, once.

Each property is prepared aside and put in place in one atomic step, after all checks: reserved
name, axis, length and labels, conflict.  A refused or crashed change leaves what was there.
The entries of a new axis are put in place last: until then nobody sees anything of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage.base import (
    NAME_VECTOR,
    RESERVED_VECTORS,
    AnyArray,
    IfExists,
    Packing,
    ShowProgress,
    StorageType,
    check_choice,
    check_name,
    first_duplicate,
    packing_of,
    progress_bar,
    unique_name,
)
from daf_storage.data import _assembled as reordering
from daf_storage.data import _layout as layout
from daf_storage.data._assembled import Part, write_assembled
from daf_storage.data._coercion import (
    GivenAxis,
    SparseVectorParts,
    VectorInput,
    given_matrix,
    given_vector,
    numeric_type,
    scalar_input,
    strings_input,
)
from daf_storage.data._encoding import (
    EmptySparse,
    check_filled,
    fill_transpose,
    index_type,
    reserve_sparse,
    size_bytes,
    write_matrix,
    write_vector,
)
from daf_storage.data._entries import Alignment
from daf_storage.data._layout import (
    Convention,
    StoredMatrix,
    are_positions,
    attributes_of,
    values_without_entry,
)
from daf_storage.data._reader import (
    DafReader,
    check_reader,
    stored_properties,
    writing_remedy,
)
from daf_storage.trees import Tree, TreeTransaction, WritableTree


@dataclass(frozen=True, slots=True)
class NewAxis:
    """What is stored of a new axis, in the shapes in which it is written."""

    name: str
    entries: pa.Array
    vectors: Mapping[str, VectorInput]
    missing: frozenset[str]
    """The vectors of strings in which an empty one stands for a missing value."""


def new_axis(
    daf: DafReader,
    axis: str,
    entries: Any,
    *,
    vectors: Mapping[str, Any],
    empty_is_missing: Collection[str],
) -> NewAxis:
    """Check and convert what a new axis is to have; see `DafWriter.add_axis`."""
    check_name(daf.location, "axis", axis)
    what = f"{daf.location}: the list of entries of axis {axis!r}"
    stored = strings_input(entries, what=what)
    twice = first_duplicate(stored)
    if twice is not None:
        raise errors.DuplicateEntriesError(
            f"{daf.location}: the entries of axis {axis!r} are not unique: "
            f"{twice!r} occurs more than once; make them unique first"
        )
    unknown = sorted(set(empty_is_missing) - set(vectors))
    if unknown:
        raise errors.InvalidInputError(
            f"{daf.location}: empty_is_missing names {unknown[0]!r}, which is none of the new "
            f"vectors; there are {errors.shown_names(vectors)}"
        )
    converted: dict[str, VectorInput] = {}
    given = GivenAxis(daf.location, axis, len(stored), lambda: stored)
    for name, value in vectors.items():
        check_vector_name(daf.location, axis, name)
        converted[name] = given_vector(given, name, value)
        if name in empty_is_missing:
            check_strings(daf.location, axis, name, converted[name])
    return NewAxis(axis, stored, converted, frozenset(empty_is_missing))


def check_vector_name(location: str, axis: str, name: str) -> None:
    """Refuse a name that no vector can have."""
    check_name(location, "vector", name)
    if name in RESERVED_VECTORS:
        raise errors.InvalidNameError(
            f"{location}: the vector {name!r} of axis {axis!r} is reserved: "
            "it always exists and cannot be set or deleted; choose another name"
        )


def check_strings(location: str, axis: str, name: str, stored: VectorInput) -> None:
    """Refuse that an empty string stands for a missing value where there are no strings."""
    if isinstance(stored, SparseVectorParts | np.ndarray):
        raise errors.InvalidInputError(
            f"{location}: vector {name!r} of axis {axis!r} holds no strings, so no empty string "
            "can stand for a missing value; leave out empty_is_missing"
        )


def publish_axis(tree: Tree, changes: TreeTransaction, new: NewAxis, others: Sequence[str]) -> None:
    """Put the groups of an axis in place, then what is in them, and its entries last.

    Parameters
    ----------
    others
        All other axes of the data set.
    """
    for group in layout.groups_of_axes([new.name, *others]):
        if new.name in group.split("/") and tree.kind(group) is None:
            changes.create_group(group)
            changes.publish(group, replace=False)
    for name, vector in new.vectors.items():
        path = layout.vector_path(new.name, name)
        convention = Convention.EMPTY_IS_MISSING if name in new.missing else None
        write_vector(changes, path, vector, attributes_of(convention))
        changes.publish(path, replace=False)
    path = layout.axis_path(new.name)
    changes.write_strings(path, new.entries, (len(new.entries),))
    changes.publish(path, replace=False)


def copy_entries(source: Tree, target: WritableTree, axis: str) -> None:
    """Add an axis of one tree to another, without properties; the caller holds the lock of that."""
    new = NewAxis(axis, layout.axis_array(source, axis).read_strings(), {}, frozenset())
    others = sorted(set(target.children(layout.AXES)) - {axis})
    with target.transaction() as changes:
        publish_axis(target, changes, new, others)


def check_writer(value: object, function: str) -> None:
    """Refuse a data set that is open for reading, or what is none, where one is written to."""
    check_reader(value, function)
    if isinstance(value, DafReader) and not isinstance(value, DafWriter):
        raise errors.ReadOnlyError(f"{function} writes to {value}, but {writing_remedy(value)}")


class DafWriter(DafReader):
    """A Daf data set that can be read and changed.

    Do not construct it; `open_daf`, `ZarrDaf` and `MemoryDaf` return one.
    """

    is_writable = True

    def __init__(
        self,
        tree: WritableTree,
        *,
        name: str,
        on_close: Callable[[], None] | None = None,
        members: Sequence[DafReader] = (),
    ) -> None:
        super().__init__(tree, name=name, on_close=on_close, members=members)
        self._writable = tree

    @property
    def writable_tree(self) -> WritableTree:
        """The groups and arrays in which the data set is stored."""
        return self._writable

    @property
    def is_append_only(self) -> bool:
        """Whether properties can be added and neither replaced nor deleted, as in an archive."""
        return self._writable.is_append_only

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Make many changes to an archive or a directory at the cost of one.

        Whoever uses this object sees each change at once.  An archive has them when the block ends:
        all of them or, after an error or a crash, none.  A directory completes each change by
        itself, and lists all of them once, when the block ends: what a crash has left out of its
        consolidated metadata, the next writer puts there.  For other formats this does nothing.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> with daf.batch():
        ...     daf.add_axis("cell", ["A", "B"])
        ...     daf.set_vector("cell", "age", [1, 2])
        """
        self._check_open()
        with self._writable.batch():
            yield

    def set_scalar(
        self, name: str, value: Any, *, if_exists: IfExists = "error", dtype: Any = None
    ) -> None:
        """Store a scalar: a bool, a number, a numpy scalar (which keeps its dtype) or a string.

        ``dtype`` is as of `set_vector`.

        Raises
        ------
        ExistsError
            There is one already and ``if_exists`` is ``"error"``.
        """
        check_name(self.location, "scalar", name)
        stored = scalar_input(value, dtype, what=f"{self.location}: scalar {name!r}")
        self.put_scalar(name, stored, if_exists)

    def put_scalar(self, name: str, stored: Any, if_exists: IfExists = "error") -> None:
        """Store a scalar that is an array of one element already."""
        path = layout.scalar_path(name)
        with self.change(path, if_exists=if_exists) as changes:
            changes.write_scalar(path, stored)

    def delete_scalar(self, name: str, *, must_exist: bool = True) -> None:
        """Delete a scalar."""
        if self.has_scalar(name):
            self._remove(layout.scalar_path(name))
        elif must_exist:
            self.scalar_type(name)  # which says that there is none

    def add_axis(
        self,
        axis: str,
        entries: Iterable[str],
        *,
        if_exists: IfExists = "error",
        vectors: Mapping[str, Any] | None = None,
        empty_is_missing: Collection[str] = (),
    ) -> None:
        """Add an axis with these unique entries, and with vectors, in one step.

        With ``if_exists="replace"``, an axis of this name is deleted in the same step, with all
        its vectors and matrices.  After an error or a crash everything is as it was.

        Parameters
        ----------
        vectors
            By name, as for `set_vector`.
        empty_is_missing
            The names of those of strings in which an empty one stands for a missing value.

        Raises
        ------
        DuplicateEntriesError
            An entry occurs more than once.
        ExistsError
            There is such an axis and ``if_exists`` is ``"error"``.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("donor", ["N1", "N2"], vectors={"age": [30, 60]})
        >>> daf.get_np_vector("donor", "age").tolist()
        [30, 60]
        """
        new = new_axis(
            self, axis, entries, vectors=vectors or {}, empty_is_missing=empty_is_missing
        )
        self._add_axis(new, if_exists)

    def add_entries(self, axis: str, entries: pa.Array) -> None:
        """Add an axis without vectors, of entries that a data set has, and so are checked."""
        self._add_axis(NewAxis(axis, entries, {}, frozenset()), "error")

    def _add_axis(self, new: NewAxis, if_exists: IfExists) -> None:
        axis, path = new.name, layout.axis_path(new.name)
        self._check_free(path, if_exists)
        if self.has_axis(axis):
            with self._writable.rebuilt([*self._paths_of_axis(axis), path]) as tree:
                self._publish_axis(tree, new)
        else:
            with self.batch(), self._writable.lock():
                self._check_free(path, if_exists)
                self._publish_axis(self._writable, new)
        self._count_version(path)  # and so that of its vectors

    def _publish_axis(self, tree: WritableTree, new: NewAxis) -> None:
        """Put a new axis in place; its entries, without which nothing of it is seen, last."""
        target = self._tree_of_new(tree)
        paths = [path for path in self._paths_of_axis(new.name) if layout.has_arrays(target, path)]
        with tree.transaction() as changes:
            for path in paths:
                changes.remove(path)
            others = set(self._tree_of_new(self._writable).children(layout.AXES)) - {new.name}
            try:
                publish_axis(target, changes, new, sorted(others))
            except Exception:
                if not self.is_append_only:  # whose batch ends with nothing of it
                    with suppress(errors.DafError, OSError):  # the first error says more
                        for path in self._paths_of_axis(new.name):
                            changes.remove(path)
                raise

    def delete_axis(self, axis: str, *, must_exist: bool = True) -> None:
        """Delete an axis with all its vectors and matrices."""
        if must_exist:
            self._require_axes(axis)
        elif not self.has_axis(axis):
            return
        self._check_removable(f"axis {axis!r}")
        with self._writable.transaction() as changes, self._writable.lock():
            for path in (layout.axis_path(axis), *self._paths_of_axis(axis)):
                changes.remove(path)
            self._count_version(layout.axis_path(axis))

    def reorder_axis(self, axis: str, order: Any, *, progress: ShowProgress = "auto") -> None:
        """Put the entries of an axis into another order; its vectors and matrices follow.

        All of it changes in one step: whoever reads finds the old order or the new one.  After a
        crash in the middle everything is as it was.  `daf_query.DafSession.reorder_axis` takes an
        SQL order.

        Parameters
        ----------
        order
            All positions (from 0), or all entries, each once, in their new order.
        progress
            Whether to show a bar on stderr.

        Raises
        ------
        AppendOnlyError
            In an archive nothing can be replaced.
        DuplicateEntriesError, LengthError, EntryNotFoundError
            An entry is missing in the order, or there twice.
        InUseError
            Another writer is at work.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 2, 3])
        >>> daf.reorder_axis("cell", ["C", "A", "B"])
        >>> daf.get_np_vector("cell", "age").tolist()
        [3, 1, 2]
        """
        self.reorder_axes({axis: order}, progress=progress)

    def reorder_axes(self, orders: Mapping[str, Any], *, progress: ShowProgress = "auto") -> None:
        """Put the entries of several axes into other orders, all in one step; see `reorder_axis`.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B"])
        >>> daf.add_axis("gene", ["X", "Y"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[1, 2], [3, 4]])
        >>> daf.reorder_axes({"cell": ["B", "A"], "gene": [1, 0]})
        >>> daf.get_np_matrix("cell", "gene", "UMIs").tolist()
        [[4, 3], [2, 1]]
        """
        checked = self.check_orders(orders)
        paths = reordering.affected_paths(self, checked)
        with self._writable.rebuilt(paths) as tree:
            found = (stored.arrays() for _, stored in stored_properties(self, checked))
            size = size_bytes(array for arrays in found for array in arrays.values())
            with progress_bar(f"reorder {', '.join(checked)}", size, show=progress) as bar:
                reordering.write_reordered(self, tree, checked, bar.add)
        for axis in checked:
            self._count_version(layout.axis_path(axis))

    def check_orders(self, orders: Mapping[str, Any]) -> dict[str, AnyArray]:
        """Return which old position comes to each new one, by axis; see `reorder_axes`."""
        self._check_open()
        if self.is_append_only:
            raise errors.AppendOnlyError(
                f"{self.location}: can't reorder {', '.join(map(repr, orders))} of a zip-backed "
                "data set, which is append-only; convert it to a directory and reorder that"
            )
        self._require_axes(*orders)
        return {axis: reordering.permutation(self, axis, order) for axis, order in orders.items()}

    @contextmanager
    def change(
        self,
        path: str,
        *,
        if_exists: IfExists = "error",
        axes: tuple[str, ...] = (),
        flipped: str | None = None,
        packed: bool | Packing | None = None,
    ) -> Iterator[TreeTransaction]:
        """Prepare a property and put it in place when the block ends well.

        With ``if_exists="replace"``, the transpose of a matrix at ``flipped`` is taken away, so
        that no two orientations of one matrix disagree: before this one is replaced, so that a
        crash leaves one of them, or after this one was added, so that a crash does not lose it.
        If one of its axes was changed meanwhile, nothing is put in place.
        """
        self._check_free(path, if_exists)
        before = {axis: self._tree.node(layout.axis_path(axis)) for axis in axes}
        packing = (
            self._writable if packed is None else self._writable.packing_as(packing_of(packed))
        )
        with packing.transaction() as changes:
            yield changes
            changes.write_aside(path)
            with self._writable.lock():
                for axis, node in before.items():
                    now = self._tree.node(layout.axis_path(axis))
                    if node is None or now is None or node.place != now.place:
                        raise errors.LengthError(
                            f"{self.location}: axis {axis!r} was replaced, reordered or deleted "
                            f"while {path} was being written; nothing was stored, write it for "
                            "the new axis"
                        )
                stale = flipped if if_exists == "replace" else None
                is_new = self._tree.kind(path) is None
                if stale is not None and not is_new:
                    changes.remove(stale)
                try:
                    changes.publish(path, replace=if_exists == "replace")
                except FileExistsError:
                    raise errors.property_exists(self.location, path) from None
                if stale is not None and is_new:
                    changes.remove(stale)
                self._count_version(path)

    def _remove(self, path: str) -> None:
        self._check_removable(path)
        with self._writable.transaction() as changes, self._writable.lock():
            changes.remove(path)
            self._count_version(path)

    def _count_version(self, path: str) -> None:
        """Count a change; both orientations of a matrix are one."""
        group, *axes, name = path.split("/")
        self._counters["/".join([group, *sorted(axes), name])] += 1

    def _check_free(self, path: str, if_exists: IfExists) -> None:
        """Raise if a property is there and is not to be replaced, or cannot be."""
        self._check_open()
        check_choice(if_exists, IfExists, "if_exists")
        what, exists = layout.in_words(path), self._tree.kind(path) is not None
        is_stored_here = exists and self._tree_of_new(self._writable).kind(path) is not None
        if exists and if_exists == "error":
            is_kept = is_stored_here and self.is_append_only
            raise errors.property_exists(self.location, what, is_append_only=is_kept)
        if is_stored_here:
            self._check_removable(what)

    def _check_removable(self, what: str) -> None:
        if self.is_append_only:
            raise errors.append_only(self.location, what)

    def _numeric_type(self, dtype: Any) -> StorageType:
        return numeric_type(dtype, what=f"{self.location}: what is filled in place")

    def _tree_of_new(self, tree: WritableTree) -> WritableTree:
        """Return the tree in which new nodes are put in place: this one, unless it is a chain."""
        return tree

    def _paths_of_axis(self, axis: str) -> list[str]:
        """Return the paths of everything that goes when an axis is deleted."""
        tree, paths = self._tree_of_new(self._writable), list[str]()
        for top in ("", f"{layout.KEPT}/"):
            matrices = f"{top}{layout.MATRICES}"
            others = sorted(set(tree.children(matrices)) - {axis})
            paths += [f"{top}{layout.VECTORS}/{axis}", f"{matrices}/{axis}"]
            paths += [f"{matrices}/{other}/{axis}" for other in others]
        return paths

    def read_only(self) -> DafReader:
        """Return an object that reads the same data and cannot change it.

        It is called ``NAME.read_only``, sees what is written through this one, and is closed with
        it.
        """
        shown: Any = {"members": [self], "counters": self._counters}
        reader = DafReader(self._tree, name=unique_name(f"{self.name}.read_only"), **shown)
        if self.origin is not None:
            reader.origin = replace(self.origin, name=reader.name)
        return reader

    # Vectors

    def set_vector(  # noqa: PLR0913 - how a vector is stored
        self,
        axis: str,
        name: str,
        value: Any,
        *,
        if_exists: IfExists = "error",
        dtype: Any = None,
        empty_is_missing: bool = False,
        entries_of: str | None = None,
        packed: bool | Packing | None = None,
    ) -> None:
        """Store a vector.

        Parameters
        ----------
        value
            Anything numpy can turn into one dimension; Arrow; a scalar to fill the axis with; a
            pandas Series, whose labels must then be the axis entries; a scipy sparse array of
            one row or column, which is stored sparse.
        dtype
            The numpy dtype to convert to; that of ``value`` by default.  A list of integers is
            stored as Int64, or as UInt64 where one exceeds that.  ``dtype="float32"`` rounds
            floats, since that is what it asks for.  Nothing else changes a value: integers must
            fit exactly (2**24 + 1 is no Float32), finite floats must stay finite, NaN must not
            become an integer.
        empty_is_missing
            Of strings: whether an empty one stands for a missing value.  Tables then have NULL
            there; `get_np_vector` returns the empty string.  An import of AnnData sets this.
        entries_of
            Of strings: the axis that they are entries of, all but the empty ones, which is
            recorded as a relation (see `DafReader.relations`).  An import of AnnData sets this for
            categoricals that become axes.
        packed
            Whether to cut it into small chunks and compress them, and how; by default as the data
            set was opened.

        Raises
        ------
        UnsupportedInputError
            A value is missing, masked, of another type than the others, or does not fit into the
            dtype; the message names the first such value and its position.  Or a value is no entry
            of ``entries_of``.
        InvalidNameError, AxisNotFoundError, LengthError, LabelsError, ExistsError
            In this order; whatever is stored stays untouched.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf(name="tiny")
        >>> daf.add_axis("cell", ["A", "B"])
        >>> daf.set_vector("cell", "age", [30.0, 60.0], dtype="uint8")
        >>> daf.set_vector("cell", "weight", [1, 300], dtype="uint8")
        Traceback (most recent call last):
            ...
        daf_storage.errors.UnsupportedInputError: <memory>: vector 'weight' of axis 'cell' holds \
300 at position 1, which does not fit into UInt8; nothing was stored: pass a dtype that can hold \
it, or change the value
        """
        check_vector_name(self.location, axis, name)
        stored = given_vector(self.given_axis(axis), name, value, dtype)
        if empty_is_missing:
            check_strings(self.location, axis, name, stored)
        if entries_of is not None:
            self._check_entries(stored, entries_of, f"vector {name!r} of axis {axis!r}")
        convention = Convention.EMPTY_IS_MISSING if empty_is_missing else None
        with self.new_vector(axis, name, if_exists=if_exists, packed=packed) as (path, changes):
            write_vector(changes, path, stored, attributes_of(convention, entries_of))

    def delete_vector(self, axis: str, name: str, *, must_exist: bool = True) -> None:
        """Delete a vector; its storage is freed, arrays handed out earlier stay valid."""
        check_vector_name(self.location, axis, name)
        if self.has_vector(axis, name):
            self._remove(layout.vector_path(axis, name))
        elif must_exist:
            self.open_vector(axis, name)  # which says that there is none

    @contextmanager
    def empty_dense_vector(
        self,
        axis: str,
        name: str,
        dtype: Any,
        *,
        if_exists: IfExists = "error",
        packed: bool | Packing | None = None,
    ) -> Iterator[AnyArray]:
        """Hand out a dense vector of zeros, mapped, to be filled in place.

        It becomes part of the data set when the block ends without an exception; until then
        nothing is visible.  Do not write to the array afterwards.  Where it is packed, by default
        as the data set was opened, it is in memory, and compressed when the block ends.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B"])
        >>> with daf.empty_dense_vector("cell", "age", "int32") as ages:
        ...     ages[:] = [1, 2]
        """
        check_vector_name(self.location, axis, name)
        shape, kind = (self.axis_length(axis),), self._numeric_type(dtype)
        with self.new_vector(axis, name, if_exists=if_exists, packed=packed) as (path, changes):
            yield changes.reserve_array(path, shape, kind)

    @contextmanager
    def empty_sparse_vector(
        self,
        axis: str,
        name: str,
        dtype: Any,
        nnz: int,
        *,
        if_exists: IfExists = "error",
        packed: bool | Packing | None = None,
    ) -> Iterator[EmptySparse]:
        """Hand out the parts of a sparse vector with ``nnz`` elements, to be filled in place.

        Positions are UInt32, or UInt64 for axes beyond its range.  ``packed`` is as of
        `empty_dense_vector`.
        """
        check_vector_name(self.location, axis, name)
        length = self.axis_length(axis)
        kind, index_kind = self._numeric_type(dtype), index_type(length)
        with self.new_vector(axis, name, if_exists=if_exists, packed=packed) as (path, changes):
            changes.create_group(path)
            parts = EmptySparse(
                nzind=changes.reserve_array(f"{path}/nzind", (nnz,), index_kind),
                nzval=changes.reserve_array(f"{path}/nzval", (nnz,), kind),
            )
            yield parts
            if not are_positions(parts.nzind, length):
                raise errors.InvalidInputError(
                    f"{self.location}: vector {name!r} was filled with positions that do not rise "
                    f"within 1 to {length:,}; nothing was stored"
                )

    @contextmanager
    def new_vector(
        self,
        axis: str,
        name: str,
        *,
        if_exists: IfExists = "error",
        packed: bool | Packing | None = None,
    ) -> Iterator[tuple[str, TreeTransaction]]:
        """Begin a vector; whoever prepares its arrays gets it put in place when the block ends."""
        check_vector_name(self.location, axis, name)
        self._require_axes(axis)
        path = layout.vector_path(axis, name)
        with self.change(path, if_exists=if_exists, axes=(axis,), packed=packed) as changes:
            yield path, changes

    def _check_entries(self, stored: Any, axis: str, what: str) -> None:
        """Raise unless these are strings that are entries of an axis, or empty."""
        self._require_axes(axis)
        if isinstance(stored, SparseVectorParts | np.ndarray):
            raise errors.InvalidInputError(
                f"{self.location}: {what} holds no strings, so its values are no entries of the "
                f"axis {axis!r}; leave out entries_of"
            )
        unknown = values_without_entry([stored], self.get_pa_vector(axis, NAME_VECTOR))
        if unknown is not None:
            raise errors.UnsupportedInputError(
                f"{self.location}: {unknown[1]:,} values of {what} are no entries of the axis "
                f"{axis!r}, first {unknown[0]!r}; nothing was stored: change the values, or leave "
                "out entries_of"
            )

    # Matrices

    def set_matrix(  # noqa: PLR0913 - the choices of a layout
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        value: Any,
        *,
        if_exists: IfExists = "error",
        relayout: bool = True,
        dtype: Any = None,
        packed: bool | Packing | None = None,
    ) -> None:
        """Store a matrix, by default in both orientations.

        Parameters
        ----------
        value
            Shape ``(rows, columns)``: numpy in either memory order, a scalar to fill it with, a
            pandas DataFrame whose labels must then be the axes' entries, or any scipy sparse
            array, which is stored sparse.
        relayout
            Whether to store the transpose too, so that either axis can be sliced fast.  A matrix
            of one axis with itself is stored once.  If not, a transpose that is there goes with
            ``if_exists="replace"``, and stays otherwise: it has to be that of ``value``.
        dtype
            As of `set_vector`: floats are rounded to a narrower float type that is asked for;
            any other value that does not fit exactly is an error.
        packed
            Whether to cut it into small chunks and compress them, in both orientations, and how;
            by default as the data set was opened.

        Raises
        ------
        InvalidNameError, AxisNotFoundError, LengthError, LabelsError, ExistsError
            In this order; whatever is stored stays untouched.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA", "CATA"], vectors={"age": [30, 60, 90]})
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_matrix("cell", "gene", "score", [[0.5, 1], [1, 1], [2, 2]])
        >>> daf.get_np_matrix("cell", "gene", "score").dtype.name
        'float64'
        """
        self._check_matrix(rows_axis, columns_axis, name)
        rows, columns = self.given_axis(rows_axis), self.given_axis(columns_axis)
        stored = given_matrix(rows, columns, name, value, dtype)
        flip = relayout and rows_axis != columns_axis
        writing: Any = {"if_exists": if_exists, "packed": packed}
        flipped: Any = "follows" if flip else "goes"
        with self.batch():
            with self.new_matrix(rows_axis, columns_axis, name, **writing, flipped=flipped) as (
                path,
                changes,
            ):
                write_matrix(changes, path, stored)
            if flip:
                self.relayout_matrix(rows_axis, columns_axis, name, **writing)

    def relayout_matrix(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        if_exists: IfExists = "error",
        progress: Callable[[int], None] = lambda _: None,
        packed: bool | Packing | None = None,
    ) -> None:
        """Store the transpose of a matrix too, block by block: memory does not grow with it.

        Parameters
        ----------
        packed
            Whether to compress it, and how; by default as the data set was opened.
        progress
            Called after each block with its bytes.

        Raises
        ------
        InvalidInputError
            Both axes are the same: such a matrix has one orientation only.
        MatrixNotFoundError
            The matrix is not stored in exactly this orientation.
        """
        self._check_matrix(rows_axis, columns_axis, name)
        if rows_axis == columns_axis:
            raise errors.InvalidInputError(
                f"{self.location}: can't relayout the square matrix {name!r} of axis "
                f"{rows_axis!r}: "
                "both orientations would have the same place"
            )
        stored = self.open_matrix(rows_axis, columns_axis, name)
        with self.new_matrix(
            columns_axis, rows_axis, name, if_exists=if_exists, packed=packed, flipped="stays"
        ) as (path, changes):
            write_transposed(changes, path, stored, progress=progress)

    def delete_matrix(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        relayout: bool = True,
        must_exist: bool = True,
    ) -> None:
        """Delete a matrix; in both orientations unless ``relayout=False``."""
        self._require_axes(rows_axis, columns_axis)
        if not self.has_matrix(rows_axis, columns_axis, name, relayout=relayout):
            if must_exist:  # this says that there is none
                required = self.open_orientations if relayout else self.open_matrix
                required(rows_axis, columns_axis, name)
            return
        self._remove(layout.matrix_path(rows_axis, columns_axis, name))
        if relayout and rows_axis != columns_axis:
            self._remove(layout.matrix_path(columns_axis, rows_axis, name))

    @contextmanager
    def empty_dense_matrix(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        dtype: Any,
        *,
        if_exists: IfExists = "error",
        packed: bool | Packing | None = None,
    ) -> Iterator[AnyArray]:
        """Hand out a dense matrix of zeros, mapped, to be filled in place.

        Shape ``(rows, columns)``, Fortran order: fill it column by column.  Only this orientation
        is stored; `relayout_matrix` adds the other.  Where it is packed, by default as the data set
        was opened, the array is in memory, and compressed when the block ends.
        """
        height, width = self._check_matrix(rows_axis, columns_axis, name)
        axes, kind = (rows_axis, columns_axis), self._numeric_type(dtype)
        with self.new_matrix(*axes, name, if_exists=if_exists, packed=packed) as (path, changes):
            yield changes.reserve_array(path, (width, height), kind).T

    @contextmanager
    def empty_sparse_matrix(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        dtype: Any,
        nnz: int,
        *,
        if_exists: IfExists = "error",
        packed: bool | Packing | None = None,
    ) -> Iterator[EmptySparse]:
        """Hand out the parts of a sparse matrix with ``nnz`` elements, to be filled in place.

        Only this orientation is stored; `relayout_matrix` adds the other.  Indices are UInt32, or
        UInt64 where the number of rows or ``nnz`` exceeds its range.  Where they are packed, by
        default as the data set was opened, the parts are in memory, and compressed when the block
        ends.
        """
        shape = self._check_matrix(rows_axis, columns_axis, name)
        kind, index_kind = self._numeric_type(dtype), index_type(max(shape[0], nnz + 1))
        axes = (rows_axis, columns_axis)
        with self.new_matrix(*axes, name, if_exists=if_exists, packed=packed) as (path, changes):
            parts = reserve_sparse(changes, path, (shape[1], nnz), index_kind, kind)
            yield parts
            check_filled(parts, shape, nnz, f"{self.location}: matrix {name!r}")

    @contextmanager
    def new_matrix(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        if_exists: IfExists = "error",
        packed: bool | Packing | None = None,
        flipped: Literal["goes", "follows", "stays"] = "goes",
    ) -> Iterator[tuple[str, TreeTransaction]]:
        """Begin one orientation of a matrix, and put it in place when the block ends well.

        Parameters
        ----------
        flipped
            What becomes of the other orientation with ``if_exists="replace"``; if it is to follow,
            it must be free otherwise.
        """
        axes = (rows_axis, columns_axis)
        pairs = list(dict.fromkeys([axes, axes[::-1]]))  # one, if it is square
        path, *other = (layout.matrix_path(*pair, name) for pair in pairs)
        self._check_matrix(*axes, name)
        if flipped == "follows" or (flipped == "goes" and if_exists == "replace"):
            for place in (path, *other):
                self._check_free(place, if_exists)
        with self.change(
            path,
            if_exists=if_exists,
            axes=axes,
            flipped=other[0] if other and flipped != "stays" else None,
            packed=packed,
        ) as changes:
            yield path, changes

    def _check_matrix(self, rows_axis: str, columns_axis: str, name: str) -> tuple[int, int]:
        """Return the shape of a matrix that can have this name."""
        check_name(self.location, "matrix", name)
        return self.axis_length(rows_axis), self.axis_length(columns_axis)


def write_transposed(
    changes: TreeTransaction, path: str, stored: StoredMatrix, *, progress: Callable[[int], None]
) -> None:
    """Prepare the other orientation of a matrix.

    Parameters
    ----------
    progress
        Called after each block with its bytes.
    """
    kind, (n_rows, n_columns) = stored.info.storage_type, stored.info.shape
    if not stored.info.is_sparse:
        rows = Alignment(None, n_columns)
        part = Part(stored, rows, n_rows, kind, is_transposed=True)
        write_assembled(changes, path, [part], is_sparse=False, add=progress)
        return
    nnz, usual = int(stored.colptr()[-1]), stored.entries("colptr").info.storage_type
    index_kind = index_type(max(n_columns, nnz + 1), usual)
    out = reserve_sparse(changes, path, (n_rows, nnz), index_kind, kind)
    fill_transpose(stored, out, progress=progress)
