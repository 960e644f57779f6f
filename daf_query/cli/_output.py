"""Print the rows of a query, or write them to a file; batches are written as they come."""

from __future__ import annotations

import math
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias, cast

import pyarrow as pa

from daf_query._formats import FILE_FORMATS, ROW_FORMATS
from daf_query._row_files import Format, Rows, json_lines, lists_of, write_rows
from daf_query._row_files import format_of as format_of_rows
from daf_query.cli._terminal import (
    TerminalBytes,
    coloured_table,
    pager_of,
    print_json,
    print_lines,
    progress_of,
)
from daf_query.sql import Explanation, QueryPlan, QueryResult
from daf_storage import ShowProgress, errors
from daf_storage._terminal_text import text_width, visible
from daf_storage.stores import find_output, open_output

OutputFormat: TypeAlias = Format | Literal["table"]
"""How rows are printed or written."""

_TABLE_SUFFIX = ".txt"
_STANDARD_OUTPUT = 1
_TERMINAL_ROWS = 40
_PAGED_ROWS = 10_000
_MAX_CELL = 60
_BLANKS = str.maketrans("\n\t", "  ")


def format_of(output: str | None) -> OutputFormat:
    """Return the format that a file name asks for; a table for standard output."""
    if output is None or Path(output).suffix == _TABLE_SUFFIX:
        return "table"
    try:
        return format_of_rows(Path(output))
    except errors.InvalidInputError as error:
        raise errors.InvalidInputError(f"{error}: --format") from None


def file_of(output: str | None) -> str | None:
    """Return the file to write to; None for standard output, also if that is named."""
    if output is None or output == "-":
        return None
    if Path(output).is_dir():  # of a slice in Zarr
        return output
    return None if find_output(output).descriptor == _STANDARD_OUTPUT else output


def to_standard_output(file_format: str | None) -> str:
    """Return the path of standard output, for what is written as bytes."""
    if file_format is None:
        raise errors.InvalidInputError("standard output has no suffix; name the format: --format")
    _refuse_binary(file_format)
    sys.stdout.flush()
    return "/dev/stdout"


def _refuse_binary(file_format: str) -> None:
    """Refuse to print what no terminal shows."""
    is_text = any(each.is_text for each in FILE_FORMATS if each.name == file_format)
    if not is_text and sys.stdout.isatty():
        raise errors.InvalidInputError(
            f"{file_format} is binary; write it to a file with -o FILE, or into a pipe"
        )


def to_stdout(
    result: QueryResult,
    file_format: OutputFormat,
    *,
    max_rows: int | None,
    pager: str | None = None,
) -> None:
    """Print the rows of a query; a long table in a pager, if one is given."""
    if file_format == "table":
        show_table(result.rows(), max_rows=shown_rows(max_rows, pager), pager=pager)
        return
    is_described = None if ROW_FORMATS[file_format].is_described else False
    print_rows(result.rows(provenance=is_described), file_format)


def show_table(rows: Rows, *, pager: str | None, max_rows: int | None = None) -> None:
    """Print rows as a table, in a pager if there is one and they do not fit."""
    print_lines(coloured_table(table_lines(rows, max_rows=max_rows), sys.stdout), pager)


def show_or_save(
    result: QueryResult, file_format: OutputFormat, output: str | None, options: Namespace
) -> None:
    """Print the rows of a query, or write them to a file, as the options of a command say."""
    if output is None:
        to_stdout(result, file_format, max_rows=options.max_rows, pager=pager_of(options))
    else:
        to_file(result, file_format, Path(output), progress=progress_of(options))


def shown_rows(max_rows: int | None, pager: str | None) -> int | None:
    """Return how many rows of a table are printed; None for all."""
    if max_rows is None and sys.stdout.isatty():
        return _TERMINAL_ROWS if pager is None else _PAGED_ROWS
    return max_rows or None


def print_rows(rows: Rows, file_format: Format) -> None:
    """Print rows for programs."""
    _refuse_binary(file_format)
    if file_format in ("json", "ndjson"):
        for line in json_lines(rows.plain(), file_format):
            print(visible(line) if sys.stdout.isatty() else line)
        return
    sys.stdout.flush()
    if not sys.stdout.isatty():
        write_rows(rows, file_format, sys.stdout.buffer)
        return
    with TerminalBytes() as terminal:
        write_rows(rows, file_format, cast("IO[bytes]", terminal))


def to_file(
    result: QueryResult, file_format: OutputFormat, path: Path, *, progress: ShowProgress
) -> None:
    """Write the rows of a query; the file appears when it is complete."""
    if file_format != "table":
        result.save(path, format=file_format, progress=progress)
        return
    lines = table_lines(result.rows(), max_rows=None)
    with open_output(path) as file:
        file.write(("\n".join(lines) + "\n").encode())


def explanation(explained: QueryPlan | Explanation, file_format: str) -> None:
    """Print the plan of a query, or its costs."""
    if file_format not in ("table", "json"):
        raise errors.InvalidInputError(f"a plan is printed as a table or json, not {file_format}")
    is_json = file_format == "json"
    if is_json:
        print_json(explained.as_dict())
    else:
        print(visible(str(explained)))


def table_lines(
    rows: Rows, *, max_rows: int | None, max_counted: int | None = None, option: str = "--max-rows"
) -> list[str]:
    """Return rows as an aligned table; numbers to the right, at most ``max_rows`` of them.

    Parameters
    ----------
    max_counted
        Up to how many rows are counted, where not all are shown; None counts them all.
    option
        What shows all.
    """
    rows = rows.plain()
    schema = rows.schema
    shown: list[list[str]] = []
    total = 0
    most = math.inf if max_rows is None or max_counted is None else max(max_rows, max_counted)
    for batch in rows.batches:
        total += batch.num_rows
        page = batch if max_rows is None else batch.slice(0, max_rows - len(shown))
        shown.extend([_cell(value) for value in row] for row in lists_of(page))
        if total > most:
            break
    is_number = [_is_number(field.type) for field in schema]
    lines = aligned(schema.names, shown, is_number)
    if total > len(shown):
        count = f"{total:,}" if total <= most else f"more than {most:,}"
        lines.append(f"... {count} rows; {len(shown)} shown, {option} 0 shows all")
    elif not shown:
        lines.append("(no rows)")
    return lines


def aligned(
    names: Sequence[str], rows: Iterable[Sequence[str]], is_number: Sequence[bool]
) -> list[str]:
    """Return the lines of a table.

    >>> aligned(["type", "n"], [["B", "12"]], [False, True])
    ['type   n', '----  --', 'B     12']
    """
    listed = [[visible(cell).translate(_BLANKS) for cell in row] for row in (names, *rows)]
    widths = [max(text_width(row[i]) for row in listed) for i in range(len(names))]
    lines = []
    for row in [listed[0], ["-" * most for most in widths], *listed[1:]]:
        cells = (
            _filled(cell, most, to_right=right)
            for cell, most, right in zip(row, widths, is_number, strict=True)
        )
        lines.append("  ".join(cells).rstrip())
    return lines


def _filled(cell: str, most: int, *, to_right: bool) -> str:
    blanks = " " * (most - text_width(cell))
    return blanks + cell if to_right else cell + blanks


def _is_number(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(data_type) or pa.types.is_floating(data_type))


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
