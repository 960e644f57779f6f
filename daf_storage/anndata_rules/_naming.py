"""Names that the parts of an AnnData get in a Daf data set; pure."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np

from daf_storage.base import name_problem

_MOST_CHARACTERS = 120


def free_name(name: str, taken: Container[str]) -> str:
    """Return a name that every format can hold and that is not taken.

    >>> free_name("a/b", {"a_b"}), free_name("x", set())
    ('a_b_', 'x')
    """
    if name_problem(name) is not None:
        name = name.replace("/", "_").replace("\0", "_")[:_MOST_CHARACTERS] or "_"
        if name_problem(name) is not None:
            name = f"_{name}"
    while name in taken:
        name = f"{name}_"
    return name


def part_label(part: str, key: str) -> str:
    """Return what messages call a part of an AnnData.

    >>> part_label("obsm", "X_pca"), part_label("X", "")
    ("obsm['X_pca']", 'X')
    """
    return f"{part}[{key!r}]" if key else part


def scalar_value(value: Any) -> Any:
    """Return a value of ``uns`` that Daf can hold as a scalar; None for anything else."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return None
    if isinstance(value, np.str_):  # which is a str, too
        return str(value)
    if isinstance(value, bool | int | float | str):
        return value
    is_number = isinstance(value, np.generic) and value.dtype.kind in "biuf"
    return value if is_number and value.dtype != np.float16 else None
