"""Print the rows of a query, or write them to a file; batches are written as they come."""

from __future__ import annotations

import io
import math
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from daf_query._formats import FILE_FORMATS, ROW_FORMATS
from daf_query.cli._later import pa, row_files, stores
from daf_query.cli._terminal import aligned, pager_of, print_json, print_table, progress_of
from daf_storage import errors
from daf_storage._terminal_text import visible

if TYPE_CHECKING:
    from daf_query._row_files import Format, Rows
    from daf_query.sql import Explanation, QueryPlan, QueryResult
    from daf_storage import ShowProgress

OutputFormat: TypeAlias = "Format | Literal['table']"
"""How rows are printed or written."""

_STANDARD_OUTPUT = 1
_TERMINAL_ROWS = 40
_PAGED_ROWS = 10_000
_MAX_CELL = 60


def format_of(output: str | None) -> OutputFormat:
    """Return the format that a file name asks for; a table for standard output."""
    if output is None or Path(output).suffix == ".txt":
        return "table"
    try:
        return row_files.format_of(Path(output))
    except errors.InvalidInputError as error:
        raise errors.InvalidInputError(f"{error}: --format") from None


def file_of(output: str | None) -> str | None:
    """Return the file to write to; None for standard output, also if that is named."""
    if output is None or output == "-":
        return None
    is_folder = Path(output).is_dir()  # of a slice in Zarr
    return (
        output if is_folder or stores.find_output(output).descriptor != _STANDARD_OUTPUT else None
    )


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
    print_table(table_lines(rows, max_rows=max_rows), pager)


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
    """Print rows for programs; on a terminal, visibly."""
    _refuse_binary(file_format)
    sys.stdout.flush()
    is_terminal = sys.stdout.isatty()
    if not is_terminal and hasattr(sys.stdout, "buffer"):  # a notebook's output has none
        row_files.write_rows(rows, file_format, sys.stdout.buffer)
        return
    written = io.BytesIO()
    row_files.write_rows(rows, file_format, written)
    text = written.getvalue().decode()
    sys.stdout.write(visible(text) if is_terminal else text)


def to_file(
    result: QueryResult, file_format: OutputFormat, path: Path, *, progress: ShowProgress
) -> None:
    """Write the rows of a query; the file appears when it is complete."""
    if file_format != "table":
        result.save(path, format=file_format, progress=progress)
        return
    lines = table_lines(result.rows(), max_rows=None)
    with stores.open_output(path) as file:
        file.write(("\n".join(lines) + "\n").encode())


def explanation(explained: QueryPlan | Explanation, file_format: str) -> None:
    """Print the plan of a query, or its costs."""
    if file_format not in ("table", "json"):
        raise errors.InvalidInputError(f"a plan is printed as a table or json, not {file_format}")
    if file_format == "json":
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
    shown: list[list[str]] = []
    total = 0
    most = math.inf if max_rows is None or max_counted is None else max(max_rows, max_counted)
    for batch in rows.batches:
        total += batch.num_rows
        page = batch if max_rows is None else batch.slice(0, max_rows - len(shown))
        shown.extend([cell_text(value) for value in row] for row in row_files.lists_of(page))
        if total > most:
            break
    types = pa.types
    is_number = [types.is_integer(t) or types.is_floating(t) for t in rows.schema.types]
    lines = aligned(rows.schema.names, shown, is_number)
    if total > len(shown):
        count = f"{total:,}" if total <= most else f"more than {most:,}"
        lines.append(f"... {count} rows; {len(shown)} shown, {option} 0 shows all")
    elif not shown:
        lines.append("(no rows)")
    return lines


def cell_text(value: Any) -> str:
    """Return a value as people read it in a table.

    >>> cell_text(None), cell_text(True), cell_text(1228.43219)
    ('NULL', 'true', '1228.43')
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        is_large = 1e6 <= abs(value) < 1e15
        return f"{value:.1f}" if is_large else f"{value:.6g}"
    text = " ".join(str(value).split("\n"))
    return text if len(text) <= _MAX_CELL else f"{text[: _MAX_CELL - 1]}…"
