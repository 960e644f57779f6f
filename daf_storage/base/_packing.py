"""How arrays are packed: cut into small chunks, each compressed.  A value object and its rules."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from daf_storage import errors
from daf_storage.base._model import StorageType

CodecName: TypeAlias = Literal["blosc-zstd", "blosc-lz4", "blosc-zstd-shuffle", "zstd", "gzip"]
"""The compressions; ``blosc-zstd-shuffle`` is not one of plain files (FilesDaf)."""

IMPORT_CHUNK_KB: Final = 64
"""Of an import that packs: smaller than in chunks of 8 KiB, and scanned in a fourth of the time."""

_DEFAULT_LEVELS: Final = {
    "blosc-zstd": 5,
    "blosc-lz4": 5,
    "blosc-zstd-shuffle": 5,
    "zstd": 3,
    "gzip": 6,
}
_HIGHEST_LEVELS: Final = {
    "blosc-zstd": 9,
    "blosc-lz4": 9,
    "blosc-zstd-shuffle": 9,
    "zstd": 22,
    "gzip": 9,
}
_BYTE_SHUFFLE: Final = "-shuffle"
_STRING_BYTES: Final = 16
_SMALLEST_BYTES: Final = 8 << 10
_MATRIX: Final = 2


@dataclass(frozen=True, slots=True)
class Packing:
    """How to pack arrays that are written.

    Examples
    --------
    >>> Packing()
    Packing(codec='blosc-zstd', level=5, chunk_kb=8)
    >>> Packing("zstd").level
    3
    """

    codec: CodecName = "blosc-zstd"
    """How a chunk is compressed; ``blosc`` shuffles bits first, with ``-shuffle`` bytes."""
    level: int = -1
    """From 1, fast, to 9 (22 for ``zstd``), small; -1 for a good one."""
    chunk_kb: int = 8
    """About how many KiB of elements a chunk holds: what a lookup has to decode at least."""

    def __post_init__(self) -> None:
        """Check the options, and fill in the level."""
        if self.codec not in get_args(CodecName):
            known = ", ".join(get_args(CodecName))
            raise errors.InvalidInputError(
                f"there is no codec {self.codec!r} for packed arrays; it must be one of: {known}"
            )
        if self.level == -1:
            object.__setattr__(self, "level", _DEFAULT_LEVELS[self.codec])
        if not 1 <= self.level <= _HIGHEST_LEVELS[self.codec]:
            raise errors.InvalidInputError(
                f"level {self.level} of codec {self.codec!r} must be between 1 and "
                f"{_HIGHEST_LEVELS[self.codec]}"
            )
        if not 1 <= self.chunk_kb <= 1 << 20:
            raise errors.InvalidInputError(
                f"chunks of {self.chunk_kb} KiB are not possible; choose 1 to {1 << 20}"
            )

    @property
    def compressor(self) -> str:
        """What Blosc compresses with.

        >>> Packing("blosc-lz4").compressor
        'lz4'
        """
        return self.codec.removeprefix("blosc-").removesuffix(_BYTE_SHUFFLE)

    @property
    def shuffle(self) -> Literal["shuffle", "bitshuffle"]:
        """What Blosc shuffles first: bytes or bits.

        >>> Packing("blosc-zstd-shuffle").shuffle
        'shuffle'
        """
        return "shuffle" if self.codec.endswith(_BYTE_SHUFFLE) else "bitshuffle"

    def chunks(self, shape: tuple[int, ...], kind: StorageType) -> tuple[int, ...] | None:
        """Return the shape of a chunk of an array; None if it is too small to be packed.

        A chunk of a matrix lies within one column, which is the last dimension as stored, or holds
        several whole ones where a column has less than 8 KiB.  Arrays without elements, single
        elements, matrices of strings, and arrays of less than 8 KiB are never packed.

        >>> Packing().chunks((8, 1200), StorageType.FLOAT64)
        (1, 1024)
        >>> Packing(chunk_kb=64).chunks((8, 1200), StorageType.FLOAT64)
        (1, 1200)
        >>> Packing().chunks((10_000, 3), StorageType.FLOAT64)
        (341, 3)
        >>> Packing().chunks((1000,), StorageType.FLOAT64) is None
        True
        """
        element_bytes = _STRING_BYTES if kind.is_string else kind.dtype.itemsize
        if not shape or 0 in shape or (kind.is_string and len(shape) > 1):
            return None
        target_bytes = self.chunk_kb << 10
        smallest_bytes = min(target_bytes, _SMALLEST_BYTES)
        if math.prod(shape) * element_bytes < smallest_bytes:
            return None
        column_bytes = shape[-1] * element_bytes
        if len(shape) == _MATRIX and column_bytes < smallest_bytes:
            return min(target_bytes // column_bytes, shape[0]), shape[1]
        height = min(max(target_bytes // element_bytes, 1), shape[-1])
        return (*(1,) * (len(shape) - 1), height)


def packing_of(packed: bool | Packing) -> Packing | None:  # noqa: FBT001 - True asks for the default
    """Return the options of an argument ``packed=``."""
    if isinstance(packed, Packing):
        return packed
    return Packing() if packed else None
