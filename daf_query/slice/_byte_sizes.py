"""Sizes in bytes as people write them, such as ``2GB`` and ``500 MiB``."""

from __future__ import annotations

import math
import re
from typing import Final, TypeAlias

import numpy as np

from daf_storage import errors

ByteSize: TypeAlias = float | str
"""A number of bytes, or text with a unit: ``500MB`` (a million bytes each), ``2GiB`` (2**30)."""

_PREFIXES: Final = "kmgt"
_SIZE: Final = re.compile(
    r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(?:([kmgt])(i)?)?(?:b|bytes?)?\s*", re.IGNORECASE
)


def byte_count(size: object, *, keyword: str) -> int:
    """Return a size as a number of bytes.

    Parameters
    ----------
    keyword
        The argument whose value it is, for messages.

    Raises
    ------
    InvalidInputError
        It is no size, or negative.

    Examples
    --------
    >>> byte_count("2GB", keyword="max_bytes"), byte_count("1.5 KiB", keyword="max_bytes")
    (2000000000, 1536)
    """
    if (
        isinstance(size, int | float | np.integer | np.floating)
        and not isinstance(size, bool)
        and 0 <= size < math.inf
    ):
        return int(size)
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if match is None:
        raise errors.InvalidInputError(
            f"{keyword}={size!r} is no size; pass a number of bytes, or text such as '500MB' or "
            "'2GiB'"
        )
    number, prefix, is_binary = match.groups()
    power = 0 if prefix is None else _PREFIXES.index(prefix.lower()) + 1
    return int(float(number) * (1024 if is_binary else 1000) ** power)


def shown_bytes(size_bytes: int) -> str:
    """Return a number of bytes for people.

    >>> shown_bytes(999), shown_bytes(1000), shown_bytes(999_960), shown_bytes(2 * 10**15)
    ('999 bytes', '1.0 kB', '1.0 MB', '2,000.0 TB')
    """
    size = float(size_bytes)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.95:
            return f"{size_bytes:,} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"
