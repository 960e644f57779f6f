"""One part of an AnnData as a small HDF5 file: an image that is stored as an array of bytes.

It holds ``elements/0``, in the encoding in which ``write_h5ad`` writes it; as attributes, which
part of the AnnData it was; and ``document``, which says that it is all of the value.
"""

from __future__ import annotations

import io
import posixpath
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from daf_storage._lazy import sp
from daf_storage.base import AnyArray, free_name, optional_import
from daf_storage.data import _layout as layout
from daf_storage.data._entries import EntrySelection
from daf_storage.errors import CorruptDataError, UnsupportedDataError, UnsupportedInputError
from daf_storage.stores import translated
from daf_storage.trees import (
    StoredArray,
    Tree,
    TreeTransaction,
    WritableTree,
    check_contained,
    new_node,
)

Writer: TypeAlias = Callable[[Any, str], None]
"""Writes a value into a group of an h5ad file, under a name; or nothing."""

_ELEMENTS: Final = "elements"
_NAME: Final = "0"
_OF_H5PY: Final = (OSError, KeyError, ValueError, TypeError, RuntimeError)
_DOCUMENT: Final = b'{"type":"element","name":"0"}'
"""What the format has beside the value: it is one element."""


def image_of(part: str, key: str, write: Writer) -> AnyArray:
    """Return the bytes of a new image.

    Parameters
    ----------
    part, key
        Which value of the AnnData it holds, such as ``"uns"`` and ``"paga"``.

    Raises
    ------
    UnsupportedInputError
        Anndata cannot write the value, or nothing of it was written.
    """
    h5py, storage = optional_import("h5py", extra="anndata"), io.BytesIO()
    with h5py.File(storage, "w") as file:
        file.attrs.update({"part": part, "key": str(key)})
        elements = file.create_group(_ELEMENTS)
        write(elements, _NAME)
        if _NAME not in elements:
            raise UnsupportedInputError(f"nothing of {part}[{key!r}] was written")
        file.create_dataset("document", data=np.frombuffer(_DOCUMENT, np.uint8))
    return np.frombuffer(storage.getbuffer(), np.uint8)


def writer_of(value: Any) -> Writer:
    """Return what writes a value as anndata does; a group or a dataset is copied as it is.

    What does not say how it is encoded is not, since anndata warns of it, unless anndata cannot
    write what it reads; nor are DataFrames of AnnData 0.7: their columns refer to categories
    elsewhere in the file.
    """
    h5py = optional_import("h5py", extra="anndata")
    if not isinstance(value, h5py.Group | h5py.Dataset):
        return lambda group, name: write_element(group, name, value)
    nodes = [value]
    if isinstance(value, h5py.Group):
        value.visititems(lambda _, node: nodes.append(node))
    is_old = any(_is_frame(n) and str(n.attrs.get("encoding-version")) == "0.1.0" for n in nodes)
    kinds = [node.dtype for node in nodes if isinstance(node, h5py.Dataset)]
    kinds += [field[0] for kind in kinds for field in (kind.fields or {}).values()]
    has_references = any(h5py.check_ref_dtype(kind) for kind in kinds)  # copies refer to nothing

    def write(group: Any, name: str) -> None:
        try:
            if is_old or "encoding-type" not in value.attrs:
                write_element(group, name, read_element(value))
        except UnsupportedInputError:
            if is_old or has_references:
                raise
        if name not in group:
            value.file.copy(value, group, name, expand_soft=True, expand_external=True)

    return write


def _is_frame(node: Any) -> bool:
    return str(node.attrs.get("encoding-type", "")) == "dataframe"


def write_element(group: Any, name: str, value: Any) -> None:
    """Write a value into a group of an h5ad file.

    Raises
    ------
    UnsupportedInputError
        Anndata cannot write it; nothing was written.
    """
    anndata = optional_import("anndata", extra="anndata")
    try:
        with _quiet(), anndata.settings.override(allow_write_nullable_strings=True):
            anndata.io.write_elem(group, name, value)
    except OSError:
        raise
    except Exception as error:  # anndata and h5py raise many kinds
        if name in group:
            del group[name]
        kind = f"{type(value).__module__}.{type(value).__name__}"
        raise UnsupportedInputError(
            f"anndata cannot write this value, of the type {kind}"
        ) from error


def read_element(element: Any) -> Any:
    """Return a group or dataset of an h5ad file as anndata reads it, without its warnings.

    A string is read without anndata, which takes longer to import than a query does.
    """
    if element.attrs.get("encoding-type") == "string" and hasattr(element, "asstr"):
        return element.asstr()[()]
    with _quiet():
        return optional_import("anndata", extra="anndata").io.read_elem(element)


@contextmanager
def opened(array: StoredArray, *, what: str) -> Iterator[Any]:
    """Open a stored image; hand out the value in it, as h5py has it.

    Raises
    ------
    CorruptDataError
        It is no such image.
    UnsupportedDataError
        Something in it leads to another file, or nothing that is installed can read it.
    """
    h5py = optional_import("h5py", extra="anndata")
    if len(array.info.shape) != 1 or array.info.storage_type.dtype != np.uint8:
        raise CorruptDataError(f"{what}: it is no array of bytes, as a part of an AnnData is")
    text = f"{what}: this part of an AnnData cannot be read"
    with (
        translated(Exception, UnsupportedDataError, text),  # anndata raises many kinds
        translated(_OF_H5PY, CorruptDataError, text),
        h5py.File(io.BytesIO(array.read().tobytes()), "r") as file,
    ):
        check_contained(file, what=what)
        yield file[_ELEMENTS][_NAME]


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


GROUP: Final = layout.KEPT
"""The group beside ``scalars``, ``axes``, ``vectors`` and ``matrices``."""

LEVELS: Final = ("scalars", "vectors", "matrices")
"""Groups of the parts that are aligned to no axis, to one, and to two."""

_MOST_OF_A_PART = 60


@dataclass(frozen=True, slots=True)
class KeptPart:
    """One stored part of an AnnData."""

    path: str
    """Where it is in the tree."""
    axes: tuple[str, ...]
    """To which axes its first dimensions are aligned."""
    part: str
    """Of which part of the AnnData it is, such as ``uns``."""
    key: str
    """Under which key; empty if the part has none."""
    array: StoredArray
    """The image."""

    def value(self) -> Any:
        """Return the value as the AnnData had it."""
        with opened(self.array, what=self.path) as stored:
            return read_element(stored)

    def is_frame(self) -> bool:
        """Return whether the value is a DataFrame."""
        with opened(self.array, what=self.path) as stored:
            return _is_frame(stored)

    def shape(self) -> tuple[int, ...] | None:
        """Return the shape of the value; None if only reading it says it."""
        with opened(self.array, what=self.path) as stored:
            is_frame = _is_frame(stored)
            columns = [len(stored.attrs["column-order"])] if is_frame else []
            values = stored[stored.attrs["_index"]] if is_frame else stored
            of_group = () if values.attrs.get("encoding-type") == "dict" else None
            shape = getattr(values, "shape", values.attrs.get("shape", of_group))
            return None if shape is None else (*map(int, shape), *columns)

    def copy_to(self, group: Any, name: str) -> None:
        """Copy it into a group of an h5ad file."""
        with opened(self.array, what=self.path) as stored:
            stored.file.copy(stored, group, name)


def keep(tree: WritableTree, path: str, image: AnyArray) -> None:
    """Store a part of an AnnData, beside one of that name which an earlier import has left."""
    folder, name = posixpath.split(path)
    taken = tree.children(folder) if tree.kind(folder) is not None else ()
    path = posixpath.join(folder, part_name(name, {*taken}))
    with new_node(tree, path) as changes, tree.lock():
        make_groups(tree, changes, path)
        changes.write_array(path, image)


def parts(tree: Tree, *, axes: tuple[str, ...] | None = None) -> Iterator[KeptPart]:
    """Yield the stored parts; only those that are aligned to just these axes, if there are some.

    Of a tree that is a modality of a whole, they are called there as that calls them.
    """
    for path, array in arrays(tree).items():
        if axes is None or layout.axes_of_group(path) == axes:
            yield _part(tree, path, array)


def _part(tree: Tree, path: str, array: StoredArray) -> KeptPart:
    whole = array
    while whole.sources:  # whose entries are not chosen for this
        (whole,) = whole.sources
    with opened(whole, what=f"{tree.location}: {path}") as stored:
        part, key = (str(stored.file.attrs[name]) for name in ("part", "key"))
    part = part.removeprefix(getattr(tree, "within", ""))
    return KeptPart(path, layout.axes_of_group(path), part, key, array)


def arrays(tree: Tree) -> dict[str, StoredArray]:
    """Return the images by their paths."""
    found: dict[str, StoredArray] = {}
    groups = [GROUP] if tree.kind(GROUP) is not None else []
    for group in groups:  # which grows
        for name, kind in sorted(tree.children(group).items()):
            path = f"{group}/{name}"
            node = tree.node(path) if kind == "array" else None
            array = None if node is None else node.array()
            if array is not None:
                found[path] = array
            elif kind == "group":
                groups.append(path)
    return found


def make_groups(tree: Tree, changes: TreeTransaction, path: str) -> None:
    """Make the groups on the way to a part that are missing."""
    names = path.split("/")
    for group in ("/".join(names[:n]) for n in range(1, len(names))):
        if tree.kind(group) is None:
            changes.create_group(group)
            changes.publish(group, replace=False)


# What follows an axis


def aligned_paths(tree: Tree, axes: Collection[str]) -> list[str]:
    """Return the paths of the parts that follow the order of some axes."""
    return [path for path in arrays(tree) if set(axes) & set(layout.axes_of_group(path))]


def write_reordered(source: Tree, target: WritableTree, orders: Mapping[str, AnyArray]) -> None:
    """Write the parts that follow the order of some axes."""
    stored = arrays(source)
    for path in aligned_paths(source, orders):
        moved = [orders.get(axis) for axis in layout.axes_of_group(path)]
        chosen = [None if each is None else EntrySelection(each, each.size) for each in moved]
        image = image_of_entries(source, path, stored[path], chosen)
        with new_node(target, path) as changes:
            changes.write_array(path, image)


def image_of_entries(
    tree: Tree, path: str, array: StoredArray, chosen: Sequence[EntrySelection | None]
) -> AnyArray:
    """Return the image of a part with some entries of each of its axes; None for all of them."""
    found = _part(tree, path, array)
    value = found.value()
    for dimension, entries in enumerate(chosen):
        if entries is not None:
            value = _taken(value, entries, dimension, what=f"{tree.location}: {path}")
    return image_of(found.part, found.key, writer_of(value))


def _taken(value: Any, entries: EntrySelection, dimension: int, *, what: str) -> Any:
    """Return some entries of the first or the second dimension of a value."""
    has_length = not hasattr(value, "shape") and not isinstance(value, Mapping)
    shape = (len(value),) if has_length else getattr(value, "shape", ())
    if len(shape) <= dimension or shape[dimension] != entries.length:
        raise CorruptDataError(
            f"{what}: it has the shape {shape}, and its axis has {entries.length:,} entries"
        )
    positions = entries.positions
    if hasattr(value, "iloc"):
        return value.iloc[positions] if dimension == 0 else value.iloc[:, positions]
    if sp.issparse(value):
        rows = value.tocsr() if dimension == 0 else value.tocsc()
        moved = rows[positions] if dimension == 0 else rows[:, positions]
        return moved.asformat(value.format)
    return value[positions] if dimension == 0 else value[:, positions]


# Helpers


def part_name(wanted: str, taken: set[str]) -> str:
    """Return the last component of the path of a part, which file systems and FilesDaf can hold."""
    return free_name(wanted[:_MOST_OF_A_PART], taken)
