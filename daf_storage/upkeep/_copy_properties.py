"""Copy single properties between two data sets, whose axes may have more or fewer entries.

As in the reference implementation: entries that only the source has are left out, those that only
the destination has get the value ``empty``, and one of the two axes must have all entries of the
other.  Beyond it, entries may be in another order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.base import IfExists, Packing
from daf_storage.data import (
    DEFAULT_MEMORY_BYTES,
    REQUIRED,
    DafReader,
    DafWriter,
    Part,
    StoredMatrix,
    check_reader,
    check_string_dtype,
    check_writer,
    copy_array,
    matrix_property,
    numeric_type,
    ordered,
    values_without_entry,
    write_assembled,
)
from daf_storage.opening import MemoryDaf
from daf_storage.trees import TreeTransaction
from daf_storage.upkeep._alignment import (
    EntryAlignment,
    align,
    aligned_strings,
    aligned_vector,
    filled,
)

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

CopyIfExists: TypeAlias = Literal["error", "replace", "skip"]
"""What becomes of a property that the destination has: an error, or it is replaced, or it stays."""

_KNOWN: tuple[CopyIfExists, ...] = ("error", "replace", "skip")


def copy_scalar(
    source: DafReader,
    destination: DafWriter,
    name: str,
    *,
    rename: str | None = None,
    dtype: Any = None,
    default: Any = REQUIRED,
    if_exists: CopyIfExists = "error",
) -> None:
    """Copy a scalar from one data set to another.

    Parameters
    ----------
    rename
        Its name in the destination; by default the same.
    dtype
        As of `DafWriter.set_scalar`; by default its type stays.
    default
        What is stored where the source has no such scalar; nothing if it is None.
    if_exists
        Whether a scalar that is there is an error, replaced (``"replace"``) or kept (``"skip"``).

    Raises
    ------
    ScalarNotFoundError, ExistsError
        The source has none, or the destination has one.

    Examples
    --------
    >>> import daf_storage
    >>> one, other = daf_storage.MemoryDaf(), daf_storage.MemoryDaf()
    >>> one.set_scalar("organism", "human")
    >>> copy_scalar(one, other, "organism", rename="species")
    >>> other.get_scalar("species")
    'human'
    """
    how = _checked(source, destination, "copy_scalar", if_exists)
    target = rename or name
    if if_exists == "skip" and destination.has_scalar(target):
        return
    if not source.has_scalar(name) and default is None:
        return
    value = source.get_scalar(name, default=default)
    if dtype is None and source.has_scalar(name):
        kind = source.scalar_type(name)
        dtype = None if kind.is_string else kind.dtype
    destination.set_scalar(target, value, dtype=dtype, if_exists=how)


def copy_axis(
    source: DafReader,
    destination: DafWriter,
    axis: str,
    *,
    rename: str | None = None,
    default: Any = REQUIRED,
    if_exists: CopyIfExists = "error",
) -> None:
    """Copy the entries of an axis from one data set to another.

    Parameters
    ----------
    rename, if_exists
        As of `copy_scalar`.  Replacing an axis deletes all its vectors and matrices.
    default
        None if the source need not have such an axis.

    Raises
    ------
    AxisNotFoundError, ExistsError
        The source has none, or the destination has one.

    Examples
    --------
    >>> import daf_storage
    >>> one, other = daf_storage.MemoryDaf(), daf_storage.MemoryDaf()
    >>> one.add_axis("cell", ["A", "B"])
    >>> copy_axis(one, other, "cell")
    >>> other.axis_length("cell")
    2
    """
    how = _checked(source, destination, "copy_axis", if_exists)
    target = rename or axis
    if if_exists == "skip" and destination.has_axis(target):
        return
    if not source.has_axis(axis) and default is None:
        return
    destination.add_axis(target, source.get_pa_vector(axis, "name"), if_exists=how)


def copy_vector(  # noqa: PLR0913 - the choices of the reference
    source: DafReader,
    destination: DafWriter,
    axis: str,
    name: str,
    *,
    reaxis: str | None = None,
    rename: str | None = None,
    dtype: Any = None,
    default: Any = REQUIRED,
    empty: Any = None,
    if_exists: CopyIfExists = "error",
    packed: bool | Packing | None = None,
) -> None:
    """Copy a vector from one data set to another, by the entries of its axis.

    Entries may be in another order.  Those that the destination lacks are left out.

    Parameters
    ----------
    reaxis, rename
        The axis and the name in the destination; by default the same.
    dtype
        As of `DafWriter.set_vector`; by default its type stays.
    default
        As of `DafReader.get_np_vector`: what is copied if the source has no such vector; nothing
        if it is None.
    empty
        The value of entries that only the destination has.
    if_exists
        As of `copy_scalar`.
    packed
        As of `DafWriter.set_vector`.

    Raises
    ------
    InvalidInputError
        Only the destination has some entries, and there is no ``empty``; or either has entries
        that the other one lacks.
    AxisNotFoundError, VectorNotFoundError, ExistsError
        Something is not there, or the destination has it already.

    Examples
    --------
    >>> import daf_storage
    >>> one, other = daf_storage.MemoryDaf(), daf_storage.MemoryDaf()
    >>> one.add_axis("cell", ["A", "B"])
    >>> one.set_vector("cell", "age", [1, 2])
    >>> other.add_axis("cell", ["C", "B", "A"])
    >>> copy_vector(one, other, "cell", "age", empty=0)
    >>> other.get_np_vector("cell", "age").tolist()
    [0, 2, 1]
    """
    how = _checked(source, destination, "copy_vector", if_exists)
    target_axis, target = reaxis or axis, rename or name
    if if_exists == "skip" and destination.has_vector(target_axis, target):
        return
    along = align(source, axis, destination, target_axis)
    what = f"{source.location}: vector {name!r} of axis {axis!r}"
    along.check(empty, what=what, key="empty=")
    if not source.has_vector(axis, name):
        if default is None:
            return
        values: Any = np.asarray(source.get_np_vector(axis, name, default=default))
        kept = aligned_vector(values, along, empty, dtype, what=what)
        destination.set_vector(target_axis, target, kept, dtype=dtype, if_exists=how, packed=packed)
        return
    stored = source.open_vector(axis, name)
    if stored.info.storage_type.is_string:
        strings = aligned_strings(stored.read_strings(), along, empty, what=what)
        entries_of = stored.info.entries_of
        if entries_of is not None and not _are_entries(destination, entries_of, strings):
            entries_of = None
        destination.set_vector(
            target_axis,
            target,
            strings,
            dtype=dtype,
            empty_is_missing=stored.info.empty_is_missing,
            entries_of=entries_of,
            if_exists=how,
            packed=packed,
        )
        return
    if stored.info.is_sparse:
        parts = stored.sparse_parts()
        data = np.ones(parts.nzind.size, bool) if parts.nzval is None else parts.nzval
        indices = (parts.nzind.astype(np.int64) - 1, np.array([0, data.size]))
        values = sp.csr_array((data, *indices), shape=(1, stored.info.length))
    else:
        values = source.get_np_vector(axis, name)
    found = aligned_vector(values, along, empty, dtype, what=what)
    destination.set_vector(target_axis, target, found, dtype=dtype, if_exists=how, packed=packed)


def copy_matrix(  # noqa: PLR0913 - the choices of the reference
    source: DafReader,
    destination: DafWriter,
    rows_axis: str,
    columns_axis: str,
    name: str,
    *,
    rows_reaxis: str | None = None,
    columns_reaxis: str | None = None,
    rename: str | None = None,
    dtype: Any = None,
    default: Any = REQUIRED,
    empty: Any = None,
    relayout: bool = True,
    if_exists: CopyIfExists = "error",
    packed: bool | Packing | None = None,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
) -> None:
    """Copy a matrix from one data set to another, by the entries of its axes.

    It is taken from whichever orientation the source has.  Entries may be in another order, and
    those that the destination lacks are left out.

    Parameters
    ----------
    rows_reaxis, columns_reaxis, rename
        The axes and the name in the destination; by default the same.
    dtype
        As of `DafWriter.set_matrix`; by default its type stays.
    default
        As of `DafReader.get_np_matrix`: what is copied if the source has no such matrix; nothing
        if it is None.
    empty
        The value of elements of entries that only the destination has.  The copy is sparse if it is
        zero.
    relayout
        Whether the destination gets both orientations; without it, only this one.
    if_exists, packed
        As of `copy_vector`.
    memory_bytes
        How much memory numbers may take on their way, see `copy_all`.

    Raises
    ------
    InvalidInputError, AxisNotFoundError, MatrixNotFoundError, ExistsError
        As of `copy_vector`.

    Examples
    --------
    >>> import daf_storage
    >>> one, other = daf_storage.MemoryDaf(), daf_storage.MemoryDaf()
    >>> for daf, cells in ((one, ["A", "B"]), (other, ["B"])):
    ...     daf.add_axis("cell", cells)
    ...     daf.add_axis("gene", ["X", "Y"])
    >>> one.set_matrix("cell", "gene", "UMIs", [[1, 2], [3, 4]])
    >>> copy_matrix(one, other, "cell", "gene", "UMIs")
    >>> other.get_np_matrix("cell", "gene", "UMIs").tolist()
    [[3, 4]]
    """
    how = _checked(source, destination, "copy_matrix", if_exists)
    target_axes, target = (rows_reaxis or rows_axis, columns_reaxis or columns_axis), rename or name
    if if_exists == "skip" and destination.has_matrix(*target_axes, target, relayout=relayout):
        return
    rows = align(source, rows_axis, destination, target_axes[0])
    columns = align(source, columns_axis, destination, target_axes[1])
    what = f"{source.location}: matrix {name!r} of axes {rows_axis!r} and {columns_axis!r}"
    for along in (rows, columns):
        along.check(empty, what=what, key="empty=")
    if not source.has_matrix(rows_axis, columns_axis, name):
        if default is None:
            return
        values = source.get_np_matrix(rows_axis, columns_axis, name, default=default)
        given = MemoryDaf(name="!")
        for axis in {rows_axis, columns_axis}:
            given.add_axis(axis, source.get_pa_vector(axis, "name"))
        given.set_matrix(rows_axis, columns_axis, name, values, relayout=False)
        source = given
    stored = ordered(source.open_orientations(rows_axis, columns_axis, name)[0])
    is_square = target_axes[0] == target_axes[1]
    is_as_stored = (
        all(each is None for each in (dtype, rows.places, columns.places))
        and stored.info.rows_axis == rows_axis
        and is_square >= stored.info.is_row_major
    )
    writing: Any = {"if_exists": how, "packed": packed}
    both = relayout and not is_square
    follows: Any = "follows" if both else "goes"
    key, flipped = (*target_axes, target), (*target_axes[::-1], target)
    with destination.batch():
        with matrix_property(destination, *key, **writing, flipped=follows) as (path, changes):
            if is_as_stored:
                _write_as_stored(changes, path, stored, memory_bytes)
            else:
                part, is_sparse = _part_of(
                    stored, rows, columns, empty, dtype, what=what, memory_bytes=memory_bytes
                )
                write_assembled(changes, path, [part], is_sparse=is_sparse)
        has_both = rows_axis != columns_axis and source.has_matrix(
            columns_axis, rows_axis, name, relayout=False
        )
        if both and is_as_stored and has_both:
            other = ordered(source.open_matrix(columns_axis, rows_axis, name))
            with matrix_property(destination, *flipped, **writing, flipped="stays") as found:
                _write_as_stored(*found[::-1], other, memory_bytes)
        elif both:
            destination.relayout_matrix(*key, **writing, memory_bytes=memory_bytes)


def _write_as_stored(
    changes: TreeTransaction, path: str, stored: StoredMatrix, memory_bytes: int
) -> None:
    changes.annotate(path, stored.attributes)
    parts = stored.arrays()
    if "" not in parts:
        changes.create_group(path)
    for part, array in parts.items():
        copy_array(changes, f"{path}/{part}" if part else path, array, memory_bytes, lambda _: None)


def _part_of(
    stored: StoredMatrix,
    rows: EntryAlignment,
    columns: EntryAlignment,
    empty: Any,
    dtype: Any,
    *,
    what: str,
    memory_bytes: int,
) -> tuple[Part, bool]:
    """Return a matrix along the axes of the destination, and whether it is sparse there.

    It is if the source's is, or entries are missing, and the missing elements are zero.
    """
    is_embedded = rows.first_missing is not None or columns.first_missing is not None
    kind, fill = stored.info.storage_type, empty if is_embedded else 0
    if kind.is_string:
        check_string_dtype(dtype, what=what)
        if is_embedded and not isinstance(empty, str):
            raise errors.InvalidInputError(f"{what} has strings, and empty={empty!r} is none")
    else:
        kind = kind if dtype is None else numeric_type(dtype, what=what)
        lacking = columns if rows.first_missing is None else rows
        fill = filled((1,), kind.dtype, lacking, empty, what)[0]
    is_sparse = stored.info.is_sparse or is_embedded
    part = Part(
        stored,
        rows,
        columns.n_entries,
        kind,
        fill,
        is_transposed=stored.info.rows_axis != rows.axes[0] or stored.info.is_row_major,
        chosen=None if columns.places is None else columns.sources,
        memory_bytes=memory_bytes,
    )
    return part, is_sparse and (not is_embedded or bool(empty == 0))


def copy_tensor(  # noqa: PLR0913 - the choices of the reference
    source: DafReader,
    destination: DafWriter,
    main_axis: str,
    rows_axis: str,
    columns_axis: str,
    name: str,
    *,
    rows_reaxis: str | None = None,
    columns_reaxis: str | None = None,
    rename: str | None = None,
    dtype: Any = None,
    empty: Any = None,
    relayout: bool = True,
    if_exists: CopyIfExists = "error",
    packed: bool | Packing | None = None,
) -> None:
    """Copy a tensor: a matrix ``E_NAME`` for each entry ``E`` of the destination's main axis.

    Where the source has no such matrix, one of the value ``empty`` is stored, or none without it.
    The other parameters and the errors are those of `copy_matrix`.

    Examples
    --------
    >>> import daf_storage
    >>> one, other = daf_storage.MemoryDaf(), daf_storage.MemoryDaf()
    >>> for daf in (one, other):
    ...     daf.add_axis("cell", ["A"])
    ...     daf.add_axis("gene", ["X", "Y"])
    ...     daf.add_axis("batch", ["U", "V"])
    >>> one.set_matrix("cell", "gene", "U_count", [[1, 2]])
    >>> copy_tensor(one, other, "batch", "cell", "gene", "count", empty=0)
    >>> sorted(other.matrices_set("cell", "gene"))
    ['U_count', 'V_count']
    """
    _checked(source, destination, "copy_tensor", if_exists)
    for entry in destination.axis_entries(main_axis):
        copy_matrix(
            source,
            destination,
            rows_axis,
            columns_axis,
            f"{entry}_{name}",
            rows_reaxis=rows_reaxis,
            columns_reaxis=columns_reaxis,
            rename=None if rename is None else f"{entry}_{rename}",
            dtype=dtype,
            default=empty,
            empty=empty,
            relayout=relayout,
            if_exists=if_exists,
            packed=packed,
        )


def check_copy_if_exists(value: object) -> CopyIfExists:
    """Return the answer to what is there already, if it is one."""
    for known in _KNOWN:
        if value == known:
            return known
    raise errors.InvalidInputError(
        f"invalid if_exists: {value!r}; pass 'error', 'replace' or 'skip'"
    )


def _checked(source: object, destination: object, function: str, if_exists: object) -> IfExists:
    """Check what all functions take; return what the writer is to do where something is there."""
    check_reader(source, function)
    check_writer(destination, function)
    return "replace" if check_copy_if_exists(if_exists) == "replace" else "error"


def _are_entries(daf: DafReader, axis: str, strings: Any) -> bool:
    if not daf.has_axis(axis):
        return False
    return values_without_entry(iter([strings]), daf.get_pa_vector(axis, "name")) is None
