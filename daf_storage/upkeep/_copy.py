"""Copy whole data sets between any two formats, in blocks.

The layout is the same everywhere, so a copy is made array by array: what is stored sparse stays
sparse, and each orientation of a matrix is copied as it is.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from daf_storage import errors
from daf_storage.base import IfExists, OpenMode, Packing, ShowProgress, progress_bar
from daf_storage.data import (
    DEFAULT_MEMORY_BYTES,
    CountsAs,
    DafReader,
    DafWriter,
    StoredMatrix,
    StoredVector,
    block_spans,
    check_memory,
    check_reader,
    check_writer,
    copy_array,
    kept,
    layout,
    new_property,
    ordered,
    size_bytes,
)
from daf_storage.opening import check_outside, new_data_set, open_daf, parse_path, read_path
from daf_storage.stores import is_remote, shown_url
from daf_storage.trees import (
    StoredArray,
    TreeTransaction,
    ZarrVersion,
    has_equal_bytes,
    passing_over,
)
from daf_storage.upkeep._alignment import align
from daf_storage.upkeep._copy_into import CopyOptions, copy_into, size_of
from daf_storage.upkeep._copy_properties import CopyIfExists, check_copy_if_exists
from daf_storage.upkeep._counted import CountedCopy, CountedMatrix


@dataclass(frozen=True, slots=True)
class CopySettings:
    """How arrays are copied."""

    link: bool = False
    """Whether files are shared that are the same."""
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    """What numbers may take on their way."""


@dataclass(frozen=True, slots=True)
class _KeptImage:
    """A part of an AnnData, which is copied like a vector."""

    image: StoredArray
    """Its bytes."""

    @property
    def attributes(self) -> dict[str, str]:
        """Nothing is stored beside them."""
        return {}

    def arrays(self) -> dict[str, StoredArray]:
        """Return the one stored array."""
        return {"": self.image}


Stored: TypeAlias = StoredVector | StoredMatrix | CountedMatrix | _KeptImage


def copy_all(  # noqa: PLR0913 - the choices of the reference
    source: DafReader,
    destination: DafWriter,
    *,
    empty: Mapping[Any, Any] | None = None,
    dtypes: Mapping[Any, Any] | None = None,
    if_exists: CopyIfExists = "error",
    packed: bool | Packing | None = None,
    link: bool = False,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
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
        ``(rows, columns, matrix)`` with the axes in either order, or ``(main axis, rows, columns,
        tensor)``, which also makes the matrices that the source lacks.
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
    memory_bytes
        How much memory numbers may take on their way, 16 MiB or more; of an array that is cut into
        chunks, a row of these at least.  Vectors, and strings, are held besides; and matrices that
        become sparse, or dense, or of another type, in one that has something.
    progress
        Whether to show a bar on stderr.

    Raises
    ------
    ExistsError
        The destination has a property already.
    InvalidInputError
        Entries have no values, or either axis has entries that the other one lacks; or
        ``memory_bytes`` is too little.
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
    check_reader(source, "copy_all")
    check_writer(destination, "copy_all")
    how = CopySettings(link=link, memory_bytes=check_memory(memory_bytes))
    answer = check_copy_if_exists(if_exists)
    options = CopyOptions(empty or {}, dtypes or {}, answer, packed, memory_bytes)
    if destination.axes_set() or destination.scalars_set() or not options.is_plain:
        bar_of_all = progress_bar("copy", size_of(source), show=progress)
        with bar_of_all as bar, destination.batch():
            copy_into(source, destination, options, bar.add)
            _copy_kept(source, destination, memory_bytes)
        return
    _copy_whole(source, destination, CountedCopy(source, None), how, progress=progress)


def _copy_whole(
    source: DafReader,
    destination: DafWriter,
    counted: CountedCopy,
    how: CopySettings,
    *,
    progress: ShowProgress,
) -> None:
    """Copy everything into an empty data set, and compare."""
    properties = _properties(source, counted)
    total = 2 * sum(size_bytes(a) for _, one in properties for a in one.arrays().values())
    with progress_bar("copy", total, show=progress) as bar, passing_over():
        with destination.batch():
            _copy(source, destination, counted, how, bar.add)
        _compare(source, destination, counted, how, bar.add)


def convert(  # noqa: PLR0913 - how a copy is written
    source: str | Path,
    destination: str | Path,
    *,
    if_exists: IfExists = "error",
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
    counts_as: CountsAs = None,
    link: bool = False,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
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
    memory_bytes
        How much memory numbers may take on their way, see `copy_all`.
    progress
        Whether to show a bar on stderr.

    Raises
    ------
    ExistsError
        There is something at the destination and ``if_exists`` is ``"error"``.
    InvalidInputError
        ``memory_bytes`` is too little; or the destination is the source, or within its directory.
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
    how = CopySettings(link=link, memory_bytes=check_memory(memory_bytes))
    style: dict[str, Any] = {"zarr_format": zarr_format, "packed": packed}
    with open_daf(source, _source_mode(source, destination)) as daf:
        check_outside(daf, destination)
        with new_data_set(destination, if_exists=if_exists, **style) as new:
            _copy_whole(daf, new, CountedCopy(daf, counts_as), how, progress=progress)


def _source_mode(source: str | Path, destination: str | Path) -> OpenMode:
    """Return how to open the source: whoever opens a file first decides whether it is written."""
    if is_remote(destination):
        raise errors.ReadOnlyError(
            f"{shown_url(str(destination))}: data sets on a server are read-only; convert to a "
            "local path and upload that"
        )
    target = parse_path(destination)
    if is_remote(source):
        return "r"
    origin = read_path(source)
    if origin.container != target.container:
        return "r"
    if origin.group == target.group:
        raise errors.InvalidInputError(
            f"{origin.given}: the source and the destination are the same data set"
        )
    return "r+"


def _copy(
    source: DafReader,
    destination: DafWriter,
    counted: CountedCopy,
    how: CopySettings,
    add: Callable[[int], None],
) -> None:
    copy_scalars(source, destination, counted.scalar)
    for axis in sorted(source.axes_set()):
        destination.add_axis(axis, source.get_pa_vector(axis, "name"))
    for path, stored in _properties(source, counted):
        copy_property(destination, path, stored, how, add)


def copy_scalars(
    source: DafReader,
    destination: DafWriter,
    changed: Callable[[str, Any], Any] = lambda _, value: value,
) -> None:
    """Copy all scalars in their types; ``changed`` returns what becomes of strings."""
    for name in sorted(source.scalars_set()):
        array = layout.open_array(source.tree, layout.scalar_path(name))
        if array is None or array.info.size != 1:
            raise errors.CorruptDataError(
                f"{source.location}: scalar {name!r} is not stored as one element"
            )
        is_string = array.info.storage_type.is_string
        values = array.read_strings() if is_string else array.read().reshape(1)
        if is_string and (text := changed(name, values[0].as_py())) != values[0].as_py():
            values = pa.array([text])
        with new_property(destination, layout.scalar_path(name)) as changes:
            changes.write_scalar(layout.scalar_path(name), values)


def copy_property(
    destination: DafWriter, path: str, stored: Stored, how: CopySettings, add: Callable[[int], None]
) -> None:
    """Copy a vector, a matrix in one layout, or a part of an AnnData, array by array."""
    parts = stored.arrays()
    with new_property(destination, path) as changes:
        if path.startswith(f"{kept.GROUP}/"):
            kept.make_groups(destination.tree, changes, path)
        changes.annotate(path, stored.attributes)
        if "" not in parts:
            changes.create_group(path)
        for part, array in parts.items():
            place = f"{path}/{part}" if part else path
            if _adopt(changes, place, array, link=how.link):
                add(size_bytes(array))
            else:
                copy_array(changes, place, array, how.memory_bytes, add)


def _copy_kept(source: DafReader, destination: DafWriter, memory_bytes: int) -> None:
    """Copy the parts of an AnnData whose axes are the same; a warning names the others."""
    left: list[str] = []
    for path, array in kept.arrays(source.tree).items():
        axes = path.split("/")[2:-1]
        is_same = all(align(source, axis, destination, axis).places is None for axis in axes)
        if destination.tree.kind(path) is not None or not is_same:
            left.append(path)
            continue
        with new_property(destination, path) as changes:
            kept.make_groups(destination.tree, changes, path)
            copy_array(changes, path, array, memory_bytes, lambda _: None)
    if left:
        warnings.warn(
            f"{destination.location}: {', '.join(left)} of {source.location} were not copied: "
            "their axes have other entries, or there are such parts already",
            errors.DafWarning,
            stacklevel=3,
        )


def _adopt(changes: TreeTransaction, path: str, array: StoredArray, *, link: bool) -> bool:
    """Copy an array whose file has the same bytes in both formats, without reading it."""
    descriptor = array.open_file()
    if descriptor is None:
        return False
    try:
        shape, kind = array.info.shape, array.info.storage_type
        return changes.adopt_array(path, shape, kind, descriptor, link=link)
    finally:
        os.close(descriptor)


def _compare(
    source: DafReader,
    copy: DafReader,
    counted: CountedCopy,
    how: CopySettings,
    add: Callable[[int], None],
) -> None:
    """Read both and raise at the first difference."""
    same = source.scalars_set() == copy.scalars_set() and source.axes_set() == copy.axes_set()
    scalars = source.scalars_set() if same else set()
    same = same and all(
        _is_same(counted.scalar(n, source.get_scalar(n)), copy.get_scalar(n)) for n in scalars
    )
    axes = source.axes_set() if same else set()
    same = same and all(
        source.get_pa_vector(a, "name").equals(copy.get_pa_vector(a, "name")) for a in axes
    )
    if not same:
        raise errors.CorruptDataError(
            f"{copy.location}: its scalars or axes are not those of {source.location}; the copy "
            "failed, look at the disk"
        )
    ours = dict(_properties(source, counted))
    theirs = dict(_properties(copy, CountedCopy(copy, None)))
    for path in sorted(ours.keys() | theirs.keys()):
        one, other = ours.get(path), theirs.get(path)
        if one is None or other is None or not _is_same_property(one, other, how, add):
            raise errors.CorruptDataError(
                f"{copy.location}: {path} is not the same as in {source.location}; the copy "
                "failed, look at the disk"
            )


def _is_same_property(
    one: Stored, other: Stored, how: CopySettings, add: Callable[[int], None]
) -> bool:
    """Return whether two vectors or matrices have the same arrays, to be read in the same way."""
    ours, theirs = one.arrays(), other.arrays()
    if one.attributes != other.attributes or ours.keys() != theirs.keys():
        return False
    return all(_are_equal(ours[part], theirs[part], how.memory_bytes, add) for part in ours)


def _is_same(one: object, other: object) -> bool:
    return type(one) is type(other) and (one == other or (one != one and other != other))  # noqa: PLR0124 - NaN


def _are_equal(
    one: StoredArray, other: StoredArray, memory_bytes: int, add: Callable[[int], None]
) -> bool:
    expected = (one.info.shape, one.info.storage_type)
    if expected != (other.info.shape, other.info.storage_type):
        return False
    if one.info.storage_type.is_string:
        add(size_bytes(one))
        return bool(one.read_strings().equals(other.read_strings()))
    for span in block_spans(one, memory_bytes):
        block = one.read_rows(span)
        if not has_equal_bytes(block, other.read_rows(span)):
            return False
        add(block.nbytes)
    return True


def _properties(daf: DafReader, counted: CountedCopy) -> Iterator[tuple[str, Stored]]:
    """Yield the path of each vector, matrix and part of an AnnData, and the property itself."""
    axes = sorted(daf.axes_set())
    for axis in axes:
        for name in sorted(daf.vectors_set(axis)):
            yield layout.vector_path(axis, name), daf.open_vector(axis, name)
    for rows, columns in itertools.product(axes, axes):
        for name in sorted(daf.matrices_set(rows, columns, relayout=False)):
            path = layout.matrix_path(rows, columns, name)
            stored = ordered(daf.open_matrix(rows, columns, name))
            yield path, counted.matrix(rows, columns, name, stored)
    for path, array in kept.arrays(daf.tree).items():
        yield path, _KeptImage(array)
