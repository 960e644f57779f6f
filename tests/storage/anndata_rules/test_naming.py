"""Tests of names, and of which values of ``uns`` are scalars."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from daf_storage.anndata_rules import free_name, part_label, scalar_value


@pytest.mark.parametrize(
    "value",
    [
        *(2**63 - 1, -(2**63), True, 0.5, "x", "", float("inf")),
        *(np.int8(3), np.uint64(2**64 - 1), np.float32(0.5), np.bool_(1)),
    ],
)
def test_scalars(value: Any) -> None:
    """As they are, up to the ends of 64 bits."""
    assert scalar_value(value) is value


@pytest.mark.parametrize(
    "value",
    [
        *(2**63, -(2**63) - 1, None, b"x", 1j, [1], np.zeros(1), np.float16(1), np.complex64(1)),
        *(np.datetime64("2024-01-01"), np.bytes_(b"x")),
    ],
)
def test_what_is_no_scalar(value: Any) -> None:
    """Larger integers, and all that Daf has no type for."""
    assert scalar_value(value) is None


def test_strings_of_numpy() -> None:
    """They are strings of Python."""
    found = scalar_value(np.str_("x"))
    assert (found, type(found)) == ("x", str)


def test_names() -> None:
    """A name that is taken is lengthened until it is free."""
    assert free_name("a", {"b"}) == "a"
    assert free_name("a", {"a", "a_"}) == "a__"
    assert (part_label("obsm", "X"), part_label("X", "")) == ("obsm['X']", "X")
