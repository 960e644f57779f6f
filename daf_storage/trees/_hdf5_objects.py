"""Objects of an HDF5 file as h5py has them: kinds, types, errors, and links that stay in the file.

Files are untrusted: HDF5 follows links into other files, waits for named pipes among them, and ends
the process where a type was damaged.  So nothing is opened before it was looked at.
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from daf_storage.base import STAGING_NAME, StorageType, optional_import
from daf_storage.errors import CorruptDataError, DafError, FormatError, UnsupportedDataError
from daf_storage.trees._protocol import NodeKind

STAGING = STAGING_NAME
"""Group in which changes are prepared; exists only while a writer works."""

RECORD = f"{STAGING}/replaced"
"""Group of what was in the place of nodes that are replaced together, until all of them are."""

ALIGNMENT = (1, 8)
"""Every object begins at a multiple of 8 bytes, so that what is mapped is aligned."""

H5PY_ERRORS = (
    OSError,
    RuntimeError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    OverflowError,
    MemoryError,
    AttributeError,
    NotImplementedError,
)
"""What h5py raises for data that it cannot read."""

STRING_BLOCK = 1 << 18  # h5py makes an object of each string

_MAX_LINKS: Final = 16
_CATEGORIES: Final = "categories"
"""The attribute by which anndata finds the categories of an old column: a reference."""
_ENCODED: Final = 2
"""So many bytes come before a type where HDF5 encodes it."""
_VLEN_KIND, _VLEN_STRING = 0xF, 1
"""Of what a type of variable length is: 0 says a sequence, 1 a string."""


@functools.cache
def h5py() -> Any:
    """Return the package h5py."""
    return optional_import("h5py", extra="hdf5")


def node_kind(item: Any) -> NodeKind | None:
    """Return what an identifier of h5py stands for; None for what is neither group nor dataset."""
    if isinstance(item, h5py().h5g.GroupID):
        return "group"
    return "array" if isinstance(item, h5py().h5d.DatasetID) else None


def as_object(found: Any, *, is_writable: bool) -> Any:
    """Return what h5py makes of an identifier."""
    kind = node_kind(found)
    if kind == "group":
        return h5py().Group(found)
    if kind == "array":
        return h5py().Dataset(found, readonly=not is_writable)
    return h5py().Datatype(found)


def reason_of(error: BaseException) -> str:
    """Return the message of an error in one line; h5py wraps some.

    One of ours that came through HDF5, as of a server, is raised as it is.
    """
    if isinstance(error, DafError):
        raise error
    return " ".join(str(error).split()) or type(error).__name__


# Types.


class ElementType(NamedTuple):
    """A type of HDF5."""

    dtype: np.dtype[Any]
    """What h5py makes of it; of a bit field of one byte, bool."""
    storage_type: StorageType | None
    """What it is in Daf, if it has a place there."""
    is_native: bool
    """Whether the dtype says all of how numbers are stored, bit by bit."""


def element_type_of(stored: Any) -> ElementType:
    """Return what there is to know of a type, given by its identifier."""
    h5 = h5py()
    if stored.get_class() == h5.h5t.BITFIELD and stored.get_size() == 1:
        return ElementType(np.dtype(bool), StorageType.BOOL, is_native=True)
    dtype = stored.dtype
    if h5.check_string_dtype(dtype) is not None:
        return ElementType(dtype, StorageType.STRING, is_native=False)
    storage_type = None if dtype.kind not in "biuf" else StorageType.from_numpy(dtype)
    is_native = storage_type is not None and stored == h5.h5t.py_create(dtype, logical=True)
    return ElementType(dtype, storage_type, is_native=bool(is_native))


def hdf5_type(storage_type: StorageType) -> Any:
    """Return the HDF5 type of the stored elements; Bool is a bit field of one byte."""
    h5t = h5py().h5t
    return h5t.NATIVE_B8 if storage_type is StorageType.BOOL else h5t.py_create(storage_type.dtype)


def check_type(stored: Any, what: str) -> None:
    """Raise if a type is one that HDF5 cannot convert: it ends the process where it tries.

    Parameters
    ----------
    stored
        The identifier of a type that was read from a file.

    Raises
    ------
    CorruptDataError
        A type of variable length, or one within, is neither a sequence nor a string.
    """
    h5t = h5py().h5t
    kind = stored.get_class()
    if kind == h5t.COMPOUND:
        for number in range(stored.get_nmembers()):
            check_type(stored.get_member_type(number), what)
    elif kind in (h5t.VLEN, h5t.ARRAY):
        if kind == h5t.VLEN and stored.encode()[_ENCODED + 1] & _VLEN_KIND > _VLEN_STRING:
            raise CorruptDataError(f"{what} has a type that HDF5 does not have; it was damaged")
        check_type(stored.get_super(), what)


# What leads out of the file.


def open_below(group: Any, name: str, *, what: str) -> Any:
    """Return the identifier of what is at a path below a group, in the same file; None if absent.

    Parameters
    ----------
    group
        The identifier of the group.
    """
    is_linked = _check_links(group, name, what=what)
    try:
        return h5py().h5o.open(group, name.encode())
    except H5PY_ERRORS as error:
        if isinstance(error, KeyError) and not is_linked:  # h5py raises it for damage, too
            return None
        raise CorruptDataError(f"{what} cannot be read ({reason_of(error)})") from error


def _check_links(group: Any, path: str, *, what: str) -> bool:
    """Return whether all links on a path are there; raise if it leads out of the file.

    Parameters
    ----------
    group
        The identifier of the group from which the path begins.

    Raises
    ------
    UnsupportedDataError
        A link on the way leads to another file, or there are too many.
    """
    h5l = h5py().h5l
    at, rest = "", [part for part in path.split("/") if part]
    for _ in range(_MAX_LINKS + 2 * len(rest)):
        if not rest:
            return True
        at = f"{at}/{rest.pop(0)}" if at else rest.pop(0)
        try:
            kind = group.links.get_info(at.encode()).type
        except (KeyError, RuntimeError, ValueError, OSError):
            return False  # there is nothing, or no group in which it could be looked for
        if kind == h5l.TYPE_HARD:
            continue
        if kind != h5l.TYPE_SOFT:
            raise _leads_out(what)
        target = group.links.get_val(at.encode()).decode("utf-8", "surrogateescape")
        full = posixpath.join("/" if target.startswith("/") else posixpath.dirname(at), target)
        if target.startswith("/"):
            group = h5py().h5i.get_file_id(group)
        at, rest = "", [part for part in full.split("/") if part not in ("", ".")] + rest
    raise UnsupportedDataError(f"{what}: it is reached over too many links; replace them")


def _leads_out(what: str) -> UnsupportedDataError:
    """Say that a link leads to another file."""
    return UnsupportedDataError(
        f"{what}: it is a link to another file, and no file but this one is read; copy what it "
        "leads to into the file"
    )


def check_source(properties: Any, *, what: str) -> None:
    """Raise if the elements of a dataset are in other files, by how it was created."""
    is_virtual = properties.get_layout() == h5py().h5d.VIRTUAL
    if is_virtual or properties.get_external_count() > 0:
        raise UnsupportedDataError(
            f"{what}: its elements are in other files or datasets, which are not read; copy them "
            "into this dataset"
        )


def check_contained(file: Any, *, what: str) -> None:
    """Raise if anything in a file leads out of it.

    Parameters
    ----------
    file
        An open ``h5py.File``.

    Raises
    ------
    UnsupportedDataError
        A link leads to another file, or the elements of a dataset are elsewhere.
    CorruptDataError
        The file cannot be looked through.
    """
    h5o = h5py().h5o
    try:
        seen, referred = {h5o.get_info(file.id).addr}, [file]
        while referred:
            for found in _referred(referred.pop(), what):
                address = h5o.get_info(found.id).addr
                if address not in seen:
                    seen.add(address)
                    referred.append(found)
    except FormatError:
        raise
    except H5PY_ERRORS as error:
        raise CorruptDataError(f"{what} cannot be read ({reason_of(error)})") from error


def _referred(item: Any, what: str) -> Iterator[Any]:
    """Check an object and all below it; yield what only categories refer to."""
    h5l, links = h5py().h5l, list[tuple[bytes, int]]()
    yield from _checked(item.id, item.name or _CATEGORIES, what)
    if node_kind(item.id) == "group":
        item.id.links.visit(lambda name, info: links.append((name, info.type)), info=True)
    for name, kind in links:
        path = name.decode("utf-8", "surrogateescape")
        if kind == h5l.TYPE_HARD:
            yield from _checked(h5py().h5o.open(item.id, name), path, what)
        elif kind != h5l.TYPE_SOFT:  # what that leads to is looked at by itself
            raise _leads_out(f"{what}: {path}")


def _checked(found: Any, path: str, what: str) -> Iterator[Any]:
    """Check one object; yield what its categories are, if it has any."""
    h5a = h5py().h5a
    if node_kind(found) == "array":
        check_source(found.get_create_plist(), what=f"{what}: {path}")
        check_type(found.get_type(), f"{what}: {path}")
    for number in range(h5a.get_num_attrs(found)):
        check_type(h5a.open(found, index=number).get_type(), f"{what}: an attribute of {path}")
    if h5a.exists(found, _CATEGORIES.encode()):
        holder = as_object(found, is_writable=False)
        reference = holder.attrs[_CATEGORIES]
        if isinstance(reference, h5py().Reference) and reference:
            yield holder.file[reference]
