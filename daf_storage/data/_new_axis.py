"""An axis that is being made, with the vectors and the matrices that it begins with.

Pure but for `publish_axis`, which puts the array of the entries in place last: until then nobody
sees anything of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.base import RESERVED_VECTORS, check_name, first_duplicate
from daf_storage.data import _coercion as inputs
from daf_storage.data import _layout as layout
from daf_storage.data._coercion import (
    GivenAxis,
    MatrixInput,
    SparseMatrixInput,
    SparseVectorInput,
    StringMatrixInput,
    VectorInput,
    given_matrix,
    given_vector,
)
from daf_storage.data._convention import Convention, attributes_of
from daf_storage.data._encoding import write_matrix, write_vector
from daf_storage.data._vector_reader import VectorReader, check_labels
from daf_storage.trees import Tree, TreeTransaction, WritableTree

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

MatrixKey: TypeAlias = tuple[str, str]
"""The other axis of a matrix, and its name."""

_Member: TypeAlias = Callable[[TreeTransaction, str], None]


@dataclass(frozen=True, slots=True)
class NewAxis:
    """What is stored of a new axis, in the shapes in which it is written."""

    name: str
    entries: pa.Array
    vectors: Mapping[str, VectorInput]
    missing: frozenset[str]
    """The vectors of strings in which an empty one stands for a missing value."""
    matrices: Mapping[MatrixKey, tuple[MatrixInput, MatrixInput]]
    """By the other axis and the name: a row for each new entry, and the transpose of that."""

    @property
    def paths(self) -> list[str]:
        """Where the axis and its properties are, one orientation of each matrix."""
        vectors = [layout.vector_path(self.name, name) for name in self.vectors]
        matrices = [layout.matrix_path(self.name, other, name) for other, name in self.matrices]
        return [layout.axis_path(self.name), *vectors, *matrices]


def new_axis(
    daf: VectorReader,
    axis: str,
    entries: Any,
    *,
    vectors: Mapping[str, Any],
    empty_is_missing: Collection[str],
    matrices: Mapping[MatrixKey, Any],
) -> NewAxis:
    """Check and convert what a new axis is to have; see `AxisWriter.add_axis`."""
    check_name(daf.location, "axis", axis)
    what = f"{daf.location}: the list of entries of axis {axis!r}"
    stored = inputs.strings_input(entries, what=what)
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
            f"vectors; there are {errors.known_names(vectors, none='none')}"
        )
    converted: dict[str, VectorInput] = {}
    given = GivenAxis(axis, len(stored), partial(check_labels, daf.location, axis, lambda: stored))
    for name, value in vectors.items():
        check_vector_name(daf.location, axis, name)
        converted[name] = given_vector(daf.location, given, name, value)
        if name in empty_is_missing:
            check_strings(daf.location, axis, name, converted[name])
    both = {}
    for (other, name), value in matrices.items():
        check_name(daf.location, "matrix", name)
        matrix = given_matrix(daf.location, given, daf.given_axis(other), name, value)
        both[other, name] = matrix, _transposed(matrix)
    return NewAxis(axis, stored, converted, frozenset(empty_is_missing), both)


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
    if isinstance(stored, SparseVectorInput | np.ndarray):
        raise errors.InvalidInputError(
            f"{location}: vector {name!r} of axis {axis!r} holds no strings, so no empty string "
            "can stand for a missing value; leave out empty_is_missing"
        )


def publish_axis(
    tree: Tree, changes: TreeTransaction, new: NewAxis, others: Sequence[str], *, replace: bool
) -> None:
    """Put the groups of an axis in place with what is in them, and its entries last.

    Parameters
    ----------
    others
        All other axes of the data set.
    replace
        Whether the array of the entries may be there already.
    """
    own = f"{layout.MATRICES}/{new.name}"
    groups = {
        layout.matrices_path(new.name, other): _matrices(new, other, is_flipped=False)
        for other in (new.name, *others)
    }
    if tree.kind(own) is None:
        changes.create_group(own)
        for group, members in groups.items():
            _prepare(changes, group, members)
        changes.publish(own, replace=False)
    for other in others:
        group = layout.matrices_path(other, new.name)
        groups[group] = _matrices(new, other, is_flipped=True)
    groups[layout.vectors_path(new.name)] = {
        name: partial(
            write_vector,
            value=value,
            attributes=attributes_of(Convention.EMPTY_IS_MISSING if name in new.missing else None),
        )
        for name, value in new.vectors.items()
    }
    for group, members in groups.items():
        if tree.kind(group) is None:
            _prepare(changes, group, members)
            changes.publish(group, replace=False)
            continue
        for name, write in members.items():
            if tree.kind(f"{group}/{name}") is None:
                write(changes, f"{group}/{name}")
                changes.publish(f"{group}/{name}", replace=False)
    path = layout.axis_path(new.name)
    changes.write_strings(path, new.entries, (len(new.entries),))
    changes.publish(path, replace=replace)


def copy_entries(source: Tree, target: WritableTree, axis: str) -> None:
    """Add an axis of one tree to another, without properties; the caller holds the lock of that."""
    array = layout.open_array(source, layout.axis_path(axis))
    if array is None:
        raise errors.CorruptDataError(f"{source.location}: axis {axis!r} is not stored as an array")
    new = NewAxis(axis, array.read_strings(), {}, frozenset(), {})
    others = sorted(set(target.children(layout.AXES)) - {axis})
    with target.transaction() as changes:
        publish_axis(target, changes, new, others, replace=False)


def _prepare(changes: TreeTransaction, group: str, members: Mapping[str, _Member]) -> None:
    changes.create_group(group)
    for name, write in members.items():
        write(changes, f"{group}/{name}")


def _matrices(new: NewAxis, other: str, *, is_flipped: bool) -> dict[str, _Member]:
    """Return what writes the matrices of a new axis with another, or their transposes."""
    return {
        name: partial(write_matrix, value=both[is_flipped])
        for (axis, name), both in new.matrices.items()
        if axis == other
    }


def _transposed(stored: MatrixInput) -> MatrixInput:
    if isinstance(stored, StringMatrixInput):
        places = np.arange(len(stored.strings)).reshape(stored.shape[::-1])
        strings = stored.strings.take(pa.array(places.reshape(-1, order="F")))
        return StringMatrixInput(stored.shape[::-1], strings)
    if isinstance(stored, SparseMatrixInput):
        # The parts of its rows, which are the columns of the transpose.
        rows: Any = sp.csc_array(
            (stored.values, stored.indices, stored.indptr), shape=stored.shape
        ).tocsr()
        rows.sort_indices()
        return SparseMatrixInput(stored.shape[::-1], rows.indptr, rows.indices, rows.data)
    return stored.T
