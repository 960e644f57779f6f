"""Values of a column as Python objects, or as strings where Python has none for one."""

from __future__ import annotations

import pyarrow as pa

_NO_OBJECT = (ArithmeticError, LookupError, ValueError, pa.ArrowException)


def shown_values(values: pa.Array | pa.ChunkedArray) -> list[object]:
    """Return values as Python objects, to be shown; as a string what Python has no object for.

    That is a date after the year 9999, a duration of more than 2.7 million years, or a moment in a
    time zone that is not known.

    Examples
    --------
    >>> shown_values(pa.array([10_000_000, None], pa.int32()).cast(pa.date32()))
    ['29349-01-26', None]
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    try:
        known: list[object] = values.to_pylist()
    except _NO_OBJECT:
        return [_shown(values.slice(place, 1)) for place in range(len(values))]
    return known


def _shown(single: pa.Array) -> object:
    try:
        known: object = single.to_pylist()[0]
    except _NO_OBJECT:
        return " ".join(single.to_string().split()).removeprefix("[").removesuffix("]").strip()
    return known
