"""How arrays are packed: cut into small chunks, each compressed.  A value object and its rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from daf_storage import errors
from daf_storage.base._model import StorageType

CodecName: TypeAlias = Literal["blosc-zstd", "blosc-lz4", "zstd", "gzip"]
"""The compressions that all readers of packed arrays know."""

_DEFAULT_LEVELS: Final = {"blosc-zstd": 5, "blosc-lz4": 5, "zstd": 3, "gzip": 6}
_HIGHEST_LEVELS: Final = {"blosc-zstd": 9, "blosc-lz4": 9, "zstd": 22, "gzip": 9}
_STRING_BYTES: Final = 16


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
    """How a chunk is compressed; the ``blosc`` ones shuffle its bits first."""
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

    def chunks(self, shape: tuple[int, ...], kind: StorageType) -> tuple[int, ...] | None:
        """Return the shape of a chunk of an array; None if it is too small to be packed.

        A chunk of a matrix lies within one column, which is the last dimension as stored.  Arrays
        without elements, single elements and matrices of strings are never packed.

        >>> Packing().chunks((8, 1200), StorageType.FLOAT64)
        (1, 1024)
        >>> Packing().chunks((1000,), StorageType.FLOAT64) is None
        True
        """
        element_bytes = _STRING_BYTES if kind.is_string else kind.dtype.itemsize
        if not shape or 0 in shape or (kind.is_string and len(shape) > 1):
            return None
        target_bytes = self.chunk_kb << 10
        if shape[-1] * element_bytes < target_bytes:
            return None
        return (*(1,) * (len(shape) - 1), max(target_bytes // element_bytes, 1))


def packing_of(packed: bool | Packing) -> Packing | None:  # noqa: FBT001 - True asks for the default
    """Return the options of an argument ``packed=``."""
    if isinstance(packed, Packing):
        return packed
    return Packing() if packed else None
