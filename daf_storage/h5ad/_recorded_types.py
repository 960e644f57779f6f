"""Types that an import recorded of vectors: dates, nullable booleans, integers, categoricals.

The notes are rules (see `_columns`) from which a table tells the type of a column before anything
of it is read.  They are from a file: whatever makes no sense is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from daf_storage.anndata_rules import notes as _notes
from daf_storage.data import DafReader
from daf_storage.errors import FormatError, ReadOnlyError

_DATE: Final = re.compile(
    r"(?:datetime64|timestamp)\[(?P<unit>s|ms|us|ns)(?:, (?:tz=)?(?P<zone>[^\]]+))?\]"
)
_INTEGERS: Final = {
    str(kind): kind
    for kind in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    )
}


@dataclass(frozen=True, slots=True)
class RecordedType:
    """What the values of a vector were before they were stored as strings or floats."""

    type: pa.DataType
    """A timestamp, ``bool``, an integer; ``string`` of a categorical."""
    categories: pa.Array | None = None
    """Of a categorical, its categories in their order."""
    is_ordered: bool = False
    """Whether the order of the categories has a meaning."""


def recorded_types(
    daf: DafReader, axis: str, among: Iterable[str] | None = None
) -> Mapping[str, RecordedType]:
    """Return what an import noted of the vectors of an axis, by their names.

    A vector that was replaced since may hold something else: who converts it has to check.

    Parameters
    ----------
    among
        The vectors of which it is needed, if not of all; others may be left out.
    """
    try:
        rules = _notes.column_rules(daf, axis, among)
    except (FormatError, ReadOnlyError, AttributeError):
        return {}
    recorded = {}
    for rule in rules:
        found = _recorded(daf, rule) if isinstance(rule, dict) else None
        if found is not None:
            recorded[str(rule["vector"])] = found
    return recorded


def _recorded(daf: DafReader, rule: dict[str, Any]) -> RecordedType | None:
    if not isinstance(rule.get("vector"), str):
        return None
    kind, dtype = rule.get("kind"), str(rule.get("dtype", ""))
    if kind == "categorical":
        categories = _categories(daf, rule)
        if categories is None:
            return None
        return RecordedType(pa.string(), categories, is_ordered=rule.get("ordered") is True)
    if kind == "date" and (match := _DATE.match(dtype)):
        return RecordedType(_timestamp(match["unit"], match["zone"]))
    if kind == "nullable":
        name = dtype.lower().split("[", 1)[0]
        if name in ("boolean", "bool"):
            return RecordedType(pa.bool_())
        if name in _INTEGERS:
            return RecordedType(_INTEGERS[name])
    return None


def _timestamp(unit: str, zone: str | None) -> pa.DataType:
    """Return a type of times; those of a zone that Arrow does not know are shown in UTC."""
    if zone is None:
        return pa.timestamp(unit)
    zone = zone.removeprefix("UTC") if re.fullmatch(r"UTC[+-]\d\d:\d\d", zone) else zone
    try:
        pc.local_timestamp(pa.scalar(0, pa.timestamp("s", zone))).as_py()
        pa.scalar(0, pa.timestamp("s", zone)).as_py()
    except (pa.ArrowException, ValueError, LookupError):
        return pa.timestamp(unit, "UTC")
    return pa.timestamp(unit, zone)


def _categories(daf: DafReader, rule: dict[str, Any]) -> pa.Array | None:
    listed = rule.get("categories")
    if isinstance(listed, list) and all(isinstance(name, str) for name in listed):
        unique = list(dict.fromkeys(listed))
        return pa.array(unique, pa.string())
    axis = rule.get("axis")
    if isinstance(axis, str) and daf.has_axis(axis):
        return pa.array(daf.axis_entries(axis).tolist(), pa.string())
    return None
