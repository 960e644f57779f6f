"""Rows of a query as text or as files; batches are written as they come."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from daf_query.explaining import Explanation
from daf_query.export import replacing
from daf_query.results import QueryResult
from daf_query.saving import BINARY, SUFFIXES, Format, json_lines, lists_of, write_rows
from daf_storage import ShowProgress, errors

Kind: TypeAlias = Format | Literal["table"]
"""How rows are printed or written."""

_TERMINAL_ROWS = 40
_MAX_CELL = 60


def format_of(output: str | None) -> Kind:
    """Return the format that a file name asks for; a table for standard output."""
    if output is None:
        return "table"
    suffix = Path(output).suffix
    kinds: dict[str, Kind] = {**SUFFIXES, ".txt": "table"}
    if suffix not in kinds:
        raise errors.InvalidInputError(
            f"cannot tell the format of {output!r} from its suffix; "
            f"use one of {', '.join(kinds)}, or say it with --format"
        )
    return kinds[suffix]


def to_stdout(result: QueryResult, kind: Kind, *, max_rows: int | None) -> None:
    """Print the rows of a query."""
    if kind == "table":
        limit = _TERMINAL_ROWS if max_rows is None and sys.stdout.isatty() else max_rows or None
        print(as_table(result, max_rows=limit))
        return
    if kind in BINARY and sys.stdout.isatty():
        raise errors.InvalidInputError(
            f"{kind} is binary; write it to a file with -o FILE, or into a pipe"
        )
    if kind in ("json", "ndjson"):
        for line in json_lines(result.rows().plain(), kind):
            print(line)
        return
    sys.stdout.flush()
    write_rows(result.rows(), kind, sys.stdout.buffer)


def to_file(result: QueryResult, kind: Kind, path: Path, *, progress: ShowProgress) -> None:
    """Write the rows of a query; the file appears when it is complete."""
    if kind != "table":
        result.save(path, format=kind, progress=progress)
        return
    if not path.parent.is_dir():
        raise errors.SourceNotFoundError(f"cannot write {str(path)!r}: no such directory")
    text = as_table(result, max_rows=None) + "\n"
    replacing(path, lambda temporary: _write_text(temporary, text))


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def explanation(told: Explanation, kind: str) -> None:
    """Print what a query cost."""
    if kind not in ("table", "json"):
        raise errors.InvalidInputError(f"what a query cost is a table or json, not {kind}")
    print(json.dumps(told.as_dict(), indent=2) if kind == "json" else told)


def as_table(result: QueryResult, *, max_rows: int | None) -> str:
    """Return rows as an aligned table; numbers to the right, at most ``max_rows`` of them."""
    rows = result.rows().plain()
    schema = rows.schema
    shown: list[list[str]] = []
    total = 0
    for batch in rows.batches:
        total += batch.num_rows
        wanted = batch if max_rows is None else batch.slice(0, max_rows - len(shown))
        shown.extend([_cell(value) for value in row] for row in lists_of(wanted))
    is_number = [_is_number(field.type) for field in schema]
    lines = aligned(schema.names, shown, is_number)
    if total > len(shown):
        lines.append(f"... {total:,} rows; {len(shown)} shown, --max-rows 0 shows all")
    elif not shown:
        lines.append("(no rows)")
    return "\n".join(lines)


def aligned(
    names: Sequence[str], rows: Iterable[Sequence[str]], is_number: Sequence[bool]
) -> list[str]:
    """Return the lines of a table.

    >>> aligned(["type", "n"], [["B", "12"]], [False, True])
    ['type   n', '----  --', 'B     12']
    """
    listed = [list(names), *map(list, rows)]
    widths = [max(len(row[i]) for row in listed) for i in range(len(names))]
    lines = []
    for row in [listed[0], ["-" * width for width in widths], *listed[1:]]:
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        )
        lines.append("  ".join(cells).rstrip())
    return lines


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        is_large = 1e6 <= abs(value) < 1e15
        return f"{value:.1f}" if is_large else f"{value:.6g}"
    text = " ".join(str(value).split("\n"))
    return text if len(text) <= _MAX_CELL else f"{text[: _MAX_CELL - 1]}…"


def human_bytes(size: float) -> str:
    """Return a size for people.

    >>> human_bytes(1536)
    '1.5 KiB'
    """
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
