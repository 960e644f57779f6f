"""Finding rows by a text without looking at all of them.

An index of a column has the hash of each text, sorted, and the row of each; and where every 64th
text begins, so that single ones can be read out of the stored chunk.  It lies beside the data, in
the group ``indexes``, as plain arrays that other readers ignore.  It carries the stamp of the chunk
that it was made of: if that is another one by now, the index is not used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.columns import INDEX, NAME
from daf_query.evaluating import Positions
from daf_storage import DafReader, DafWriter, DecodedCache, errors

GROUP: Final = "indexes"

_VERSION: Final = 1
_EVERY: Final = 64
_COUNT_BYTES: Final = 4
_LENGTH_BYTES: Final = 4
_BLOCK_BYTES: Final = 1 << 22
_BASE: Final = 0x9E3779B97F4A7C15
_INVERSE: Final = pow(_BASE, -1, 1 << 64)
_MIX: Final = 0xBF58476D1CE4E5B9
_WORD: Final = (1 << 64) - 1
_FEW: Final = 2048

Hashes = npt.NDArray[np.uint64]


class TextIndex:
    """An index of a column of texts, and the chunk that it belongs to.

    Parameters
    ----------
    hashes
        Sorted.
    rows
        The row of each hash.
    starts
        Where every 64th text begins in the chunk.
    chunk
        The stored texts: a count, then each length and its bytes.
    """

    def __init__(
        self,
        hashes: Hashes,
        rows: npt.NDArray[Any],
        starts: npt.NDArray[Any],
        chunk: memoryview,
    ) -> None:
        self._hashes = hashes
        self._rows = rows
        self._starts = starts
        self._chunk = chunk

    def find(self, texts: Iterable[str]) -> Positions:
        """Return the rows that may hold one of some texts, ascending, and all that do."""
        wanted = np.array([hash_of(text) for text in texts], np.uint64)
        first = np.searchsorted(self._hashes, wanted, side="left")
        last = np.searchsorted(self._hashes, wanted, side="right")
        found = [self._rows[a:b] for a, b in zip(first, last, strict=True)]
        return np.unique(np.concatenate([np.empty(0, np.int64), *found]).astype(np.int64))

    def texts(self, rows: Positions) -> pa.Array | None:
        """Return the texts of a few rows; None if they are so many that decoding all is faster."""
        if rows.size > _FEW:
            return None
        return pa.array([self._text(int(row)) for row in rows], pa.string())

    def _text(self, row: int) -> str:
        place = int(self._starts[row // _EVERY])
        for _ in range(row % _EVERY):
            place += _LENGTH_BYTES + int(struct.unpack_from("<I", self._chunk, place)[0])
        size = int(struct.unpack_from("<I", self._chunk, place)[0])
        start = place + _LENGTH_BYTES
        return bytes(self._chunk[start : start + size]).decode()


def hash_of(text: str) -> int:
    """Return the hash of one text.

    >>> hash_of("a") == int(hashes_of(pa.array(["", "a"]))[1])
    True
    """
    data = text.encode()
    total, weight = 0, 1
    for byte in data:
        total = (total + (byte + 1) * weight) & _WORD
        weight = (weight * _BASE) & _WORD
    total ^= (len(data) * _MIX) & _WORD
    total ^= total >> 32
    return (total * _MIX) & _WORD


def hashes_of(texts: Any) -> Hashes:
    """Return the hash of each text: a polynomial of its bytes, by prefix sums over blocks."""
    offsets = _offsets(texts)
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    out = np.empty(len(texts), np.uint64)
    first = 0
    while first < len(texts):
        last = int(np.searchsorted(offsets, offsets[first] + _BLOCK_BYTES, side="right")) - 1
        last = min(max(last, first + 1), len(texts))
        start, stop = int(offsets[first]), int(offsets[last])
        weights = _powers(_BASE, stop - start + 1)
        sums = np.zeros(stop - start + 1, np.uint64)
        np.cumsum((data[start:stop].astype(np.uint64) + 1) * weights[:-1], out=sums[1:])
        begins = offsets[first:last] - start
        ends = offsets[first + 1 : last + 1] - start
        total = (sums[ends] - sums[begins]) * _powers(_INVERSE, stop - start + 1)[begins]
        total ^= (ends - begins).astype(np.uint64) * np.uint64(_MIX)
        total ^= total >> np.uint64(32)
        out[first:last] = total * np.uint64(_MIX)
        first = last
    return out


def build_index(daf: DafWriter, axis: str, names: Sequence[str] | None = None) -> list[str]:
    """Build indexes of columns of texts and store them in the data set; return which.

    Parameters
    ----------
    names
        Vectors of strings, or ``name`` for the entries; by default the entries and all vectors
        with many distinct strings.

    Raises
    ------
    InvalidInputError
        The column holds no strings, or is stored compressed, in HDF5 or in memory, where it
        cannot be told whether an index still fits.
    """
    chosen = [NAME, *sorted(daf.vectors_set(axis))] if names is None else list(names)
    done = []
    for name in chosen:
        info = None if name == INDEX else daf.vector_info(axis, name)
        if info is None or not info.storage_type.is_string:
            if names is None:
                continue
            raise errors.InvalidInputError(
                f"{daf.location}: {name!r} of axis {axis!r} holds no strings; numbers need no "
                "index, the ranges of their values are learnt when they are read"
            )
        if _build(daf, axis, name, is_wanted=names is not None):
            done.append(name)
    return done


def find_index(daf: DafReader, axis: str, name: str, cache: DecodedCache) -> TextIndex | None:
    """Return the index of a column, if it has one that fits; what is mapped stays mapped."""
    path = f"{GROUP}/{axis}/{name}"
    identity = daf.tree.identity(path)
    if identity is None:
        return None
    text_path = f"axes/{axis}" if name == NAME else f"vectors/{axis}/{name}"
    both = (identity, daf.tree.identity(text_path))
    key = (daf.location, axis, name, "index")
    found: _Found = cache.get(key, both, lambda: _Found(_read_index(daf, axis, name)))
    return found.index


@dataclass(frozen=True, slots=True)
class _Found:
    """An index that was looked for."""

    index: TextIndex | None

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return 1024


def _read_index(daf: DafReader, axis: str, name: str) -> TextIndex | None:
    node = daf.tree.node(f"{GROUP}/{axis}/{name}")
    if node is None:
        return None
    parts = {part: node.array(part) for part in ("stamp", "hash", "row", "start")}
    if any(part is None for part in parts.values()):
        return None
    array = daf.text_array(axis, name)
    stamp = array.stamp()
    if stamp is None:  # on a server, say, where reading the index would be a download
        return None
    read = {part: stored.read() for part, stored in parts.items() if stored is not None}
    chunk = array.plain_strings()
    if chunk is None or read["stamp"].tolist() != [_VERSION, *stamp]:
        return None
    count = array.info.size
    if read["hash"].size != count or read["row"].size != count:
        return None
    return TextIndex(read["hash"], read["row"], read["start"], chunk)


def _build(daf: DafWriter, axis: str, name: str, *, is_wanted: bool) -> bool:
    array = daf.text_array(axis, name)
    stamp = array.stamp()
    if stamp is None or array.plain_strings() is None:
        if not is_wanted:
            return False
        raise errors.InvalidInputError(
            f"{daf.location}: {name!r} of axis {axis!r} cannot be indexed: it is compressed, in "
            "HDF5 or in memory, was written this very moment, or is empty; only plain Zarr can"
        )
    if _read_index(daf, axis, name) is not None:
        return True  # an archive could not replace it, and need not
    texts = array.read_strings()
    if not is_wanted and name != NAME and len(texts.unique()) * 4 < len(texts):
        return False
    hashes = hashes_of(texts)
    order = np.argsort(hashes, kind="stable")
    offsets = _offsets(texts)
    every = np.arange(0, len(texts), _EVERY)
    starts = _COUNT_BYTES + offsets[every] - offsets[0] + _LENGTH_BYTES * every
    row_type = np.uint32 if len(texts) < 1 << 32 else np.uint64
    path = f"{GROUP}/{axis}/{name}"
    tree = daf.writable_tree
    with tree.transaction() as changes, tree.lock():
        for group in (GROUP, f"{GROUP}/{axis}"):
            if tree.kind(group) is None:
                changes.create_group(group)
                changes.publish(group, replace=False)
        changes.create_group(path)
        changes.write_array(f"{path}/stamp", np.array([_VERSION, *stamp], np.int64))
        changes.write_array(f"{path}/hash", hashes[order])
        changes.write_array(f"{path}/row", order.astype(row_type))
        changes.write_array(f"{path}/start", starts.astype(np.uint64))
        changes.publish(path, replace=tree.kind(path) is not None)
    return True


def _offsets(texts: Any) -> npt.NDArray[np.int64]:
    kind: Any = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    offsets = np.frombuffer(texts.buffers()[1], kind)
    return offsets[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)


def _powers(base: int, count: int) -> Hashes:
    """Return the first powers of a number, modulo 2 to the 64th."""
    powers = np.full(count, base, np.uint64)
    powers[0] = 1
    return np.cumprod(powers, out=powers)
