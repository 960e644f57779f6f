"""Arrays that are verified page by page, each page when it is first read."""

from __future__ import annotations

from typing import Final, TypeAlias
from zlib import crc32

import numpy as np
import numpy.typing as npt

from daf_storage import errors
from daf_storage.base import AnyArray

PAGE_BYTES: Final = 1 << 16
"""How many bytes each checksum is of; the last page of an array may be shorter."""

Sums: TypeAlias = npt.NDArray[np.uint32]
"""The CRC-32 of each page of an array, or of several arrays in a row."""


def page_sums(values: AnyArray) -> Sums:
    """Return the CRC-32 of each page of an array that is contiguous.

    >>> page_sums(np.zeros(3 * PAGE_BYTES // 2, np.uint8)).shape
    (2,)
    """
    data = values.reshape(-1).view(np.uint8)
    pages = (data[start : start + PAGE_BYTES] for start in range(0, len(data), PAGE_BYTES))
    return np.array([crc32(page.data) for page in pages], np.uint32)


def n_pages(values: AnyArray) -> int:
    """Return of how many pages an array consists."""
    return -(-values.nbytes // PAGE_BYTES)


class PagedArray:
    """An array with a checksum for each of its pages.

    Parameters
    ----------
    values
        The elements, contiguous; usually mapped.
    sums
        As `page_sums` returns them for what was stored.

    Examples
    --------
    >>> array = PagedArray.of(np.arange(100_000))
    >>> array.read(70_000, 70_003).tolist()
    [70000, 70001, 70002]
    """

    def __init__(self, values: AnyArray, sums: Sums) -> None:
        self._values = values
        self._sums = sums
        self._is_verified = np.zeros(len(sums), np.bool_)

    @classmethod
    def of(cls, values: AnyArray) -> PagedArray:
        """Return values with their own checksums."""
        contiguous = np.ascontiguousarray(values)
        return cls(contiguous, page_sums(contiguous))

    def __len__(self) -> int:
        return len(self._values)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The type of the elements."""
        return self._values.dtype

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return self._values.ndim

    @property
    def nbytes(self) -> int:
        """The size of all elements."""
        return self._values.nbytes

    @property
    def verified_bytes(self) -> int:
        """How many bytes were verified so far, in whole pages."""
        return int(np.count_nonzero(self._is_verified)) * PAGE_BYTES

    def whole(self) -> AnyArray:
        """Return all elements, in the shape that they have.

        Raises
        ------
        CorruptDataError
            They are not what was stored.
        """
        self._verify(range(len(self._sums)))
        return self._values

    def read(self, start: int, stop: int) -> AnyArray:
        """Return some elements of a list: a view.

        Raises
        ------
        CorruptDataError
            They, or others in their pages, are not what was stored.
        """
        if start < stop:
            item = self._values.itemsize
            self._verify(range(start * item // PAGE_BYTES, -(-stop * item // PAGE_BYTES)))
        return self._values[start:stop]

    def take(self, positions: npt.NDArray[np.int64]) -> AnyArray:
        """Return single elements of a list: a copy.

        Raises
        ------
        CorruptDataError
            They, or others in their pages, are not what was stored.
        """
        self._verify(np.unique(positions * self._values.itemsize // PAGE_BYTES).tolist())
        return self._values[positions]

    def _verify(self, pages: range | list[int]) -> None:
        data = self._values.reshape(-1).view(np.uint8)
        for page in pages:
            if self._is_verified[page]:
                continue
            if crc32(data[page * PAGE_BYTES :][:PAGE_BYTES].data) != self._sums[page]:
                raise errors.CorruptDataError("its checksum is wrong")
            self._is_verified[page] = True
