"""Groups and datasets of an HDF5 file by their paths, found in its bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from daf_storage.trees._hdf5_attributes import StoredAttribute, attribute_value, stored_attributes
from daf_storage.trees._hdf5_few_strings import FewStrings
from daf_storage.trees._hdf5_headers import ObjectHeader, UnusualHeaderError, object_header, require
from daf_storage.trees._hdf5_links import SOFT, links_of
from daf_storage.trees._protocol import NodeKind

_MOST_KEPT: Final = 1 << 12


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """A group or a dataset that was found without HDF5."""

    index: HeaderIndex
    header: ObjectHeader

    def below(self, name: str) -> Located | None:
        """Return what has a name in this group; None if nothing has."""
        found = self.index.below(self.header, name)
        return None if found is None else Located(self.index, found)

    def kinds(self) -> dict[str, NodeKind]:
        """Return what is directly below this group."""
        return self.index.kinds(self.header)

    def attribute(self, name: str) -> Any:
        """Return an attribute as h5py has it; None if there is none."""
        return self.index.attribute(self.header, name)


class HeaderIndex:
    """What is read of the headers of one file; kept as long as the file is the same.

    Parameters
    ----------
    file
        The bytes of the whole file, whose addresses have 8 bytes and count from its beginning.
    root
        Where the object header of the root is.
    strings
        Reads the strings of attributes.
    """

    def __init__(self, file: npt.NDArray[np.uint8], root: int, strings: FewStrings) -> None:
        self._data = file.data
        self._root = root
        self._strings = strings
        self._headers: dict[int, ObjectHeader] = {}
        self._links: dict[tuple[int, int], dict[str, int]] = {}
        self._attributes: dict[ObjectHeader, dict[str, StoredAttribute]] = {}

    def find(self, path: str) -> Located | None:
        """Return what is at a path from the root; None if nothing is.

        Raises
        ------
        UnusualHeaderError
            HDF5 has to be asked.
        """
        header = self._at(self._root)
        for name in path.split("/") if path else ():
            below = self.below(header, name)
            if below is None:
                return None
            header = below
        return Located(self, header)

    def below(self, header: ObjectHeader, name: str) -> ObjectHeader | None:
        """Return what has a name in a group; None if nothing has.

        Raises
        ------
        UnusualHeaderError
            HDF5 has to be asked.
        """
        require(name not in ("", ".", "..") and "\0" not in name and "/" not in name)
        address = self._links_of(header).get(name)
        if address is None:
            return None
        require(address != SOFT)
        return self._at(address)

    def kinds(self, header: ObjectHeader) -> dict[str, NodeKind]:
        """Return what is directly below a group.

        Raises
        ------
        UnusualHeaderError
            HDF5 has to be asked.
        """
        links = self._links_of(header)
        require(SOFT not in links.values())
        return {name: self._at(address).kind for name, address in links.items()}

    def attribute(self, header: ObjectHeader, name: str) -> Any:
        """Return an attribute as h5py has it; None if there is none.

        Raises
        ------
        UnusualHeaderError
            HDF5 has to be asked.
        """
        if header not in self._attributes:
            self._make_room(self._attributes)
            self._attributes[header] = stored_attributes(self._data, header.attributes)
        stored = self._attributes[header].get(name)
        return None if stored is None else attribute_value(self._data, stored, self._strings)

    def _at(self, address: int) -> ObjectHeader:
        header = self._headers.get(address)
        if header is None:
            self._make_room(self._headers)
            header = self._headers[address] = object_header(self._data, address)
        return header

    def _links_of(self, header: ObjectHeader) -> dict[str, int]:
        if header.links is None:
            raise UnusualHeaderError
        links = self._links.get(header.links)
        if links is None:
            self._make_room(self._links)
            links = self._links[header.links] = links_of(self._data, *header.links)
        return links

    def _make_room(self, kept: dict[Any, Any]) -> None:
        if len(kept) >= _MOST_KEPT:
            kept.clear()
