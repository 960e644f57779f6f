"""Scipy's compiled selection of rows: ranges of two arrays are copied side by side.

Nothing is computed per element, no array of positions is made, and other threads run meanwhile.
The function is not public: it is called only after it has done a small example as expected, and
whoever calls it has another way.  It trusts its ranges; they are checked before
(`daf_query.matrix._stored_elements`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from daf_storage._lazy import lazy_module

if TYPE_CHECKING:
    from scipy.sparse import _sparsetools
else:
    _sparsetools = lazy_module("scipy.sparse._sparsetools")

LARGEST_POINTER: Final = 2**31 - 1
"""Up to which place pointers have 32 bits."""

Numbers: TypeAlias = npt.NDArray[Any]
Positions: TypeAlias = npt.NDArray[np.int64]
Pair: TypeAlias = tuple[Numbers, Numbers]


def copy_pair(sources: Pair, starts: Positions, counts: Positions, targets: Pair) -> bool:
    """Copy ranges of two arrays, one after the other, into two others of the same types.

    The ranges have to lie in both sources, and to have as many elements as the targets: that is
    not checked.

    Returns
    -------
    bool
        Whether it was done.  It is not where no compiled code fits: one of two arrays has to have
        elements of 4 or 8 bytes, which decides how wide the pointers may be.
    """
    select = row_selection()
    if select is None or not all(map(_is_plain, (*sources, *targets))):
        return False
    if any(s.dtype.itemsize != t.dtype.itemsize for s, t in zip(sources, targets, strict=True)):
        return False
    stops = starts + counts
    pointer = _pointer_type(sources, int(stops.max(initial=0)))
    if pointer is None:
        return False
    windows = list(_windows(starts, stops)) if pointer == np.int32 else [(slice(None), 0)]
    if not windows and starts.size:
        return False
    leads = sources[0].dtype.itemsize == pointer.itemsize
    order = (0, 1) if leads else (1, 0)
    done = 0
    for part, base in windows:
        some = starts[part] - base
        pointers = np.empty(2 * some.size, pointer)
        pointers[::2] = some
        pointers[1::2] = stops[part] - base
        rows = np.arange(0, pointers.size, 2, dtype=pointer)
        size = int(counts[part].sum())
        inputs = (_opaque(sources[each])[base:] for each in order)
        outputs = (_opaque(targets[each])[done : done + size] for each in order)
        select(rows.size, rows, pointers, *inputs, *outputs)
        done += size
    return True


@cache
def row_selection() -> Callable[..., None] | None:
    """Return scipy's function, tried once; None if it is not there, or does something else."""
    try:
        select: Callable[..., None] = _sparsetools.csr_row_index
        return select if all(_does_as_expected(select, kind) for kind in "ilq") else None
    except (ImportError, AttributeError, TypeError, ValueError, RuntimeError):
        return None


def _does_as_expected(select: Callable[..., None], kind: str) -> bool:
    pointers = np.array([3, 5, 0, 1, 2, 2, 4, 6], kind)
    rows = np.array([0, 2, 4, 6], kind)
    indices, values = np.arange(10, 16, dtype=kind), np.arange(20, 26, dtype=np.uint8)
    indices.flags.writeable = values.flags.writeable = False
    copied, copied_values = np.zeros(6, kind), np.zeros(6, np.uint8)
    select(4, rows, pointers, indices, values, copied[:5], copied_values[:5])
    return bool(
        copied.tolist() == [13, 14, 10, 14, 15, 0]
        and copied_values.tolist() == [23, 24, 20, 24, 25, 0]
    )


def _is_plain(array: Numbers) -> bool:
    """Return whether compiled code can use an array as it is: another one would be copied whole."""
    is_known = array.dtype.itemsize in (1, 2, 4, 8) and array.dtype.isnative
    return bool(is_known and array.ndim == 1 and array.flags.c_contiguous and array.flags.aligned)


def _opaque(array: Numbers) -> Numbers:
    """Return a view of an array as integers of the same width."""
    return array.view(f"i{array.dtype.itemsize}")


def _pointer_type(sources: Pair, stop: int) -> np.dtype[Any] | None:
    """Return the integers of the pointers: as wide as the elements of one of the arrays."""
    widths = [source.dtype.itemsize for source in sources]
    if 8 in widths and (4 not in widths or stop > LARGEST_POINTER):
        return np.dtype(np.int64)
    return np.dtype(np.int32) if 4 in widths else None


def _windows(starts: Positions, stops: Positions) -> Iterator[tuple[slice, int]]:
    """Yield which ranges lie near each other, and the place from which they are counted.

    Nothing, if they are too far from each other and do not ascend.

    >>> [*_windows(np.array([5, 1]), np.array([6, 2]))]
    [(slice(None, None, None), 0)]
    """
    if int(stops.max(initial=0)) <= LARGEST_POINTER:
        yield slice(None), 0
        return
    if bool(np.any(starts[1:] < stops[:-1])) or int((stops - starts).max()) > LARGEST_POINTER:
        return
    first = 0
    while first < starts.size:
        base = int(starts[first])
        last = int(np.searchsorted(stops, base + LARGEST_POINTER, side="right"))
        yield slice(first, last), base
        first = last
