"""Check that nothing in an untrusted HDF5 file leads out of it, before a library follows it.

HDF5 follows links into other files, and waits for named pipes among them.
"""

from __future__ import annotations

import posixpath
from typing import Any, Final

from daf_storage.errors import CorruptDataError, FormatError, UnsupportedDataError
from daf_storage.trees._hdf5_types import H5PY_ERRORS, as_object, check_type, h5py, reason_of

_MAX_LINKS: Final = 16
_CATEGORIES: Final = "categories"
"""The attribute by which anndata finds the categories of an old column: a reference."""


def check_links(group: Any, path: str, *, what: str) -> bool:
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
            raise leads_out(what)
        target = group.links.get_val(at.encode()).decode("utf-8", "surrogateescape")
        full = posixpath.join("/" if target.startswith("/") else posixpath.dirname(at), target)
        if target.startswith("/"):
            group = h5py().h5i.get_file_id(group)
        at, rest = "", [part for part in full.split("/") if part not in ("", ".")] + rest
    raise UnsupportedDataError(f"{what}: it is reached over too many links; replace them")


def leads_out(what: str) -> UnsupportedDataError:
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
                return leads_out(f"{self._what}: {path}")
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
