"""Tests of sizes in bytes as people write them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from daf_query.slice import byte_count
from daf_storage import errors


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, 0),
        (500, 500),
        (2e9, 2_000_000_000),
        (np.int64(7), 7),
        ("500", 500),
        ("500MB", 500_000_000),
        ("2GB", 2_000_000_000),
        ("2GiB", 2 << 30),
        ("2 gib", 2 << 30),
        (" 1.5 KiB ", 1536),
        ("3k", 3000),
        ("4 bytes", 4),
        ("1TB", 10**12),
    ],
)
def test_sizes(size: Any, expected: int) -> None:
    """Numbers are bytes; units are decimal, or binary with an i."""
    assert byte_count(size, keyword="max_bytes") == expected


@pytest.mark.parametrize(
    "size",
    [
        *(-1, "-1", "", "GB", "2 XB", "1e9", "2GB5", True, None, float("nan"), float("inf"), [1]),
        np.complex64(1),
    ],
)
def test_nonsense(size: Any) -> None:
    """It is an error that says what was passed, and what to pass."""
    with pytest.raises(errors.InvalidInputError, match="max_bytes=.* is no size; pass a number"):
        byte_count(size, keyword="max_bytes")
