"""Duplicate strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from daf_storage._lazy import lazy_module

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy_module("pyarrow.compute")


def first_duplicate(strings: Any) -> str | None:
    """Return a string that occurs more than once; None if all are unique.

    Parameters
    ----------
    strings
        An Arrow array of strings or of large strings, without nulls.

    Returns
    -------
    str or None
        Of several, the one that comes first in the array.

    Examples
    --------
    >>> import pyarrow as pa
    >>> first_duplicate(pa.array(["a", "b", "a"]))
    'a'
    >>> first_duplicate(pa.array(["a", "b"])) is None
    True
    """
    if len(pc.unique(strings)) == len(strings):
        return None
    counts = pc.value_counts(strings)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    return str(repeated.field("values")[0].as_py())
