"""Copy all of a data set into one that has something already."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from daf_storage import errors
from daf_storage.base import Packing
from daf_storage.data import (
    DEFAULT_MEMORY_BYTES,
    DafReader,
    DafWriter,
    StoredMatrix,
    StoredVector,
    size_bytes,
)
from daf_storage.upkeep._alignment import EntryAlignment, align
from daf_storage.upkeep._copy_properties import (
    CopyIfExists,
    copy_axis,
    copy_matrix,
    copy_scalar,
    copy_vector,
)

PropertyKey: TypeAlias = str | tuple[str, ...]
"""A scalar; axis and vector; rows, columns and matrix; main axis, rows, columns and tensor."""

_VECTOR, _TENSOR = 2, 4


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """What `copy_all` is to do beside copying what is there."""

    empty: Mapping[Any, Any] = field(default_factory=dict)
    """The values of entries that only the destination has, by property."""
    dtypes: Mapping[Any, Any] = field(default_factory=dict)
    """The types of the copies, by property."""
    if_exists: CopyIfExists = "error"
    """What becomes of properties that are there."""
    packed: bool | Packing | None = None
    """Whether to pack, and how."""
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    """What matrices may take on their way."""

    @property
    def is_plain(self) -> bool:
        """Whether nothing was asked for."""
        return not self.empty and not self.dtypes and self.packed is None


def copy_into(
    source: DafReader, destination: DafWriter, options: CopyOptions, add: Callable[[int], None]
) -> None:
    """Copy everything; nothing is written if something cannot be copied.

    Parameters
    ----------
    add
        Called after each property with its bytes.
    """
    empty = _expanded(options.empty, source, destination, "empty")
    dtypes = _expanded(options.dtypes, source, destination, "dtypes")
    _check_all(source, destination, empty, options)
    how: Any = {"if_exists": options.if_exists}
    for name in sorted(source.scalars_set()):
        copy_scalar(source, destination, name, dtype=dtypes.get(name), **how)
    for axis in sorted(source.axes_set() - destination.axes_set()):
        copy_axis(source, destination, axis)
    how["packed"] = options.packed
    for axis, name in _vectors(source):
        key = (axis, name)
        values: Any = {"empty": empty.get(key), "dtype": dtypes.get(key)}
        copy_vector(source, destination, axis, name, **values, **how)
        add(_bytes_of(source.open_vector(axis, name)))
    for matrix in _matrices(source):
        values = {"empty": _either(empty, matrix), "dtype": _either(dtypes, matrix)}
        rows, columns, name = matrix
        both = source.has_matrix(columns, rows, name, relayout=False)
        values |= {"relayout": both, "memory_bytes": options.memory_bytes}
        copy_matrix(source, destination, rows, columns, name, **values, **how)
        add(_bytes_of(source.open_matrix(*matrix)))
    _make_tensors(source, destination, options, dtypes)


def size_of(source: DafReader) -> int:
    """Return how many bytes of properties there are to be copied."""
    vectors = sum(_bytes_of(source.open_vector(*key)) for key in _vectors(source))
    return vectors + sum(_bytes_of(source.open_matrix(*key)) for key in _matrices(source))


def _bytes_of(stored: StoredVector | StoredMatrix) -> int:
    return sum(size_bytes(array) for array in stored.arrays().values())


def _check_all(
    source: DafReader,
    destination: DafWriter,
    empty: Mapping[PropertyKey, Any],
    options: CopyOptions,
) -> None:
    """Raise if a property cannot be copied: it is there, or has no values for some entries."""
    along = {
        axis: align(source, axis, destination, axis)
        for axis in sorted(source.axes_set() & destination.axes_set())
    }
    for name in sorted(source.scalars_set() & destination.scalars_set()):
        _is_left(destination, f"scalar {name!r}", options)
    for axis, name in _vectors(source):
        what = f"vector {name!r} of axis {axis!r}"
        is_there = axis in along and destination.has_vector(axis, name)
        if axis in along and not (is_there and _is_left(destination, what, options)):
            _check(along[axis], empty.get((axis, name)), what, (axis, name))
    for rows, columns, name in _matrices(source):
        what = f"matrix {name!r} of axes {rows!r} and {columns!r}"
        has_axes = rows in along and columns in along
        is_there = has_axes and destination.has_matrix(rows, columns, name)
        if is_there and _is_left(destination, what, options):
            continue
        matrix = (rows, columns, name)
        for axis in sorted({rows, columns} & along.keys()):
            _check(along[axis], _either(empty, matrix), what, matrix)


def _is_left(destination: DafWriter, what: str, options: CopyOptions) -> bool:
    """Return whether a property that is there stays; raise if it should not be there."""
    if options.if_exists == "error":
        raise _exists(destination, what)
    return options.if_exists == "skip"


def _check(along: EntryAlignment, empty: Any, what: str, key: PropertyKey) -> None:
    along.check(empty, what=what, key=f"empty={{{key!r}: VALUE}}")


def _exists(destination: DafWriter, what: str) -> errors.ExistsError:
    found = errors.property_exists(
        destination.location, what, is_append_only=destination.is_append_only
    )
    return errors.ExistsError(f"{found}; or pass if_exists='skip' to keep what is there")


def _make_tensors(
    source: DafReader,
    destination: DafWriter,
    options: CopyOptions,
    dtypes: Mapping[PropertyKey, Any],
) -> None:
    """Store matrices of one value for entries of a tensor's axis that have none."""
    for key, value in options.empty.items():
        if not isinstance(key, tuple) or len(key) != _TENSOR:
            continue
        main, rows, columns, name = key
        for entry in destination.axis_entries(main):
            matrix = (rows, columns, f"{entry}_{name}")
            if not destination.has_matrix(*matrix):
                dtype = _either(dtypes, matrix)
                copy_matrix(source, destination, *matrix, default=value, empty=value, dtype=dtype)


def _expanded(
    given: Mapping[Any, Any], source: DafReader, destination: DafReader, argument: str
) -> dict[PropertyKey, Any]:
    """Return values by scalar, vector and matrix, with the matrices of tensors one by one."""
    found: dict[PropertyKey, Any] = {}
    for key, value in given.items():
        parts: Any = (key, key) if isinstance(key, str) else key
        is_tuple = isinstance(parts, tuple) and _VECTOR <= len(parts) <= _TENSOR
        if not is_tuple or not all(isinstance(part, str) for part in parts):
            raise errors.InvalidInputError(
                f"{argument}= has the key {key!r}; keys are a scalar, (axis, vector), "
                "(rows, columns, matrix) or (main axis, rows, columns, tensor)"
            )
        if isinstance(key, str) or len(key) != _TENSOR:
            found.setdefault(key, value)
            continue
        main, rows, columns, name = key
        for daf in (source, destination):
            for entry in daf.axis_entries(main) if daf.has_axis(main) else ():
                found[rows, columns, f"{entry}_{name}"] = value
    return found


def _either(values: Mapping[PropertyKey, Any], key: tuple[str, str, str]) -> Any:
    """Return the value of a matrix, whose axes may be in either order."""
    rows, columns, name = key
    return values.get(key, values.get((columns, rows, name)))


def _vectors(daf: DafReader) -> Iterator[tuple[str, str]]:
    for axis in sorted(daf.axes_set()):
        for name in sorted(daf.vectors_set(axis)):
            yield axis, name


def _matrices(daf: DafReader) -> Iterator[tuple[str, str, str]]:
    """Yield each matrix once, by an orientation that is stored."""
    axes = sorted(daf.axes_set())
    for rows, columns in itertools.product(axes, axes):
        for name in sorted(daf.matrices_set(rows, columns, relayout=False)):
            if rows <= columns or not daf.has_matrix(columns, rows, name, relayout=False):
                yield rows, columns, name
