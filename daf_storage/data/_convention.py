"""How the bytes of a property are to be read, where their type and shape do not say it.

An attribute of the stored group or array holds it.  So it comes and goes with the property: what
replaces the property has the attribute only if it was written with it.  Programs that do not know
the attribute ignore it.  Source: docs/reference/format.md, "Conventions".
"""

from __future__ import annotations

import enum
import reprlib
import warnings
from typing import Final

from daf_storage.errors import CorruptDataError, DafWarning, ReadOnlyError
from daf_storage.trees import Node

ATTRIBUTE: Final = "daf_convention"
"""Name of the attribute."""


class Convention(enum.Enum):
    """The conventions; a property has one of them or none."""

    ROW_MAJOR = "row-major"
    """Of a matrix of an axis with itself: its rows are stored one after the other."""
    EMPTY_IS_MISSING = "empty-is-missing"
    """Of a vector of strings: an empty string stands for a missing value."""


class ConventionWarning(DafWarning):
    """A convention of a stored property is unreadable or unknown, and is ignored."""


def attributes_of(convention: Convention | None) -> dict[str, str]:
    """Return the attributes that store a convention.

    >>> attributes_of(Convention.ROW_MAJOR)
    {'daf_convention': 'row-major'}
    """
    return {} if convention is None else {ATTRIBUTE: convention.value}


def follows(node: Node, convention: Convention, *, what: str) -> bool:
    """Return whether a node follows a convention; one that makes no sense there is ignored."""
    problem, found = _read(node, {convention})
    if problem:
        warnings.warn(
            f"{what}: {problem}; it is ignored, so the values may be read wrongly: write the "
            "property again",
            ConventionWarning,
            stacklevel=2,
        )
    return found is convention


def convention_problem(node: Node, allowed: set[Convention]) -> str:
    """Say what is wrong with the convention of a node; empty if nothing is."""
    return _read(node, allowed)[0]


def _read(node: Node, allowed: set[Convention]) -> tuple[str, Convention | None]:
    """Return what is wrong with the convention, and the convention if nothing is."""
    try:
        value = node.attribute(ATTRIBUTE)
    except (CorruptDataError, ReadOnlyError) as error:
        return f"its attributes cannot be read ({error})", None
    if value is None:
        return "", None
    for convention in allowed:
        if isinstance(value, str) and value == convention.value:
            return "", convention
    known = " or ".join(repr(one.value) for one in allowed) or "absent"
    return f"its attribute {ATTRIBUTE} is {reprlib.repr(value)}; here it can only be {known}", None
