"""A description of a column, computed from its distinct values and how often each occurs.

A query reads the column, once: its distinct values and their counts say all the rest, exactly.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.session import DafSession
from daf_query.syntax import quoted_name

_QUARTERS: Final = (0.25, 0.5, 0.75)


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """What a column is like; None is what its type does not have."""

    column: str
    type: str
    count: int
    """Values that are not missing."""
    missing: int
    distinct: int
    min: Any = None
    max: Any = None
    mean: float | None = None
    """Of numbers."""
    q1: float | None = None
    """A quarter of the numbers is less; between two of them it is interpolated, as in numpy."""
    median: float | None = None
    q3: float | None = None
    top: Any = None
    """The most frequent value, of several the least; None if no value occurs twice."""
    top_count: int | None = None

    TEXT_SCHEMA: ClassVar[pa.Schema] = pa.schema(
        [
            ("column", pa.string()),
            ("type", pa.string()),
            ("count", pa.int64()),
            ("missing", pa.int64()),
            ("distinct", pa.int64()),
            ("min", pa.string()),
            ("max", pa.string()),
            *((name, pa.float64()) for name in ("mean", "q1", "median", "q3")),
            ("top", pa.string()),
            ("top_count", pa.int64()),
        ]
    )
    """The types of a table of them: values of columns of several types are strings there."""

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON; numbers stay numbers."""
        return {name: _plain(value) for name, value in asdict(self).items()}

    def as_text(self, *, is_short: bool) -> dict[str, Any]:
        """Return it for a table; numbers for people have six digits."""

        def text(value: Any) -> str | None:
            if value is None or not (is_short and isinstance(value, float)):
                return None if value is None else str(value)
            return f"{value:.6g}"

        shown = {name: text(getattr(self, name)) for name in ("min", "max", "top")}
        return {**asdict(self), **shown}


def described_column(session: DafSession, axis: str, name: str) -> ColumnDescription:
    """Return what a column of an axis is like."""
    column = quoted_name(name)
    counted = session.sql(
        f"SELECT {column} AS value, count(*) AS n FROM {quoted_name(axis)} GROUP BY {column}"  # noqa: S608 - quoted
    ).to_arrow_table()
    values = counted.column("value").combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    counts = counted.column("n").to_numpy()
    return description_of(name, values, counts)


def description_of(name: str, values: pa.Array, counts: npt.NDArray[Any]) -> ColumnDescription:
    """Return what a column is like of which the distinct values, and their counts, are given.

    >>> description_of("age", pa.array([3, 1, None]), np.array([1, 2, 5])).median
    1.0
    """
    is_known = values.is_valid().to_numpy(zero_copy_only=False)
    known, kept = values.filter(pa.array(is_known)), counts[is_known]
    numbers: dict[str, Any] = {
        "count": int(kept.sum()),
        "missing": int(counts.sum() - kept.sum()),
        "distinct": len(known),
    }
    kind = str(values.type)
    if not len(known) or pa.types.is_nested(values.type):
        return ColumnDescription(name, kind, **numbers)
    order = pc.sort_indices(known).to_numpy()
    known, kept = known.take(pa.array(order)), kept[order]
    most = int(np.argmax(kept))
    has_top = bool(kept[most] > 1)
    return ColumnDescription(
        name,
        kind,
        **numbers,
        min=_value(known[0]),
        max=_value(known[-1]),
        **_statistics(known, kept),
        top=_value(known[most]) if has_top else None,
        top_count=int(kept[most]) if has_top else None,
    )


def _statistics(values: pa.Array, counts: npt.NDArray[Any]) -> dict[str, Any]:
    """Return the mean and the quartiles of sorted numbers; nothing for others."""
    kind, types = values.type, pa.types
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
        return {}
    numbers = values.cast(pa.float64(), safe=False).to_numpy()
    ends = np.cumsum(counts)
    total = int(ends[-1])
    quartiles = []
    for share in _QUARTERS:
        place = share * (total - 1)
        low, high = (
            float(numbers[np.searchsorted(ends, each, side="right")])
            for each in (math.floor(place), math.ceil(place))
        )
        weight = place - math.floor(place)
        quartiles.append(low if low == high else low * (1 - weight) + high * weight)
    with np.errstate(invalid="ignore", over="ignore"):
        mean = float(np.average(numbers, weights=counts))
    return {"mean": mean, "q1": quartiles[0], "median": quartiles[1], "q3": quartiles[2]}


def _value(value: pa.Scalar) -> Any:
    """Return a value; of a float of 32 bits, the one with the fewest digits that is the same."""
    plain = value.as_py()
    if pa.types.is_float32(value.type):
        return float(str(np.float32(plain)))
    return plain


def _plain(value: Any) -> Any:
    """Return a value that JSON has."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)
