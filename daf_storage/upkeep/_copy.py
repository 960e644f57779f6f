"""Copy whole data sets between any two formats, in blocks.

The layout is the same everywhere, so what is copied into an empty data set is copied array by
array: what is stored sparse stays sparse, and each orientation of a matrix is copied as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from daf_storage import errors
from daf_storage.base import NAME_VECTOR, IfExists, OpenMode, Packing, ShowProgress, progress_bar
from daf_storage.data import (
    DafReader,
    DafWriter,
    StoredMatrix,
    block_spans,
    is_same_scalar,
    kept,
    layout,
    ordered,
    size_bytes,
    stored_properties,
)
from daf_storage.opening import check_outside, new_data_set, open_daf, parse_path
from daf_storage.stores import is_remote, shown_url
from daf_storage.trees import StoredArray, ZarrVersion, has_equal_bytes, passing_over
from daf_storage.upkeep._copy_properties import Copier, CopyIfExists
from daf_storage.upkeep._counts import CountedCopy, CountsAs


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
        counted = CountedCopy(daf, counts_as)
        with new_data_set(destination, if_exists=if_exists, **style) as new:
            copier = Copier(daf, new, "convert", "error", link=link, counted=counted, is_whole=True)
            _copy_everything(copier, {}, {}, progress)


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
        warnings.warn(
            f"{destination.location}: {', '.join(left)} of {copier.source.location} were not "
            "copied: their axes have other entries, or there are such parts already",
            errors.DafWarning,
            stacklevel=4,
        )


def _differences(copier: Copier) -> Iterator[str]:
    """Read both, and yield what is not the same."""
    source, copy, counted = copier.source, copier.destination, copier.counted
    for name in sorted(source.scalars_set() | copy.scalars_set()):
        value, copied = (daf.get_scalar(name, default=None) for daf in (source, copy))
        if not is_same_scalar(value if counted is None else counted.scalar(name, value), copied):
            yield layout.scalar_path(name)
    ours, theirs = _stored(source, counted), _stored(copy)
    for path in sorted(ours.keys() | theirs.keys()):
        (attributes, arrays), (others, copies) = (
            ours.get(path, _NOTHING),
            theirs.get(path, _NOTHING),
        )
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
        if counted is not None and isinstance(stored, StoredMatrix):
            stored = counted.matrix(stored)
        found[path] = stored.attributes, stored.arrays()
    return found | {path: ({}, {"": array}) for path, array in kept.arrays(daf.tree).items()}
