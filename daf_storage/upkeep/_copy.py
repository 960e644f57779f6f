"""Copy properties and whole data sets between any two formats, in blocks.

The layout is the same everywhere, so what is copied into an empty data set is copied array by
array: what is stored sparse stays sparse, and each orientation of a matrix is copied as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from daf_storage import errors
from daf_storage.base import (
    NAME_VECTOR,
    IfExists,
    OpenMode,
    Packing,
    ShowProgress,
    StorageType,
    check_choice,
    is_remote,
    progress_bar,
)
from daf_storage.data import (
    ENTRIES_OF,
    REQUIRED,
    Alignment,
    DafReader,
    DafWriter,
    Part,
    StoredMatrix,
    StoredVector,
    aligned_vector,
    block_spans,
    check_reader,
    check_string_dtype,
    check_writer,
    copy_stored,
    is_same_scalar,
    kept,
    layout,
    numeric_type,
    ordered,
    size_bytes,
    stored_numbers,
    stored_properties,
    values_without_entry,
    write_assembled,
    write_vector,
)
from daf_storage.opening import MemoryDaf, check_outside, new_data_set, open_daf, parse_path
from daf_storage.stores import shown_url
from daf_storage.trees import (
    StoredArray,
    TreeTransaction,
    ZarrVersion,
    has_equal_bytes,
    passing_over,
)
from daf_storage.upkeep._counts import CountedCopy, CountsAs


def stored_value(kind: StorageType, value: Any, *, what: str) -> Any:
    """Return what stands for missing entries in the type of a property."""
    if kind.is_string:
        if isinstance(value, str):
            return value
        raise errors.InvalidInputError(f"{what} has strings, and empty={value!r} is none")
    try:
        return stored_numbers(np.asarray(value), kind.dtype, what=what)[()]
    except errors.UnsupportedInputError as error:
        raise errors.InvalidInputError(
            f"{what} has elements of type {kind.dtype}, and empty={value!r} is none; pass dtype= "
            "as well"
        ) from error


CopyIfExists: TypeAlias = Literal["error", "replace", "skip"]
"""What becomes of a property that the destination has: an error, or it is replaced, or it stays."""

PropertyKey: TypeAlias = tuple[str, ...]
"""Axis and vector; or rows, columns and matrix."""

_VECTOR: Final = 2


@dataclass
class Copier:
    """Copies properties of one data set into another, each as it is stored if that is possible."""

    source: DafReader
    destination: DafWriter
    function: str
    """Which function was called, for messages."""
    if_exists: CopyIfExists
    packed: bool | Packing | None = None
    link: bool = False
    is_whole: bool = False
    """Whether everything is copied into an empty data set."""
    becomes_sparse: bool = True
    """Whether a dense matrix becomes sparse where the elements that it lacks are zero."""
    is_of_all: bool = False
    """Whether ``empty=`` has values by property."""
    add: Callable[[int], None] = lambda _: None
    """Called after each block with its bytes."""
    is_trial: bool = False
    """Whether nothing is written: it is only found out whether everything can be copied."""
    counts_as: CountsAs = None
    """Which matrices are copied as whole numbers, and as which."""
    _alignments: dict[tuple[str, str], Alignment] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_reader(self.source, self.function)
        check_writer(self.destination, self.function)
        check_choice(self.if_exists, CopyIfExists, "if_exists")
        self._if_exists: IfExists = "replace" if self.if_exists == "replace" else "error"
        self._writing: Any = {"if_exists": self._if_exists, "packed": self.packed}
        self.counted = CountedCopy(self.source, self.counts_as)

    def along(self, axis: str, target: str) -> Alignment:
        """Return where the entries of an axis are in one of the destination.

        Raises
        ------
        AxisNotFoundError
            One of the two lacks its axis.
        InvalidInputError
            Either has entries that the other one lacks.
        """
        if (axis, target) in self._alignments:
            return self._alignments[axis, target]
        source, destination = self.source, self.destination
        own = source.get_pa_vector(axis, "name")
        entries = destination.get_pa_vector(target, "name")
        along = self._alignments[axis, target] = Alignment.of(own, entries)
        if along.places is not None and along.missing.size and not along.is_complete:
            first = entries[int(along.missing[0])].as_py()
            lacking = own[int(np.argmax(along.places < 0))].as_py()
            raise errors.InvalidInputError(
                f"{destination.location}: axis {target!r} has the entry {first!r} and lacks "
                f"{lacking!r}, and axis {axis!r} of {source.location} has {lacking!r} and lacks "
                f"{first!r}; one of the two must have all entries of the other"
            )
        return along

    def _stays(self, what: str, *, exists: bool) -> bool:
        """Return whether what is there stays; raise if it should not be there."""
        if not exists or self.if_exists != "error":
            return exists and self.if_exists == "skip"
        destination = self.destination
        found = errors.property_exists(
            destination.location, what, is_append_only=destination.is_append_only
        )
        raise errors.ExistsError(f"{found}; or pass if_exists='skip' to keep what is there")

    def _copy(
        self, changes: TreeTransaction, path: str, stored: StoredVector | StoredMatrix
    ) -> None:
        copy_stored(changes, path, self.counted.stored(stored), link=self.link, add=self.add)

    def scalar(self, name: str, target: str, *, dtype: Any = None, default: Any = REQUIRED) -> None:
        """Copy a scalar; see `copy_scalar`."""
        source, destination = self.source, self.destination
        exists = destination.has_scalar(target)
        if self._stays(f"scalar {target!r}", exists=exists) or self.is_trial:
            return
        is_there = source.has_scalar(name)
        if not is_there and default is None:
            return
        value = self.counted.scalar(name, source.get_scalar(name, default=default))
        kind = source.scalar_type(name) if is_there else StorageType.STRING
        if dtype is None and not kind.is_string:
            dtype = kind.dtype
        destination.set_scalar(target, value, dtype=dtype, if_exists=self._if_exists)

    def axis(self, axis: str, target: str) -> None:
        """Copy the entries of an axis; see `copy_axis`."""
        if self._stays(f"axis {target!r}", exists=self.destination.has_axis(target)):
            return
        entries = self.source.get_pa_vector(axis, "name")
        self.destination.add_axis(target, entries, if_exists=self._if_exists)

    def property(
        self,
        key: PropertyKey,
        target: PropertyKey,
        *,
        dtype: Any = None,
        default: Any = REQUIRED,
        empty: Any = None,
        relayout: bool = True,
    ) -> None:
        """Copy a vector or a matrix; see `copy_vector` and `copy_matrix`."""
        destination = self.destination
        has_axes = [destination.has_axis(axis) for axis in target[:-1]]
        if all(has_axes):
            exists = (
                destination.has_vector(*target)
                if len(target) == _VECTOR
                else destination.has_matrix(*target, relayout=relayout or self.is_trial)
            )
            if self._stays(_named(target), exists=exists):
                return
        what = f"{self.source.location}: {_named(key)}"
        argument = f"empty={{{key!r}: VALUE}}" if self.is_of_all else "empty="
        for own, other, is_there in zip(key[:-1], target[:-1], has_axes, strict=True):
            if self.is_trial and not is_there:
                continue
            missing = self.along(own, other).missing
            if missing.size and empty is None:
                entry = str(destination.axis_entries(other, missing[:1])[0])
                raise errors.InvalidInputError(
                    f"{destination.location}: axis {other!r} has the entry {entry!r}, which axis "
                    f"{own!r} of {self.source.location} does not have, so {what} has no value for "
                    f"it; say which with {argument}"
                )
        source = None if self.is_trial else self._holder(key, default)
        if source is not None and len(target) == _VECTOR:
            self._vector(source, key, target, dtype, empty)
        elif source is not None:
            self._matrix(source, key, target, dtype, empty, relayout=relayout)

    def _holder(self, key: PropertyKey, default: Any) -> DafReader | None:
        """Return the source, or a data set with the default; None if there is nothing to copy."""
        source, is_vector = self.source, len(key) == _VECTOR
        exists = source.has_vector(*key) if is_vector else source.has_matrix(*key)
        if exists or default is REQUIRED or default is None:
            return None if default is None and not exists else source
        holder = MemoryDaf(name="!")
        for axis in {*key[:-1]}:
            holder.add_axis(axis, source.get_pa_vector(axis, "name"))
        if is_vector:
            holder.set_vector(key[0], key[1], source.get_np_vector(*key, default=default))
        else:
            values = source.get_np_matrix(*key, default=default)
            holder.set_matrix(key[0], key[1], key[2], values, relayout=False)
        return holder

    def _vector(
        self, source: DafReader, key: PropertyKey, target: PropertyKey, dtype: Any, empty: Any
    ) -> None:
        along = self.along(key[0], target[0])
        stored = source.open_vector(*key)
        attributes = self._attributes(stored, along)
        with self.destination.new_vector(*target, **self._writing) as (path, changes):
            if dtype is None and along.places is None and attributes == stored.attributes:
                self._copy(changes, path, stored)
                return
            what = f"{source.location}: {_named(key)}"
            kind = _kind(stored.info.storage_type, dtype, what=what)
            fill = stored_value(kind, empty, what=what) if along.missing.size else None
            found = aligned_vector(stored.values(), along, fill, dtype, what=what)
            write_vector(changes, path, found, attributes)
        self.add(size_bytes(stored.arrays().values()))

    def _attributes(self, stored: StoredVector, along: Alignment) -> dict[str, str]:
        """Return what is stored beside the copy: not an axis that has not all of its values."""
        axis = stored.info.entries_of
        if axis is None or self.is_whole:
            return stored.attributes
        is_known = self.destination.has_axis(axis) and (
            values_without_entry(
                [aligned_vector(stored.values(), along, what="")],
                self.destination.get_pa_vector(axis, "name"),
            )
            is None
        )
        return {k: v for k, v in stored.attributes.items() if is_known or k != ENTRIES_OF}

    def _matrix(
        self,
        source: DafReader,
        key: PropertyKey,
        target: PropertyKey,
        dtype: Any,
        empty: Any,
        *,
        relayout: bool,
    ) -> None:
        destination = self.destination
        rows, columns = self.along(key[0], target[0]), self.along(key[1], target[1])
        stored = ordered(source.open_orientations(*key)[0])
        is_square = target[0] == target[1]
        is_as_stored = (
            all(each is None for each in (dtype, rows.places, columns.places))
            and stored.info.rows_axis == key[0]
            and is_square >= stored.info.is_row_major
        )
        lacking = rows if rows.missing.size else columns
        both = relayout and not is_square
        follows: Any = "follows" if both else "goes"
        with destination.batch():
            with destination.new_matrix(*target, **self._writing, flipped=follows) as new:
                path, changes = new
                if is_as_stored:
                    self._copy(changes, path, stored)
                else:
                    what = f"{source.location}: {_named(key)}"
                    kind = _kind(stored.info.storage_type, dtype, what=what)
                    fill = stored_value(kind, empty, what=what) if lacking.missing.size else 0
                    part = Part(
                        stored,
                        rows,
                        columns.n_entries,
                        kind,
                        fill,
                        is_transposed=stored.info.rows_axis != key[0] or stored.info.is_row_major,
                        chosen=None if columns.places is None else columns.sources,
                    )
                    is_sparse = stored.info.is_sparse  # or made so by missing elements
                    if lacking.missing.size:
                        is_sparse = (is_sparse or self.becomes_sparse) and bool(empty == 0)
                    is_sparse = is_sparse and not kind.is_string
                    write_assembled(changes, path, [part], is_sparse=is_sparse, add=self.add)
            if not both:
                return
            is_copied = is_as_stored and key[0] != key[1]
            flipped = source.find_matrix(key[1], key[0], key[2]) if is_copied else None
            if flipped is None:
                destination.relayout_matrix(*target, **self._writing, progress=self.add)
                return
            pair = (target[1], target[0], target[2])
            with destination.new_matrix(*pair, **self._writing, flipped="stays") as (path, changes):
                self._copy(changes, path, ordered(flipped))


def _named(key: PropertyKey) -> str:
    """Return a vector or a matrix in words."""
    group = layout.VECTORS if len(key) == _VECTOR else layout.MATRICES
    return layout.in_words("/".join([group, *key]))


def _kind(stored: StorageType, dtype: Any, *, what: str) -> StorageType:
    """Return the type of a copy."""
    if stored.is_string:
        check_string_dtype(dtype, what=what)
        return stored
    return stored if dtype is None else numeric_type(dtype, what=what)


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
    copier = Copier(source, destination, "copy_scalar", if_exists)
    copier.scalar(name, rename or name, dtype=dtype, default=default)


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
    copier = Copier(source, destination, "copy_axis", if_exists)
    if source.has_axis(axis) or default is not None:
        copier.axis(axis, rename or axis)


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
    copier = Copier(source, destination, "copy_vector", if_exists, packed=packed)
    target = (reaxis or axis, rename or name)
    copier.property((axis, name), target, dtype=dtype, default=default, empty=empty)


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
    copier = Copier(source, destination, "copy_matrix", if_exists, packed=packed)
    copier.property(
        (rows_axis, columns_axis, name),
        (rows_reaxis or rows_axis, columns_reaxis or columns_axis, rename or name),
        dtype=dtype,
        default=default,
        empty=empty,
        relayout=relayout,
    )


def copy_all(  # noqa: PLR0913 - the choices of the reference
    source: DafReader,
    destination: DafWriter,
    *,
    empty: Mapping[Any, Any] | None = None,
    dtypes: Mapping[Any, Any] | None = None,
    if_exists: CopyIfExists = "error",
    packed: bool | Packing | None = None,
    link: bool = False,
    progress: ShowProgress = "auto",
) -> None:
    """Copy everything into another data set, of whatever format.

    Into an empty one it is copied as it is stored, and compared.  Into one that has something,
    properties are copied by the entries of their axes, whose order may differ: axes that are
    missing there are added, others stay as they are.  One of the two must have all entries of the
    other.  Unless everything can be copied, nothing is.

    Parameters
    ----------
    empty
        The values of entries that only the destination has, by property: ``(axis, vector)``,
        or ``(rows, columns, matrix)`` with the axes in either order.
    dtypes
        The numpy dtypes to convert to, by property: as ``empty``, or the name of a scalar.
    if_exists
        What becomes of properties that are there: ``"error"``, ``"replace"``, or ``"skip"``.
    packed
        Whether to cut arrays into small chunks and compress them; by default as the destination
        was opened.
    link
        From one directory to another: whether the two share the files whose bytes are the same,
        by hard links.  That costs no space; no writer here changes a file in place, but another
        program might.  Without it they are copied, sharing blocks where the file system can.
    progress
        Whether to show a bar on stderr.

    Raises
    ------
    ExistsError
        The destination has a property already.
    InvalidInputError
        Entries have no values, or either axis has entries that the other one lacks.
    CorruptDataError
        Something of the source cannot be read, or is not the same when it is read back.

    Examples
    --------
    >>> import daf_storage
    >>> one, other = daf_storage.MemoryDaf(), daf_storage.MemoryDaf()
    >>> one.add_axis("cell", ["A", "B"])
    >>> copy_all(one, other)
    >>> other.axis_entries("cell").tolist()
    ['A', 'B']
    >>> larger = daf_storage.MemoryDaf()
    >>> larger.add_axis("cell", ["C", "B", "A"])
    >>> one.set_vector("cell", "age", [1, 2])
    >>> copy_all(one, larger, empty={("cell", "age"): 0})
    >>> larger.get_np_vector("cell", "age").tolist()
    [0, 2, 1]
    """
    how: Any = {"packed": packed, "link": link, "is_of_all": True}
    copier = Copier(source, destination, "copy_all", if_exists, **how)
    copier.is_whole = not (destination.axes_set() or destination.scalars_set() or empty or dtypes)
    for argument, given in (("empty", empty or {}), ("dtypes", dtypes or {})):
        for key in given:
            layout.check_key(key, f"{argument}=")
    _copy_everything(copier, empty or {}, dtypes or {}, progress)


def _copy_everything(
    copier: Copier, empty: Mapping[Any, Any], dtypes: Mapping[Any, Any], progress: ShowProgress
) -> None:
    """Copy all properties; nothing is written if one cannot be copied; a whole copy is compared."""
    total = size_bytes(
        array for _, arrays in _stored(copier.source).values() for array in arrays.values()
    )
    with progress_bar("copy", (1 + copier.is_whole) * total, show=progress) as bar, passing_over():
        copier.add = bar.add
        copier.is_trial = True
        _copy_properties(copier, empty, dtypes)
        copier.is_trial = False
        with copier.destination.batch():
            _copy_properties(copier, empty, dtypes)
            _copy_kept(copier)
        for path in _differences(copier) if copier.is_whole else ():
            raise errors.CorruptDataError(
                f"{copier.destination.location}: {path} is not the same as in "
                f"{copier.source.location}; the copy failed, look at the disk"
            )


def _copy_properties(copier: Copier, empty: Mapping[Any, Any], dtypes: Mapping[Any, Any]) -> None:
    """Copy scalars, axes, vectors and matrices, or find out whether that is possible."""
    source = copier.source
    for name in sorted(source.scalars_set()):
        copier.scalar(name, name, dtype=dtypes.get(name))
    if not copier.is_trial:
        for axis in sorted(source.axes_set() - copier.destination.axes_set()):
            copier.axis(axis, axis)
    keys = dict.fromkeys(tuple(path.split("/")[1:]) for path, _ in stored_properties(source))
    for key in keys:
        *axes, name = key
        flipped = (*reversed(axes), name)
        if flipped != key and flipped in keys and axes[0] > axes[1]:
            continue  # it is the transpose of one before
        values: Any = {"empty": empty.get(key, empty.get(flipped))}
        values["dtype"] = dtypes.get(key, dtypes.get(flipped))
        copier.property(key, key, relayout=flipped in keys, **values)


def convert(  # noqa: PLR0913 - how a copy is written
    source: str | Path,
    destination: str | Path,
    *,
    if_exists: IfExists = "error",
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
    counts_as: CountsAs = None,
    link: bool = False,
    progress: ShowProgress = "auto",
) -> None:
    """Copy a data set to another path, in the format that the path asks for.

    The source may be a URL: that downloads it.

    It appears there when it is complete and has been compared with the source, or not at all.

    Parameters
    ----------
    if_exists
        What becomes of a data set that is at the destination:
        ``"error"`` leaves it, ``"replace"`` replaces it.
    zarr_format, packed
        How to write it, see `open_daf`.
    counts_as
        The type in which the whole numbers of the main matrix (the scalar ``X_is`` names it, else
        ``X``) are stored, ``"uint8"``, ``"uint16"`` or ``"uint32"``; or the types of matrices by
        their names.  What was imported from an AnnData is exported in the type that it had.
    link
        From one directory to another: whether to share files, see `copy_all`.
    progress
        Whether to show a bar on stderr.

    Raises
    ------
    ExistsError
        There is something at the destination and ``if_exists`` is ``"error"``.
    InvalidInputError
        The destination is the source, or within its directory.
    UnsupportedInputError
        A value of a matrix of ``counts_as`` would change; nothing is left at the destination.

    Examples
    --------
    >>> import tempfile, daf_storage
    >>> folder = tempfile.mkdtemp()
    >>> daf_storage.ZarrDaf(f"{folder}/x.daf.zarr", "w").set_scalar("n", 1)
    >>> convert(f"{folder}/x.daf.zarr", f"{folder}/x.daf.zarr.zip")
    >>> daf_storage.open_daf(f"{folder}/x.daf.zarr.zip").get_scalar("n")
    1
    """
    style: dict[str, Any] = {"zarr_format": zarr_format, "packed": packed}
    with open_daf(source, _source_mode(source, destination)) as daf:
        check_outside(daf, destination)
        with new_data_set(destination, if_exists=if_exists, **style) as new:
            how: Any = {"link": link, "is_whole": True, "counts_as": counts_as}
            _copy_everything(Copier(daf, new, "convert", "error", **how), {}, {}, progress)


def _source_mode(source: str | Path, destination: str | Path) -> OpenMode:
    """Return how to open the source: whoever opens a file first decides whether it is written."""
    if is_remote(destination):
        raise errors.ReadOnlyError(
            f"{shown_url(str(destination))}: a server is read-only; convert locally and upload that"
        )
    target = parse_path(destination)
    if is_remote(source):
        return "r"
    origin = parse_path(source, is_read=True)
    if origin.container != target.container:
        return "r"
    if origin.group == target.group:
        raise errors.InvalidInputError(
            f"{origin.given}: the source and the destination are the same data set"
        )
    return "r+"


def _copy_kept(copier: Copier) -> None:
    """Copy the parts of an AnnData whose axes are the same; a warning names the others."""
    destination, left = copier.destination, []
    for path, array in kept.arrays(copier.source.tree).items():
        axes = path.split("/")[2:-1]
        is_same = all(copier.along(axis, axis).places is None for axis in axes)
        if destination.tree.kind(path) is not None or not is_same:
            left.append(path)
            continue
        kept.keep(destination.writable_tree, path, array.read())
        copier.add(size_bytes([array]))
    if left:
        errors.warn(
            f"{destination.location}: {', '.join(left)} of {copier.source.location} were not "
            "copied: their axes have other entries, or there are such parts already",
            errors.DafWarning,
        )


def _differences(copier: Copier) -> Iterator[str]:
    """Read both, and yield what is not the same."""
    source, copy, counted = copier.source, copier.destination, copier.counted
    for name in sorted(source.scalars_set() | copy.scalars_set()):
        value, copied = (daf.get_scalar(name, default=None) for daf in (source, copy))
        if not is_same_scalar(counted.scalar(name, value), copied):
            yield layout.scalar_path(name)
    ours, theirs = _stored(source, counted), _stored(copy)
    for path in sorted(ours.keys() | theirs.keys()):
        attributes, arrays = ours.get(path, _NOTHING)
        others, copies = theirs.get(path, _NOTHING)
        if (attributes, arrays.keys()) != (others, copies.keys()) or not all(
            _are_equal(arrays[part], copies[part], copier) for part in arrays
        ):
            yield path


def _are_equal(one: StoredArray, other: StoredArray, copier: Copier) -> bool:
    expected = (one.info.shape, one.info.storage_type)
    if expected != (other.info.shape, other.info.storage_type):
        return False
    if one.info.storage_type.is_string:
        copier.add(size_bytes([one]))
        return bool(one.read_strings().equals(other.read_strings()))
    for span in block_spans(one):
        block = one.read_rows(span)
        if not has_equal_bytes(block, other.read_rows(span)):
            return False
        copier.add(block.nbytes)
    return True


_Stored: TypeAlias = tuple[Mapping[str, str], dict[str, StoredArray]]
"""The attributes of a property, and its arrays by their names below it."""
_NOTHING: Final[_Stored] = ({}, {})


def _stored(daf: DafReader, counted: CountedCopy | None = None) -> dict[str, _Stored]:
    """Return each axis, vector, matrix and part of an AnnData by its path."""
    found: dict[str, _Stored] = {
        layout.axis_path(axis): ({}, {"": daf.string_array(axis, NAME_VECTOR)})
        for axis in daf.axes_set()
    }
    for path, each in stored_properties(daf):
        stored = ordered(each) if isinstance(each, StoredMatrix) else each
        stored = stored if counted is None else counted.stored(stored)
        found[path] = stored.attributes, stored.arrays()
    return found | {path: ({}, {"": array}) for path, array in kept.arrays(daf.tree).items()}
