"""Objects of an HDF5 file as h5py has them: kinds, types, errors, and links that stay in the file.

Files are untrusted: HDF5 follows links into other files, waits for named pipes among them, and ends
the process where a type was damaged.  So nothing is opened before it was looked at.
"""

from __future__ import annotations

import functools
import posixpath
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
    try:
        _Look(file, what).run()
    except FormatError:
        raise
    except H5PY_ERRORS as error:
        raise CorruptDataError(f"{what} cannot be read ({reason_of(error)})") from error


class _Look:
    """A look at all objects of a file, also at those that only categories refer to."""

    def __init__(self, file: Any, what: str) -> None:
        self._what = what
        self._referred = [file]
        self._seen = {h5py().h5o.get_info(file.id).addr}

    def run(self) -> None:
        """Look at the file, then at what is referred to, until nothing is new."""
        while self._referred:
            found = self._referred.pop()
            self._check(found.id, found.name or _CATEGORIES)
            if isinstance(found.id, h5py().h5g.GroupID):
                self._check_below(found.id)

    def _check_below(self, group: Any) -> None:
        h5l, h5o = h5py().h5l, h5py().h5o

        def look(name: bytes, info: Any) -> Exception | None:
            path = name.decode("utf-8", "surrogateescape")
            if info.type == h5l.TYPE_SOFT:  # what it leads to is looked at by itself
                return None
            if info.type != h5l.TYPE_HARD:
                return _leads_out(f"{self._what}: {path}")
            try:
                self._check(h5o.open(group, name), path)
            except (FormatError, *H5PY_ERRORS) as error:  # none may pass through HDF5
                return error
            return None

        problem = group.links.visit(look, info=True)
        if problem is not None:
            raise problem

    def _check(self, found: Any, path: str) -> None:
        if isinstance(found, h5py().h5d.DatasetID):
            check_source(found.get_create_plist(), what=f"{self._what}: {path}")
            check_type(found.get_type(), f"{self._what}: {path}")
        h5a = h5py().h5a
        for number in range(h5a.get_num_attrs(found)):
            stored = h5a.open(found, index=number).get_type()
            check_type(stored, f"{self._what}: an attribute of {path}")
        if h5a.exists(found, _CATEGORIES.encode()):
            self._note(as_object(found, is_writable=False))

    def _note(self, found: Any) -> None:
        """Remember to look at what the categories of an object are."""
        reference = found.attrs[_CATEGORIES]
        if not isinstance(reference, h5py().Reference) or not reference:
            return
        target = found.file[reference]
        address = h5py().h5o.get_info(target.id).addr
        if address not in self._seen:
            self._seen.add(address)
            self._referred.append(target)
