"""Duplicate strings, found by sorted hashes of 8 bytes each.

A hash table of a hundred million strings needs 200 bytes for each.  Here:

1. Each string gets a 64-bit hash, in blocks: eight bytes of all strings of a block at a time.
2. The hashes are sorted in place.  No two equal neighbours: the strings are unique.
3. Where hashes meet, the strings themselves decide: those with such a hash are collected in another
   pass and compared.  Different strings with one hash (among 100 million, one pair in 3,700 runs)
   cost that pass and no wrong answer.

The hash is computed and forgotten, never stored.  Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage._lazy import lazy_module

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy_module("pyarrow.compute")

Hashes: TypeAlias = npt.NDArray[np.uint64]

_BLOCK_STRINGS: Final = 1 << 17
_MAX_BLOCK_BYTES: Final = 1 << 23
_COMPARED_HASHES: Final = 1 << 16
_MAX_WORDS: Final = 32
_WORD_BYTES: Final = 8
_BITS: Final = np.uint64(8)
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_FINISH: Final = np.uint64(0xBF58476D1CE4E5B9)


def first_duplicate(strings: Any) -> str | None:
    """Return a string that occurs more than once; None if all are unique.

    Parameters
    ----------
    strings
        An Arrow array of strings or of large strings, without nulls.

    Returns
    -------
    str or None
        Of several, the one that comes first in the array, up to 65,536 of them.

    Examples
    --------
    >>> first_duplicate(pa.array(["a", "b", "a"]))
    'a'
    >>> first_duplicate(pa.array(["a", "b"])) is None
    True
    """
    hashes = np.empty(len(strings), np.uint64)
    start = 0
    for block in _blocks(strings):
        hashes[start : start + len(block)] = hashes_of(block)
        start += len(block)
    hashes.sort()
    meeting = _meeting(hashes)
    del hashes
    for first in range(0, meeting.size, _COMPARED_HASHES):
        duplicate = _first_equal(strings, meeting[first : first + _COMPARED_HASHES])
        if duplicate is not None:
            return duplicate
    return None


def hashes_of(strings: Any) -> Hashes:
    """Return a 64-bit hash of each of a few hundred thousand strings."""
    kind: Any = np.int64 if pa.types.is_large_string(strings.type) else np.int32
    _, offsets_buffer, bytes_buffer = strings.buffers()
    offsets = np.frombuffer(offsets_buffer, kind)
    offsets = offsets[strings.offset : strings.offset + len(strings) + 1].astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    stored = np.frombuffer(bytes_buffer or b"", np.uint8)[first:last]
    data = np.concatenate((stored, np.zeros(_WORD_BYTES, np.uint8)))  # a word may begin anywhere
    return _word_hashes(data, offsets[:-1] - first, np.diff(offsets))


def _word_hashes(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Hashes:
    words = np.ndarray((data.size - _WORD_BYTES + 1,), np.dtype("<u8"), data, 0, (1,))
    hashes = lengths.astype(np.uint64) * _MULTIPLIER
    is_long = lengths > _MAX_WORDS * _WORD_BYTES
    rows = np.flatnonzero((lengths > 0) & ~is_long)
    for place in range(0, _MAX_WORDS * _WORD_BYTES, _WORD_BYTES):
        if not rows.size:
            break
        rest = lengths[rows] - place
        unused = (_WORD_BYTES - np.minimum(rest, _WORD_BYTES)).astype(np.uint64) * _BITS
        mixed = hashes[rows] ^ (words[starts[rows] + place] << unused)
        mixed *= _MULTIPLIER
        mixed ^= mixed >> np.uint64(29)
        hashes[rows] = mixed
        rows = rows[rest > _WORD_BYTES]
    for row in np.flatnonzero(is_long).tolist():  # each is a few hundred bytes at least
        text = data[starts[row] : starts[row] + lengths[row]]
        digest = hashlib.blake2b(text.data, digest_size=_WORD_BYTES).digest()
        hashes[row] = int.from_bytes(digest, "little")
    hashes *= _FINISH
    hashes ^= hashes >> np.uint64(32)
    return hashes


def _blocks(strings: Any) -> Iterator[Any]:
    """Yield ranges of the strings: of so many, and of so many bytes unless one alone has more."""
    start = 0
    while start < len(strings):
        block = strings.slice(start, _BLOCK_STRINGS)
        n_bytes = pc.sum(pc.binary_length(block)).as_py()
        if n_bytes > _MAX_BLOCK_BYTES:
            ends = np.cumsum(pc.binary_length(block).to_numpy().astype(np.int64))
            block = block.slice(0, max(int(np.searchsorted(ends, _MAX_BLOCK_BYTES)), 1))
        yield block
        start += len(block)


def _meeting(hashes: Hashes) -> Hashes:
    """Return the values that occur more than once among sorted hashes, each once."""
    repeated = [
        block[1:][block[1:] == block[:-1]]
        for start in range(0, hashes.size, _BLOCK_STRINGS)
        for block in [hashes[start : start + _BLOCK_STRINGS + 1]]
    ]
    return np.unique(np.concatenate([np.empty(0, np.uint64), *repeated]))


def _first_equal(strings: Any, meeting: Hashes) -> str | None:
    """Return the first string that occurs again among those with one of these hashes."""
    suspects: list[Any] = []
    for block in _blocks(strings):
        is_suspect = np.isin(hashes_of(block), meeting, kind="sort")  # numpy 2.0.0 fails without
        if not is_suspect.any():
            continue
        suspects.append(block.filter(pa.array(is_suspect)))
        together = pa.concat_arrays(suspects)
        counts = pc.value_counts(together)
        repeated = counts.filter(pc.greater(counts.field("counts"), 1))
        if len(repeated):
            return str(repeated.field("values")[0].as_py())
        suspects = [together]
    return None
