"""The links of a group of an HDF5 file, by the bytes of its B-tree and its heap of names.

Pure: bytes in, addresses out.  Source: HDF5 file format specification, III.A.1 "Version 1 B-trees",
III.B "Group symbol table nodes", III.D "Local heaps".
"""

from __future__ import annotations

import struct
from typing import Final

from daf_storage.trees._hdf5_headers import UnusualHeaderError, require

SOFT: Final = -1
"""Stands for the address of what a link leads to by a path."""

_NODE: Final = struct.Struct("<4sBBH16x")
"""Of a node of a B-tree: signature, type, level, number of children."""
_CHILD: Final = struct.Struct("<8xQ")
"""The name before a child, and where it is."""
_LEAF: Final = struct.Struct("<4sBxH")
"""Of a node of links: signature, version, number of links."""
_LINK: Final = struct.Struct("<QQI20x")
"""Of a link: where its name is in the heap, the object header, what is known of the object."""
_HEAP: Final = struct.Struct("<4sB3xQ8xQ")
"""Of a heap: signature, version, bytes of its data, where these are."""
_HARD_KINDS: Final = (0, 1)
_SOFT_KIND: Final = 2
_MAX_LEVEL: Final = 16
_MAX_LINKS: Final = 1 << 16
_MAX_NAME_BYTES: Final = 1 << 12


def links_of(data: memoryview, tree: int, heap: int) -> dict[str, int]:
    """Return where the objects of a group are by their names, in the order of HDF5.

    Raises
    ------
    UnusualHeaderError
        Something is damaged, or there are very many.
    """
    try:
        names = _names(data, heap)
        links: dict[str, int] = {}
        for leaf in _leaves(data, tree):
            _add_links(data, leaf, names, links)
    except (struct.error, ValueError, OverflowError):  # beyond the end of the file
        raise UnusualHeaderError from None
    return links


def _names(data: memoryview, heap: int) -> bytes:
    """Return the data of a heap of names."""
    signature, version, size_bytes, address = _HEAP.unpack_from(data, heap)
    require(signature == b"HEAP" and version == 0 and address + size_bytes <= len(data))
    require(size_bytes <= _MAX_LINKS * 64)
    return bytes(data[address : address + size_bytes])


def _leaves(data: memoryview, root: int) -> list[int]:
    """Return where the nodes of links are, level by level from the root of a B-tree."""
    addresses = [root]
    level = _NODE.unpack_from(data, root)[2]
    require(level <= _MAX_LEVEL)
    for height in range(level, -1, -1):
        children: list[int] = []
        for address in addresses:
            signature, kind, found, count = _NODE.unpack_from(data, address)
            require((signature, kind, found) == (b"TREE", 0, height))
            first = address + _NODE.size
            children += [_CHILD.unpack_from(data, first + 16 * n)[0] for n in range(count)]
            require(len(children) <= _MAX_LINKS)
        require(len(set(children)) == len(children))
        addresses = children
    return addresses


def _add_links(data: memoryview, leaf: int, names: bytes, links: dict[str, int]) -> None:
    signature, version, count = _LEAF.unpack_from(data, leaf)
    require(signature == b"SNOD" and version == 1 and len(links) + count <= _MAX_LINKS)
    first = leaf + _LEAF.size
    for start, address, kind in _LINK.iter_unpack(data[first : first + count * _LINK.size]):
        stop = names.index(b"\0", start, start + _MAX_NAME_BYTES)
        name = names[start:stop].decode()
        require(stop > start and "/" not in name and name not in links)
        if kind in _HARD_KINDS:
            links[name] = address
        else:
            require(kind == _SOFT_KIND)
            links[name] = SOFT
