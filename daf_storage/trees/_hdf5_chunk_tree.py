"""Where the chunks of an HDF5 dataset are, by the bytes of the B-tree in which HDF5 keeps that.

HDF5 would call Python for each of a thousand chunks.  Only what is in order is read here, and only
trees of version 1, which all files have that were not written for the latest versions alone; HDF5,
and its checks, read the others and say what is wrong.

Pure: bytes in, numbers out.  Source: HDF5 file format specification, III.A.1 "Version 1 B-trees",
IV.A.1.a "Version 1 data object header prefix", IV.A.2.i "The data layout message".
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

_PREFIX: Final = struct.Struct("<BxHII4x")
"""Of an object header: version, number of messages, references, bytes of the first block."""
_MESSAGE: Final = struct.Struct("<HHB3x")
"""Of a message: type, bytes, flags."""
_CONTINUED: Final = struct.Struct("<QQ")
"""Where more messages are, and their bytes."""
_LAYOUT: Final = struct.Struct("<BBBQ")
"""Of a layout message: version, class, dimensions and one more, address of the B-tree."""
_NODE: Final = struct.Struct("<4sBBH16x")
"""Of a node: signature, type, level, number of entries."""
_LAYOUT_TYPE, _CONTINUATION_TYPE, _IS_SHARED = 0x8, 0x10, 0x2
_MAX_MESSAGES: Final = 1 << 12
_MAX_LEVEL: Final = 16

Numbers = npt.NDArray[np.int64]


def chunks_in_tree(
    file: npt.NDArray[np.uint8], header: int, chunks: tuple[int, ...], *, most: int
) -> Numbers | None:
    """Return what a file says of the chunks of a dataset; None where HDF5 had better be asked.

    Parameters
    ----------
    file
        The bytes of the whole file, whose addresses have 8 bytes and count from its beginning.
    header
        The address of the dataset's object header.
    chunks
        The shape of a chunk.
    most
        How many chunks there can be.

    Returns
    -------
    numpy.ndarray
        A row for each chunk: where it begins in the dataset, where in the file, its bytes, and the
        filters that it was stored without.
    """
    try:
        root = _tree_address(file.data, header, len(chunks))
        return None if root is None else _leaves(file.data, root, chunks, most)
    except (struct.error, ValueError, OverflowError):  # beyond the end of the file
        return None


def chunks_below(
    file: npt.NDArray[np.uint8], root: int, chunks: tuple[int, ...], *, most: int
) -> Numbers | None:
    """Return the same by the address of the root of the tree."""
    try:
        return _leaves(file.data, root, chunks, most)
    except (struct.error, ValueError, OverflowError):  # beyond the end of the file
        return None


def _tree_address(data: memoryview, header: int, rank: int) -> int | None:
    """Return where the root of the tree is, by the messages of an object header."""
    version, count, _, block_bytes = _PREFIX.unpack_from(data, header)
    if version != 1 or count > _MAX_MESSAGES:
        return None
    blocks, found = [(header + _PREFIX.size, block_bytes)], []
    for begin, size in blocks:
        at, stop = begin, begin + size
        while at + _MESSAGE.size <= stop and count:
            kind, message_bytes, flags = _MESSAGE.unpack_from(data, at)
            body = at + _MESSAGE.size
            if kind == _CONTINUATION_TYPE:
                blocks.append(_CONTINUED.unpack_from(data, body))
            elif kind == _LAYOUT_TYPE:
                found.append((flags, *_LAYOUT.unpack_from(data, body)))
            at = body + message_bytes
            count -= 1
    if len(found) != 1:
        return None
    [(flags, layout_version, layout_class, dimensions, address)] = found
    is_usual = (layout_version, layout_class, dimensions) == (3, 2, rank + 1)
    return int(address) if is_usual and not flags & _IS_SHARED else None


def _leaves(data: memoryview, root: int, chunks: tuple[int, ...], most: int) -> Numbers | None:
    """Return what the leaves of a tree say, level by level from its root."""
    entry = np.dtype(
        [("size", "<u4"), ("mask", "<u4"), ("start", "<i8", (len(chunks) + 1,)), ("child", "<i8")]
    )
    addresses = [root]
    level = _NODE.unpack_from(data, root)[2]
    if level > _MAX_LEVEL:
        return None
    while True:
        nodes, total = [], 0
        for address in addresses:
            signature, kind, found_level, count = _NODE.unpack_from(data, address)
            total += count
            if signature != b"TREE" or kind != 1 or found_level != level or total > most:
                return None
            first = address + _NODE.size
            nodes.append(np.frombuffer(data, np.uint8, count * entry.itemsize, first))
        entries = np.concatenate(nodes).view(entry)  # numpy takes long to join records
        if bool(np.any(entries["child"] < 0)):
            return None
        if level == 0:
            break
        addresses, level = entries["child"].tolist(), level - 1
        if not addresses or len(set(addresses)) != len(addresses):
            return None
    starts = entries["start"]
    if bool(np.any(starts[:, -1])) or bool(np.any(starts[:, :-1] % np.array(chunks))):
        return None
    columns = (entries["child"], entries["size"], entries["mask"])
    return np.column_stack([starts[:, :-1], *columns]).astype(np.int64, copy=False)
