"""The commands `head` and `describe`, which look at the vectors of an axis."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from daf_query._row_files import Rows
from daf_query.cli import _output
from daf_query.cli._colours import coloured_table
from daf_query.cli._column_descriptions import ColumnDescription, described_column
from daf_query.cli._connected import reading
from daf_query.cli._entries import listed_names
from daf_query.cli._pager import pager_of, print_lines
from daf_query.session import DafSession
from daf_query.syntax import quoted_name
from daf_query.table import DATASET
from daf_storage import errors

_KEYS = ("name", "index")


def head_command(options: argparse.Namespace) -> None:
    """Print the first entries of an axis."""
    options.no_provenance = True
    with reading(options) as session:
        columns = _columns(session, options)
        order = ", ".join(name for name in (DATASET, "index") if name in columns)
        chosen = columns if options.columns is None else _chosen(options, columns, key="name")
        listed = ", ".join(map(quoted_name, chosen))
        rows = session.sql(
            f"SELECT {listed} FROM {quoted_name(options.axis)} ORDER BY {order} "  # noqa: S608 - quoted
            f"LIMIT {options.rows}"
        )
        pager = pager_of(options)
        _output.to_stdout(rows, options.format, max_rows=0, pager=pager)


def describe_command(options: argparse.Namespace) -> None:
    """Print what the vectors of an axis are like."""
    options.no_provenance = True
    with reading(options) as session:
        columns = _columns(session, options)
        every = [name for name in columns if name not in _KEYS]
        chosen = every if options.columns is None else _chosen(options, columns)
        described = [described_column(session, options.axis, name) for name in chosen]
    if options.format in ("json", "ndjson"):
        _print_json(described, options.format)
        return
    is_table = options.format == "table"
    records = [each.as_text(is_short=is_table) for each in described]
    table = pa.Table.from_pylist(records, schema=ColumnDescription.TEXT_SCHEMA)
    rows = Rows(table.schema, table.to_batches())
    if is_table:
        lines = _output.table_lines(rows, max_rows=None)
        print_lines(coloured_table(lines, sys.stdout), pager_of(options))
    else:
        _output.print_rows(rows, options.format)


def _print_json(described: Sequence[ColumnDescription], file_format: str) -> None:
    records: list[dict[str, Any]] = [each.as_dict() for each in described]
    if file_format == "json":
        print(json.dumps(records, indent=2))
        return
    for record in records:
        print(json.dumps(record))


def _columns(session: DafSession, options: argparse.Namespace) -> list[str]:
    """Return the columns of the table of an axis."""
    table = quoted_name(options.axis)
    return session.sql(f"SELECT * FROM {table}").column_names  # noqa: S608 - it is planned only


def _chosen(options: argparse.Namespace, columns: Sequence[str], key: str = "") -> list[str]:
    """Return the columns that are asked for, after the one that names the rows."""
    names = listed_names(options.columns) or [options.columns]
    for name in names:
        if name not in columns:
            raise errors.vector_not_found(options.path, options.axis, name, columns)
    return list(dict.fromkeys([*([key] if key else []), *names]))
