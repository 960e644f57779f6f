"""The scalars of a data set as a table of strings."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.dataset

from daf_storage import DafReader
from daf_storage.errors import FormatError, ReadOnlyError


def scalars_table(daf: DafReader) -> tuple[pa.dataset.Dataset, dict[str, str]]:
    """Return the scalars (names, stored types and values as text), and why some are left out."""
    rows: list[tuple[str, str, str]] = []
    problems = {}
    for name in sorted(daf.scalars_set()):
        try:
            rows.append((name, daf.scalar_type(name).value, _text(daf.get_scalar(name))))
        except (FormatError, ReadOnlyError) as error:
            problems[name] = str(error)
    columns = {
        title: _strings(row[place] for row in rows)
        for place, title in enumerate(("name", "type", "value"))
    }
    return pa.dataset.dataset(pa.table(columns)), problems


def _strings(values: Iterable[str]) -> pa.Array:
    return pa.array(list(values), pa.string())


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
